"""Which backward calls left what is in the `.grad` of a leaf, and who has used or cleared it since.

Of each leaf that a looked-at call fills the call's number is kept, the leaf itself weakly.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gradscope.debuggee.gradients import held_by, is_empty
from gradscope.debuggee.timeline import CallEvent, StepEvent, Timeline, ZeroEvent
from gradscope.model.facts import LeafHistory

_MOST = 1_000
"""calls remembered of one leaf: the last ones"""


@dataclass(slots=True)
class _Known:
    leaf: weakref.ref[Any]
    empty: int = 0
    """tick of the last call that found nothing in its `.grad`"""
    filled: list[tuple[int, int]] = field(default_factory=list)
    """tick and number of the calls that have added to it"""
    ever: bool = False
    """some call has, though it may have been cleared since"""
    version: int | None = None
    """of the leaf, when the last of them began"""


class LeafHistories:
    """Those of one run."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._known: dict[int, _Known] = {}

    def of(self, call: CallEvent, leaves: Sequence[Any]) -> list[LeafHistory]:
        """What is there of these leaves when the call begins. None stands for a leaf without a tensor."""
        histories = []
        zeros, steps = self._last_zeros(), self._last_steps()
        with torch._C.DisableTorchFunctionSubclass():
            for place, leaf in enumerate(leaves):
                if leaf is None or not leaf.is_leaf:
                    continue
                known = self._of_leaf(leaf)
                if is_empty(leaf.grad):
                    known.empty = call.tick
                    known.filled.clear()
                else:
                    histories.append(self._history(call, place, leaf, known, zeros, steps))
        return histories

    def fills(self, call: CallEvent, leaves: Iterable[Any]) -> None:
        """The call is about to add to the `.grad` of these leaves."""
        for leaf in leaves:
            known = self._of_leaf(leaf)
            known.filled.append((call.tick, call.number))
            known.ever = True
            known.version = _version(leaf)
            del known.filled[:-_MOST]

    def filled_before(self, leaf: Any) -> bool:
        """Whether some call has added to its `.grad`."""
        known = self._known.get(id(leaf))
        return known is not None and known.leaf() is leaf and known.ever

    def _of_leaf(self, leaf: Any) -> _Known:
        number = id(leaf)
        known = self._known.get(number)
        if known is None or known.leaf() is not leaf:
            known = self._known[number] = _Known(weakref.ref(leaf, lambda gone: self._forget(number, gone)))
        return known

    def _forget(self, number: int, gone: weakref.ref[Any]) -> None:
        if number in self._known and self._known[number].leaf is gone:
            del self._known[number]

    def _history(
        self,
        call: CallEvent,
        place: int,
        leaf: Any,
        known: _Known,
        zeros: Sequence[tuple[ZeroEvent, set[int]]],
        steps: Sequence[tuple[StepEvent, set[int]]],
    ) -> LeafHistory:
        zero = max((event for event, owned in zeros if id(leaf) in owned), key=lambda event: event.tick, default=None)
        since = max(known.empty - 1, 0 if zero is None else zero.tick)  # the call that found it empty may have filled it
        filled = [(tick, number) for tick, number in known.filled if tick > since]
        unseen = [
            event.tick
            for event in self._timeline.calls
            if since < event.tick < call.tick and event.kind == "backward" and not event.looked_at
        ]
        first = min([tick for tick, _ in filled] + unseen, default=call.tick)
        step, own = _step_after(first, id(leaf), steps)
        return LeafHistory(
            place,
            tuple(number for _, number in filled),
            len(unseen),
            zeroed=None if zero is None or zero.moment is None else zero.moment.origin,
            stepped=None if step is None or step.moment is None else step.moment.origin,
            stepped_by="" if step is None else step.name,
            own_step=own,
            written=bool(filled) and known.version is not None and known.version != _version(leaf),
        )

    def _last_zeros(self) -> list[tuple[ZeroEvent, set[int]]]:
        """Of each optimizer and module the last zero_grad that cleared something, with the ids of what it clears."""
        last: dict[int, ZeroEvent] = {}
        for event in self._timeline.zeros:
            owner = event.owner()
            if owner is not None and event.cleared:
                last[id(owner)] = event
        return [(event, held_by(event.owner())) for event in last.values()]

    def _last_steps(self) -> list[tuple[StepEvent, set[int]]]:
        """Of each optimizer its last step."""
        last: Mapping[int, StepEvent] = {
            id(optimizer): event for event in self._timeline.steps if (optimizer := event.optimizer()) is not None
        }
        return [(event, held_by(event.optimizer())) for event in last.values()]


def _version(leaf: Any) -> int | None:
    try:
        return int(leaf._version)
    except RuntimeError:  # made in inference mode
        return None


def _step_after(tick: int, leaf: int, steps: Iterable[tuple[StepEvent, set[int]]]) -> tuple[StepEvent | None, bool]:
    """The last step after that tick: one of an optimizer that owns the leaf, else any. And which of the two it is."""
    later = [(leaf in owned, event) for event, owned in steps if event.tick > tick]
    own, event = max(later, key=lambda one: (one[0], one[1].tick), default=(False, None))
    return event, own
