"""How one pass differs from another over the same graph: the Δ columns after a seed edit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR, Value


@dataclass(frozen=True, slots=True)
class Delta:
    """One gradient in two passes."""

    norm: float
    """in this pass; NaN where it is undefined or unknown"""
    before: float
    """in the other"""
    values: tuple[Value, ...] | None
    """this minus the other, element by element; None where one of them does not carry its values, or the shapes differ"""

    @property
    def change(self) -> float:
        return self.norm - self.before

    @property
    def ratio(self) -> float:
        """norm / before; NaN for 0 / 0, inf where something came from nothing."""
        if self.before == 0:
            return math.nan if self.norm == 0 or math.isnan(self.norm) else math.inf
        return self.norm / self.before

    @property
    def same(self) -> bool:
        """Nothing is known to differ."""
        norms = self.norm == self.before or (math.isnan(self.norm) and math.isnan(self.before))
        return norms and not any(value == value and value != 0 for value in self.values or ())


def tensors(tape: Tape, tensor: int, against: Tape, other: int) -> Delta:
    """The difference of two tensors, one of each pass."""
    return Delta(tape.norm(tensor), against.norm(other), _values(tape, tensor, against, other))


def arrived(tape: Tape, against: Tape, node: int, input_nr: int = 0) -> Delta:
    """What arrives at a node, in both passes."""
    return tensors(tape, tape.arrived(node, input_nr), against, against.arrived(node, input_nr))


def leaf(tape: Tape, against: Tape, index: int) -> Delta:
    """What the pass brings to a leaf, in both passes."""
    return tensors(tape, tape.leaf_total(index), against, against.leaf_total(index))


def edge(tape: Tape, against: Tape, number: int) -> Delta:
    """What is sent over an edge, in both passes."""
    here, there = tape.contribution_of_edge(number), against.contribution_of_edge(number)
    return tensors(tape, here.tensor if here else NO_TENSOR, against, there.tensor if there else NO_TENSOR)


def changed_steps(tape: Tape, against: Tape) -> list[int]:
    """Steps at which another norm arrives than in the other pass, ascending."""
    return [
        step
        for step in range(1, tape.steps + 1)
        if not _equal(tape.norm(tape.arrived_by_step[step]), _norm_at(against, tape.node_at(step)))
    ]


def changed_leaves(tape: Tape, against: Tape) -> list[int]:
    """Leaves to which the two passes bring something different, as far as norms and small values tell."""
    return [index for index in range(len(tape.graph.reached)) if not leaf(tape, against, index).same]


def _norm_at(tape: Tape, node: int) -> float:
    step = tape.step_of(node)
    return tape.norm(tape.arrived_by_step[step]) if step else math.nan


def _equal(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _values(tape: Tape, tensor: int, against: Tape, other: int) -> tuple[Value, ...] | None:
    if NO_TENSOR in (tensor, other) or tape.tensors.shape(tensor) != against.tensors.shape(other):
        return None
    here, there = tape.tensors.values(tensor), against.tensors.values(other)
    if here is None or there is None:
        return None
    return tuple(a - b for a, b in zip(here, there, strict=True))
