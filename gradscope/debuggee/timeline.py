"""What happened when: backward calls, optimizers' steps and zero_grads, in the order in which they came.

Plain numbers and places are kept, and of optimizers and modules weak references: nothing of a graph, no tensor. What is long past
is forgotten.
"""

from __future__ import annotations

import weakref
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from gradscope.debuggee.moments import Moment
from gradscope.model.facts import EarlierCall
from gradscope.model.places import UNKNOWN

_MOST = 2_000
"""events of each kind remembered"""
_MOST_RUNS = 200_000
"""stretches of node numbers remembered, of all calls together"""


@dataclass(slots=True)
class CallEvent:
    """A backward call."""

    tick: int
    """its place among all events"""
    number: int
    kind: str
    """`backward` or `grad`"""
    moment: Moment | None
    retain_graph: bool
    sequence_nr: int
    """the number that the next node was to get when the call began"""
    mark: int = 0
    """`Boundaries.mark` when it began"""
    failed: bool = False
    nodes: int = UNKNOWN
    """of its graph, where it was looked at"""
    old_nodes: int = UNKNOWN
    starts: array[int] = field(default_factory=lambda: array("q"))
    """first numbers of the stretches of nodes that its pass runs through"""
    ends: array[int] = field(default_factory=lambda: array("q"))
    """one past the last"""
    known: bool = False
    """the stretches are remembered"""

    @property
    def looked_at(self) -> bool:
        return self.nodes != UNKNOWN

    def ran(self, sequence_nr: int) -> bool:
        """Whether the node of this number is one that its pass runs through."""
        at = bisect_right(self.starts, sequence_nr) - 1
        return at >= 0 and sequence_nr < self.ends[at]

    def told(self) -> EarlierCall:
        origin = None if self.moment is None else self.moment.origin
        file, line, code = ("", 0, "") if origin is None else (origin.file, origin.line, origin.code)
        return EarlierCall(self.number, self.kind, file, line, code, self.retain_graph, self.nodes, self.old_nodes)


@dataclass(frozen=True, slots=True)
class StepEvent:
    """An optimizer's step()."""

    tick: int
    moment: Moment | None
    optimizer: weakref.ref[Any]
    name: str
    """its class"""


@dataclass(frozen=True, slots=True)
class ZeroEvent:
    """A call of an optimizer's or a module's zero_grad()."""

    tick: int
    moment: Moment | None
    owner: weakref.ref[Any]
    """the optimizer or the module"""
    cleared: bool
    """there was a gradient to clear"""


class Timeline:
    """The events of one run."""

    def __init__(self, next_sequence_nr: Any) -> None:
        """
        Args:
            next_sequence_nr: tells which number the next node of this thread gets (`torch.autograd._get_sequence_nr`).
        """
        self._next_sequence_nr = next_sequence_nr
        self._ticks = count(1)
        self.calls: deque[CallEvent] = deque(maxlen=_MOST)
        self.steps: deque[StepEvent] = deque(maxlen=_MOST)
        self.zeros: deque[ZeroEvent] = deque(maxlen=_MOST)
        self._with_runs: deque[CallEvent] = deque()
        self._runs = 0

    # ------------------------------------------------------------ what happens

    def call_begins(self, number: int, kind: str, moment: Moment | None, retain_graph: bool, mark: int = 0) -> CallEvent:
        """A backward call is about to run, or to stop."""
        event = CallEvent(next(self._ticks), number, kind, moment, retain_graph, self._next_sequence_nr(), mark)
        self.calls.append(event)
        return event

    def call_looked_at(self, event: CallEvent, sequence_nrs: Iterable[int], nodes: int, old_nodes: int) -> None:
        """Its graph is known.

        Args:
            event: the call.
            sequence_nrs: of the nodes that its pass runs through; those of leaves may be among them, below zero.
            nodes: how many its graph has.
            old_nodes: how many of them were made before the call before it at the same line.
        """
        event.nodes, event.old_nodes, event.known = nodes, old_nodes, True
        for number in sorted(number for number in sequence_nrs if number >= 0):
            if event.ends and event.ends[-1] == number:
                event.ends[-1] = number + 1
            elif not event.ends or event.ends[-1] < number:
                event.starts.append(number)
                event.ends.append(number + 1)
        self._with_runs.append(event)
        self._runs += len(event.starts)
        while self._runs > _MOST_RUNS and len(self._with_runs) > 1:
            forgotten = self._with_runs.popleft()
            self._runs -= len(forgotten.starts)
            forgotten.known = False
            del forgotten.starts[:], forgotten.ends[:]

    def stepped(self, optimizer: Any, moment: Moment | None) -> StepEvent:
        """An optimizer is about to step."""
        event = StepEvent(next(self._ticks), moment, weakref.ref(optimizer), type(optimizer).__name__)
        self.steps.append(event)
        return event

    def zeroed(self, owner: Any, moment: Moment | None, cleared: bool) -> None:
        """The zero_grad of an optimizer or a module is about to run."""
        self.zeros.append(ZeroEvent(next(self._ticks), moment, weakref.ref(owner), cleared))

    # ------------------------------------------------------------ what happened

    def event(self, number: int) -> CallEvent | None:
        """The backward call of this number, if it is remembered."""
        return next((event for event in reversed(self.calls) if event.number == number), None)

    def before(self, event: CallEvent) -> list[CallEvent]:
        """The calls before one, the oldest first."""
        return [one for one in self.calls if one.tick < event.tick]

    def before_at_same_line(self, event: CallEvent) -> CallEvent | None:
        """The last call before one that was made at the same place."""
        at = event.moment
        return next((one for one in reversed(self.calls) if one.tick < event.tick and at is not None and one.moment == at), None)

    def last_call(self) -> CallEvent | None:
        return self.calls[-1] if self.calls else None

    def zeros_after(self, tick: int) -> Iterator[ZeroEvent]:
        """The last first."""
        return _after(self.zeros, tick)

    def steps_after(self, tick: int) -> Iterator[StepEvent]:
        """The last first."""
        return _after(self.steps, tick)

    def freed_by(self, sequence_nr: int, before: int = 0) -> tuple[int, bool]:
        """Which call freed what the node of this number had saved.

        Args:
            sequence_nr: the node's, in the main thread.
            before: only calls of lower number may have; 0 for all.

        Returns:
            The number of the call, 0 where none may have; and whether it is certain.
        """
        freeing = [one for one in self.calls if not one.retain_graph and one.sequence_nr > sequence_nr]
        if before:
            freeing = [one for one in freeing if one.number < before]
        known = next((one for one in freeing if one.ran(sequence_nr)), None)
        if known is not None:
            return known.number, not known.failed
        # What was looked at, and remembered, did not run through the node.
        unknown = next((one for one in freeing if not one.known), None)
        return (0 if unknown is None else unknown.number), False


def _after(events: Sequence[Any] | deque[Any], tick: int) -> Iterator[Any]:
    for event in reversed(events):
        if event.tick <= tick:
            return
        yield event
