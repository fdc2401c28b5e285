"""What every gradient is once a given step has run: nothing yet, a partial sum, or complete."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, overload

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Contribution, Tape
from gradscope.model.tensors import NO_TENSOR

NodeState = Literal["run", "partial", "pending", "never"]


class Delivered(Sequence[Contribution]):
    """Contributions by number, each made when it is looked at: a weight used in every round of a long loop has thousands."""

    def __init__(self, tape: Tape, indices: Sequence[int]) -> None:
        self._tape = tape
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, place: int) -> Contribution: ...
    @overload
    def __getitem__(self, place: slice) -> Delivered: ...
    def __getitem__(self, place: int | slice) -> Contribution | Delivered:
        if isinstance(place, slice):
            return Delivered(self._tape, self._indices[place])
        return self._tape.contribution(self._indices[place])


@dataclass(frozen=True, slots=True)
class Slot:
    """One gradient slot of a node at the playhead."""

    node: int
    input_nr: int
    done: Sequence[Contribution]
    """delivered by now, in delivery order; undefined ones count here though they add nothing"""
    pending: Sequence[int]
    """edges over which something is still to come in this pass, in the order in which it will"""
    so_far: int
    """the sum by now; NO_TENSOR while nothing defined was delivered"""
    complete: bool
    """nothing more is to come"""
    total: int
    """how many contributions there are in the whole pass"""


def slot(graph: BackwardGraph, tape: Tape, step: int, node: int, input_nr: int = 0) -> Slot:
    """The gradient that gathers at one slot, after `step`."""
    indices = tape.indices_to(node, input_nr)
    by_now = bisect_right(indices, step, key=tape.contribution_step.__getitem__)
    broken = tape.step_of(node) > tape.ran or (
        tape.failure is not None
        and any(graph.input_nr[edge] == input_nr and not tape.finished(graph.source[edge]) for edge in graph.in_edges(node))
    )
    return Slot(
        node=node,
        input_nr=input_nr,
        done=Delivered(tape, indices[:by_now]),
        pending=array("i", map(tape.contribution_edge.__getitem__, indices[by_now:])),
        so_far=sum_so_far(tape, step, node, input_nr),
        complete=by_now == len(indices) and not broken,
        total=len(indices),
    )


def sum_so_far(tape: Tape, step: int, node: int, input_nr: int = 0) -> int:
    """Tensor number of the partial sum at a slot after `step`; NO_TENSOR while nothing defined was delivered."""
    indices = tape.indices_to(node, input_nr)
    return tape.sum_of(indices, bisect_right(indices, step, key=tape.contribution_step.__getitem__))


def leaf_so_far(graph: BackwardGraph, tape: Tape, step: int, leaf: int) -> int:
    """What this pass has brought to a leaf by now (without what `.grad` held before), as a tensor number.

    Once the leaf's own step has run this is what arrived there, after hooks.
    """
    one = graph.leaves[leaf]
    if one.node == UNKNOWN:
        return NO_TENSOR
    if state(graph, tape, step, one.node) == "run":
        return tape.leaf_total(leaf)
    return sum_so_far(tape, step, one.node, one.input_nr)


def shown(graph: BackwardGraph, tape: Tape, step: int, node: int) -> int:
    """The tensor that a node's row shows at the playhead: what arrived once it has run; for a leaf what has gathered by now."""
    leaf = graph.leaf_at(node)
    if leaf is not None:
        return leaf_so_far(graph, tape, step, leaf)
    at = tape.step_of(node)
    return tape.arrived_at(at) if 0 < at <= step else NO_TENSOR


def count_so_far(graph: BackwardGraph, tape: Tape, step: int, node: int, input_nr: int = 0) -> tuple[int, int]:
    """How many contributions a slot has by now, and how many in the whole pass: `1 of 3`."""
    indices = tape.indices_to(node, input_nr)
    return bisect_right(indices, step, key=tape.contribution_step.__getitem__), len(indices)


def state(graph: BackwardGraph, tape: Tape, step: int, node: int) -> NodeState:
    """`run`; `partial` when something was delivered to a node that has not run; `pending`; `never` when this pass skips it."""
    at = tape.step_of(node)
    if not at:
        return "never"
    if at <= step:
        return "run"
    return "partial" if tape.first_delivery(node) <= step else "pending"
