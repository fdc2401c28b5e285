"""What only the running script knows of a pass: where the forward went bad, who wrote into what a node saved, what was freed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from gradscope.debuggee.capture import Captured
from gradscope.debuggee.forward_births import ForwardBirths
from gradscope.debuggee.forward_values import ForwardValues, holds_bad, is_readable, looked
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.names import Names
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.saved_writes import Seen, WriteWitness, edited_since_saved, silently_written
from gradscope.debuggee.subject import Subject
from gradscope.debuggee.timeline import Timeline
from gradscope.model.columns import TapeColumns
from gradscope.model.facts import Freed, Write
from gradscope.model.places import UNKNOWN, Origin
from gradscope.model.tensors import KNOWN_COUNTS, NO_TENSOR

FreedBy = Callable[[int], tuple[int, bool]]
"""the sequence number of a node -> the number of the call that freed it, 0 for none that is known; and whether it is certain"""
_EDITED, _FREED = "modified by an inplace operation", "backward through the graph a second time"


@dataclass(slots=True)
class Witnesses:
    """Those who saw what happened in the script; either may be missing."""

    writes: WriteWitness | None = None
    freed_by: FreedBy | None = None


def witnesses(origins: Origins | None, timeline: Timeline, call: int) -> Witnesses:
    """Those of this run, of what happened before the call of this number."""
    writes = None if origins is None else _Writes(origins)
    return Witnesses(writes, lambda number: timeline.freed_by(number, call))


@dataclass(slots=True)
class _Writes:
    _origins: Origins

    def since(self, number: int) -> set[int]:
        return self._origins.writes.since(number)

    def last(self, tensor: torch.Tensor, since: int, anywhere: bool) -> Seen | None:
        found = self._origins.writes.to(tensor, since, anywhere)
        return None if found is None else Seen(self._origins.places.origin(found.place), found.function, found.version)


class PassFinder:
    """Finds the facts of the passes over one graph. Numbers only outlive a question."""

    def __init__(self, captured: Captured, subject: Callable[[], Subject], witnesses: Witnesses | None = None) -> None:
        """
        Args:
            captured: the graph.
            subject: gives it with names and lines, which may cost something; asked for only where they are needed.
            witnesses: of what the script did.
        """
        self._captured, self._subject = captured, subject
        self._witnesses = witnesses or Witnesses()
        self._births: ForwardBirths | None = None
        self._silent: list[Write] = []
        self._looked_before = self._freeing = False
        self.roots_bad: list[int] = []

    @modes_off()
    def before(self, *, freeing: bool) -> None:
        """Look at the graph before its pass.

        Args:
            freeing: the pass lets go of what the nodes saved, so that what it may come to must be known now.
        """
        self._looked_before, self._freeing = True, freeing
        captured = self._captured
        self.roots_bad = [place for place, root in enumerate(captured.live_roots) if _is_bad(root)]
        self._silent = list(silently_written(captured, self._witnesses.writes, self._names()))
        if freeing and (self.roots_bad or holds_bad(captured)):
            self._look()

    @modes_off()
    def after(self, tape: TapeColumns) -> None:
        """Put the facts into the record of a pass, while its graph still lives."""
        facts, captured = tape.facts, self._captured
        if not self._looked_before:
            self.before(freeing=False)
        facts.roots_bad, facts.writes = list(self.roots_bad), list(self._silent)
        makers = _makers(tape)
        if self.roots_bad or makers:
            if self._births is None and not self._freeing:
                self._look()
            facts.forward = [] if self._births is None else self._births.chosen(makers)
        failure = tape.failure
        if failure is None:
            return
        if _EDITED in failure.message:
            ran = set(memoryview(tape.step_node).cast("i"))
            facts.writes += edited_since_saved(captured, failure.node, ran, self._witnesses.writes, self._names())
        if _FREED in failure.message:
            facts.freed = list(self._freed(failure.node))

    def _look(self) -> None:
        subject = self._subject()
        held = [tensor for tensor, _ in Names(subject.frame).held()]
        values = ForwardValues(subject.captured, self._origin_of, subject.frame, held)
        try:
            values.look()
            self._births = ForwardBirths.of(values, self.roots_bad)
        finally:
            values.release()

    def _origin_of(self, node: int) -> Origin | None:
        columns = self._subject().columns
        place = memoryview(columns.origin).cast("i")[node]
        return None if place == UNKNOWN else columns.origins[place]

    def _names(self) -> Callable[[torch.Tensor], tuple[str, int]]:
        return TensorNames(self._subject).of

    def _freed(self, node: int) -> Iterator[Freed]:
        freed_by = self._witnesses.freed_by
        if node != UNKNOWN:
            number = self._captured.sequence_nr[node]
            call, certain = (0, False) if freed_by is None else freed_by(number)
            yield Freed(node, call, certain)


class TensorNames:
    """What the person calls a tensor, and which leaf it lies in: told by the memory, as saved tensors are other objects."""

    def __init__(self, subject: Callable[[], Subject]) -> None:
        self._subject = subject
        self._leaves: dict[int, int] | None = None
        self._variables: dict[int, str] = {}

    def of(self, tensor: torch.Tensor) -> tuple[str, int]:
        """The name, or an empty string, and the place of the leaf, or UNKNOWN."""
        if self._leaves is None:
            self._read()
        assert self._leaves is not None
        memory = _memory(tensor)
        leaf = self._leaves.get(memory, UNKNOWN)
        return (self._subject().columns.leaves[leaf].name if leaf != UNKNOWN else self._variables.get(memory, "")), leaf

    def _read(self) -> None:
        self._leaves = {}
        for place, leaf in enumerate(self._subject().captured.leaves):
            if leaf.variable is not None and leaf.kind != "input":
                self._leaves.setdefault(_memory(leaf.variable), place)
        for tensor, name in Names(self._subject().frame).held():
            self._variables.setdefault(_memory(tensor), name.partition(" ")[2])


def _memory(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except Exception:  # has none
        return id(tensor)


def _is_bad(root: object) -> bool:
    return isinstance(root, torch.Tensor) and is_readable(root) and looked(root).bad


def _makers(tape: TapeColumns) -> set[int]:
    """The nodes that made something bad out of finite gradients."""
    table = tape.tensors
    if not table.nan.strip(b"\0") and not table.inf.strip(b"\0"):
        return set()
    counts = zip(memoryview(table.nan).cast("q"), memoryview(table.inf).cast("q"), table.known, strict=True)
    bad = {number for number, (nan, inf, known) in enumerate(counts) if (nan or inf) and known & KNOWN_COUNTS}
    came = _steps(tape.arrival_step, tape.arrival_tensor, bad)
    sent = _steps(tape.contribution_step, tape.contribution_tensor, bad)
    nodes = memoryview(tape.step_node).cast("i")
    return {nodes[step - 1] for step in sent - came if step}


def _steps(steps: bytes, tensors: bytes, bad: set[int]) -> set[int]:
    pairs: Sequence[tuple[int, int]] = list(zip(memoryview(steps).cast("i"), memoryview(tensors).cast("i"), strict=True))
    return {step for step, tensor in pairs if tensor != NO_TENSOR and tensor in bad}
