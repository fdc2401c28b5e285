"""The table of origins of one run: which place made the node with which number, however that was seen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from gradscope.debuggee import library_frames, parameters_made
from gradscope.debuggee.boundaries import Boundaries
from gradscope.debuggee.broadcasts import Broadcasts
from gradscope.debuggee.grad_mode import GradMode
from gradscope.debuggee.grad_reads import GradReads
from gradscope.debuggee.occurrences import Line, count
from gradscope.debuggee.places import Key, Place, Places
from gradscope.debuggee.spans import Spans
from gradscope.debuggee.whereabouts import finder
from gradscope.debuggee.writes import Writes
from gradscope.model.places import Origin


class Origins:
    """Autograd numbers the nodes of a thread as it makes them. Stretches of numbers are noted, with the place that made them.

    Nothing of a node or a tensor is touched or kept. How the stretches are seen is for those who inherit: `_start` and `_stop`.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.spans = Spans()
        self.places = Places(torch)
        self.boundaries = Boundaries(torch, self.place_of)
        self.writes = Writes(torch, self.place_of)
        self.broadcasts = Broadcasts(torch)
        self.grad_mode = GradMode(torch, self.place_of)
        self.grad_reads = GradReads(torch, self.place_of, self.places)
        self._where = finder(torch.nn.Module)
        self.undo: list[Callable[[], None]] = [parameters_made.watch(torch, self.boundaries.wrapped, self.seeing)]
        self._paused = 1
        self._thread = threading.get_ident()

    def lookup(self, sequence_nr: int, op: str = "") -> Origin | None:
        """The origin of the node with this number in the main thread, or None when nobody saw it being made.

        Args:
            sequence_nr: the node's.
            op: its name, `MulBackward0`: where Python tells the line alone it helps to find the expression.
        """
        at = -1 if self._elsewhere() else self.spans.place(sequence_nr)
        if at < 0:
            return None
        return self.places.origin(self.spans.values[at], op, sequence_nr + 1 == self.spans.ends[at])

    def occurrences(self, sequence_nrs: Sequence[int]) -> list[int]:
        """Which run of its line made each node, counting those that made any of these; 0 where that cannot be told.

        Args:
            sequence_nrs: the nodes', ascending.
        """
        return count(map(self._made, sequence_nrs), self._unsure)

    def _made(self, sequence_nr: int) -> tuple[Place, int] | None:
        at = -1 if self._elsewhere() else self.spans.place(sequence_nr)
        return None if at < 0 else (self.places.place(self.spans.values[at]), self.spans.runs[at])

    def _unsure(self, line: Line) -> bool:
        """Whether the runs of a line may be told apart wrongly."""
        raise NotImplementedError

    @contextmanager
    def naming_modules(self, path: Callable[[Any], str]) -> Iterator[None]:
        """Within, a module's path is what this says: `Names(frame, origins.modules()).module`. Nothing of it is kept."""
        with self.places.naming_modules(path):
            yield

    def modules(self) -> list[Any]:
        """The live modules that were called from outside any other: the roots that module paths start from."""
        return self.places.modules()

    def pause(self) -> None:
        """See nothing until the matching `resume`: while gradscope itself computes."""
        if self._elsewhere():
            return
        self._paused += 1
        if self._paused == 1:
            self._stop()

    def resume(self) -> None:
        """Go on with what `pause` ended."""
        if self._elsewhere():
            return
        self._paused -= 1
        if self._paused == 0:
            self._start()

    def remove(self) -> None:
        """Undo everything; what was noted stays known."""
        if self._paused == 0:
            self.pause()
        self._paused = 1 << 30
        for undo in reversed(self.undo):
            undo()
        self.undo.clear()

    def span(self) -> Callable[[], None]:
        """Give all nodes made between now and the call of the result to the person's line above whoever calls the result."""
        raise NotImplementedError

    def place_of(self, frame: FrameType, function: Any) -> int:
        """The number of the place that calls this function of torch's in this frame."""
        chosen, module, below, _ = self._where(frame)
        key = (id(chosen.f_code), chosen.f_lasti, 0 if module is None else id(module), function, below)
        found = self.places.by_key.get(key)
        return self._intern_call(key, chosen, module, frame, function) if found is None else found

    def _intern_call(self, key: Key, chosen: FrameType, module: Any, frame: FrameType, function: Any) -> int:
        below = library_frames.between(frame, chosen) if frame is not chosen else ()
        return self.places.intern(key, chosen, module, function=function, below=below)

    def seeing(self) -> bool:
        """Whether calls made here and now are noted."""
        return self._paused == 0 and not self._elsewhere()

    def _elsewhere(self) -> bool:
        """Whether this is another thread: it has numbers of its own."""
        return threading.get_ident() != self._thread

    def _start(self) -> None:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError
