"""gradscope in this process: the debuggee's own server, calls and stops, and in the socket's place a person who plays by rote."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gradscope.debuggee.calls import Calls
from gradscope.debuggee.serve import Server
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import TapeColumns
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.protocol import messages as m

OTHER_SEEDS = ("*-2", "*3")
Kind = TypeVar("Kind")
Bytes = tuple[str, tuple[int, ...], bytes]


@dataclass
class PlayedLink:
    """Keeps the reports. At each stop it asks for more passes with other seeds, for the leaves' gradients, and goes on."""

    reports: list[Any] = field(default_factory=list)
    live: bool = True
    news_due: bool = False
    interrupts: Any = field(default_factory=nullcontext)
    more: Sequence[m.Request] = ()
    """what else to ask at each stop, before the script goes on"""
    _requests: deque[Any] | None = None

    def send(self, report: Any) -> None:
        self.reports.append(report)
        if isinstance(report, m.Stopped):
            self._requests = None

    def send_now_and_then(self, report: Any) -> None:
        pass

    def poll(self) -> None:
        return None

    def receive(self) -> Any:
        if self._requests is None:
            self._requests = self._asked()
        return self._requests.popleft()

    def give_up(self, what: str, done: int, total: int) -> bool:
        return False

    def close(self) -> None:
        self.live = False

    def _asked(self) -> deque[Any]:
        seen = calls_in(self.reports)[-1]
        if seen.graph is None:
            return deque([m.Resume()])
        seeds = [[m.SeedText(text)] * len(seen.graph.columns.roots) for text in OTHER_SEEDS]
        explores = [m.Explore(place, texts) for place, texts in enumerate(seeds, 1)] if not seen.is_over else []
        fetch = [m.FetchTensors(9, seen.tape.number, seen.leaf_tensors)] if seen.tape is not None else []
        return deque([*explores, *fetch, *self.more, m.Resume()])


@dataclass
class Seen:
    """What a person sees of one backward call."""

    stopped: m.Stopped
    graph: BackwardGraph | None = None
    tapes: list[TapeColumns] = field(default_factory=list)
    """of the script's own seeds, then of other ones"""
    bytes: dict[int, Bytes] = field(default_factory=dict)
    """of the first pass's tensors that were sent"""
    refused: list[m.Refused] = field(default_factory=list)
    committed: m.Committed | None = None
    is_over: bool = False
    """its own call had run when it stopped"""

    @property
    def tape(self) -> Tape | None:
        return None if self.graph is None or not self.tapes else Tape(self.tapes[0], self.graph)

    @property
    def leaf_tensors(self) -> list[int]:
        """Numbers of what each leaf that is asked for has got, or has in `.grad` afterwards; without those that have none."""
        return [number for number in self._by_leaf() if number != NO_TENSOR]

    @property
    def leaf_values(self) -> list[Bytes | None]:
        return [None if number == NO_TENSOR else self.bytes.get(number) for number in self._by_leaf()]

    def _by_leaf(self) -> list[int]:
        tape = self.tape
        assert tape is not None
        assert self.graph is not None
        read = tape.leaf_after if self.stopped.call.kind == "backward" else tape.leaf_total
        return [read(number) for number, leaf in enumerate(self.graph.columns.leaves) if leaf.target and leaf.node >= 0]

    @property
    def words(self) -> str:
        """All that is said of it in words."""
        said = [f"{one.what}: {one.why}" for one in self.refused]
        for tape in self.tapes:
            said += [*tape.notes, tape.exact_reason]
            said += [] if tape.failure is None else [f"{tape.failure.type}: {tape.failure.message}"]
        said += [] if self.committed is None else [self.committed.reason, self.committed.error]
        return "\n".join(filter(None, [self.stopped.detail, *said]))


def calls_in(reports: list[Any]) -> list[Seen]:
    """The reports of each call."""
    seen: list[Seen] = []
    for report in reports:
        match report:
            case m.Stopped():
                seen.append(Seen(report))
            case m.Captured():
                seen[-1].graph = BackwardGraph(report.graph)
            case m.Recorded():
                seen[-1].tapes.append(report.tape)
            case m.TensorBytes(tape=1):
                seen[-1].bytes[report.tensor] = report.dtype, report.shape, report.data
            case m.Refused():
                seen[-1].refused.append(report)
            case m.Committed():
                seen[-1].committed = report
                seen[-1].is_over = True
    return seen


@contextmanager
def gradscope(more: Sequence[m.Request] = (), **configure: Any) -> Iterator[PlayedLink]:
    """Inside, every backward call of this process is a stop, or is recorded with `record=-1`."""
    link = PlayedLink(more=more)
    calls = Calls(Server(link, m.Configure(**configure)))  # type: ignore[arg-type]
    gc.freeze()  # what was there before need not be looked through at each stop
    try:
        yield link
    finally:
        gc.unfreeze()
        calls.detach()
