"""What-ifs: gradients that the person changes in an exploring pass, at the moment when they are complete.

What arrives at a node is changed by a prehook, after all contributions and all hooks of the script's; what goes over one edge by
a posthook of its source. A leaf's AccumulateGrad does not run in an exploring pass, and nothing comes after it: its total is
changed when the tape is made. Torch lets no hook put a gradient where there was none: where that is wanted, the pass is run again
with zeros seeded there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FrameType

import torch
from torch.autograd.graph import GradientEdge

from gradscope.debuggee import change_text
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.change_text import ChangeError
from gradscope.debuggee.engine import graph_task, newest_graph_task
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.seeds import Root
from gradscope.model.columns import Change
from gradscope.model.places import UNKNOWN

Gradients = Sequence[torch.Tensor | None]
Slot = tuple[int, int]
"""A node and one of its gradient slots."""


class GradientNeeded(Exception):
    """The pass must be run again with zeros where no gradient arrives."""

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot)
        self.slot = slot


class WhatIfs:
    """The changes of one pass, and what became of them.

    Args:
        captured: the graph.
        changes: in the order in which they were made; several at one place build on each other.
        frame: the script's frame, whose names an expression may use.

    Raises:
        ChangeError: the graph has no such place, or nothing is delivered there.
    """

    def __init__(self, captured: Captured, changes: Sequence[Change], frame: FrameType | None = None) -> None:
        self._captured, self._frame = captured, frame
        self.changes = [
            Change(one.node, one.input_nr, one.edge, change_text.numbered(one.text)) for one in _placed(captured, changes)
        ]
        self.arriving: dict[int, list[int]] = {}
        """node -> places in `changes` of those of what arrives at it"""
        self.sending: dict[int, list[int]] = {}
        """node -> those of what it sends"""
        for place, change in enumerate(self.changes):
            if change.edge == UNKNOWN:
                self.arriving.setdefault(change.node, []).append(place)
            else:
                self.sending.setdefault(captured.source(change.edge), []).append(place)
        self.before: dict[int, torch.Tensor | None] = {}
        """place -> a copy of what was there, once the pass has come to it"""
        self.error: Exception | None = None
        self._zeros: list[Slot] = []
        self._task = UNKNOWN

    def begin(self, *, alone: bool) -> None:
        """Before a run. `alone` says that no other pass can run these nodes meanwhile."""
        self.before.clear()
        self.error = None
        self._task = UNKNOWN if alone else newest_graph_task() + 1

    # ------------------------------------------------------------ while the pass runs

    def arrive(self, node: int, handed: Gradients) -> Gradients | None:
        """What the node gets instead; None for no change."""
        seen = [None if (node, input_nr) in self._zeros else gradient for input_nr, gradient in enumerate(handed)]
        return self._each(handed, seen, {place: self.changes[place].input_nr for place in self.arriving[node]})

    def send(self, node: int, sent: Gradients) -> Gradients | None:
        """What the node delivers instead, by slot of its next functions."""
        slots = self._captured.edge_slot
        return self._each(sent, sent, {place: slots[self.changes[place].edge] for place in self.sending[node]})

    def _each(self, real: Gradients, seen: Gradients, places: Mapping[int, int]) -> Gradients | None:
        """The gradients after all changes; `places` says which of them each is about."""
        if self._task not in (UNKNOWN, graph_task()):
            return None
        result = list(seen)
        try:
            with modes_off(), torch.no_grad():
                for place, at in places.items():
                    present = result[at]
                    self.before[place] = None if present is None else present.detach().clone()
                    result[at] = self._changed(place, present)
                for place, at in places.items():
                    if real[at] is None and result[at] is not None:
                        self._need(self.changes[place])
        except Exception as error:  # kept, in case Python that runs the pass swallows it
            self.error = self.error or error
            raise
        return tuple(result)

    def _changed(self, place: int, present: torch.Tensor | None) -> torch.Tensor | None:
        change = self.changes[place]
        return change_text.changed(change.text, self._wanted(change.node, change.input_nr), present, self._frame)

    def _wanted(self, node: int, input_nr: int) -> Root | None:
        captured = self._captured
        kind = captured.slot_kind[captured.slot(node, input_nr)]
        return None if kind < 0 else Root(*captured.kinds[kind], name=captured.ops[node])

    def _need(self, change: Change) -> None:
        """A hook cannot put a gradient where there was none."""
        captured, op = self._captured, self._captured.ops[change.node]
        if change.edge != UNKNOWN:
            raise ChangeError(
                "nothing is sent over this edge", "torch lets no gradient be added to it", f"change what arrives at {op} instead"
            )
        hooked = captured.foreign.hooked
        if hooked.intersection({(change.node, change.input_nr), (change.node, UNKNOWN)}):
            raise ChangeError("no gradient arrives here", f"and {op} has hooks, which would see another one than in your script")
        raise GradientNeeded((change.node, change.input_nr))

    # ------------------------------------------------------------ what comes after

    def runs_again(self) -> bool:
        """After a run: whether it must be made again, as zeros must be seeded somewhere.

        Raises:
            ChangeError: a change could not be made.
        """
        error, self.error = self.error, None
        if error is None:
            return False
        if not isinstance(error, GradientNeeded):
            raise error.with_traceback(None)
        self._zeros.append(error.slot)
        return True

    def more_seeds(self) -> tuple[list[GradientEdge], list[torch.Tensor | None]]:
        """Where to seed zeros, and those zeros."""
        wanted = [self._wanted(*slot) for slot in self._zeros]
        edges = [GradientEdge(self._captured.nodes[node], input_nr) for node, input_nr in self._zeros]
        return edges, [None if one is None else one.full(0) for one in wanted]

    def arrive_at_leaf(self, node: int, handed: Gradients) -> Gradients:
        """The total of a leaf, which no hook could change.

        Raises:
            ChangeError: the expression makes no gradient for it.
        """
        result = list(handed)
        for place in self.arriving[node]:
            at = self.changes[place].input_nr
            self.before[place] = result[at]
            result[at] = self._changed(place, result[at])
        return result

    def check(self, failed: bool) -> None:
        """After the run.

        Raises:
            ChangeError: the pass never came to one of the changes.
        """
        missing = [change for place, change in enumerate(self.changes) if place not in self.before]
        if missing and not failed:
            raise ChangeError(f"{self._captured.ops[missing[0].node]} does not run in this pass", "there is nothing to change")


def _placed(captured: Captured, changes: Sequence[Change]) -> Sequence[Change]:
    for change in changes:
        if not 0 <= change.edge < captured.edge_count and change.edge != UNKNOWN:
            raise ChangeError("there is no such edge", f"the graph has {captured.edge_count}")
        if change.edge != UNKNOWN:
            if (change.node, change.input_nr) != (captured.edge_target[change.edge], captured.edge_input_nr[change.edge]):
                raise ChangeError("this edge goes elsewhere", f"to {captured.ops[captured.edge_target[change.edge]]}")
            if not captured.leads_on(change.edge):
                raise ChangeError("nothing is delivered over this edge", "it leads to no leaf that the call asks for")
        elif not 0 <= change.node < len(captured):
            raise ChangeError("there is no such node", f"the graph has {len(captured)}")
        elif not 0 <= change.input_nr < captured.first_slot[change.node + 1] - captured.first_slot[change.node]:
            raise ChangeError(f"{captured.ops[change.node]} has no gradient {change.input_nr}")
    return changes
