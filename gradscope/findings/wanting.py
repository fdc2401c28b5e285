"""Which leaves want a gradient that nothing brings them, and how much that matters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.model.backward_graph import ACCUMULATE, BackwardGraph
from gradscope.model.columns import Leaf
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape

NESTING = frozenset({"CheckpointFunctionBackward"})
"""Nodes that run a whole backward call of their own (torch/utils/checkpoint.py, `use_reentrant=True`): leaves below them are not
in the outer graph, and get their gradients all the same."""


@dataclass(frozen=True, slots=True)
class Wanting:
    """A leaf that the pass cannot reach."""

    place: int
    """in the graph's leaves"""
    asked: bool
    """the call names it"""
    severity: str


def wanting(graph: BackwardGraph, tape: Tape, inputs: bool = False) -> Iterator[Wanting]:
    """The leaves that want a gradient and are not in the graph. With `inputs` only the tensors named in the call want one.

    It is a warning where the call asks for the leaf, where the optimizer that steps it also steps others that are reached, and
    where the root is no more than a leaf itself, so that nothing is trained at all. A leaf that an earlier call led to, and that
    nothing cuts off, waits for its turn: of several heads that are trained in turn each call leads to one.
    """
    if tape.failure is not None:
        return
    named, inputs = inputs, inputs or _leaves_out(graph, tape)
    hidden = reaches_unseen(graph)
    steps = {_optimizer(leaf) for leaf in graph.reached if leaf.owner}
    lost = behind_hollow_roots(graph)
    facts = graph.columns.facts
    awaited = set(facts.awaited)
    waiting = set(facts.trained).difference(leaf for cut in facts.cuts for leaf in cut.leaves)
    for place, leaf in enumerate(graph.leaves):
        asked = leaf.kind == "input" or (named and leaf.target)
        if leaf.node != UNKNOWN or not leaf.requires_grad or ((inputs or hidden) and not asked):
            continue
        owned = bool(leaf.owner) and _optimizer(leaf) in steps and place not in waiting
        matters = asked or owned or place in lost or place in awaited
        yield Wanting(place, asked, "warning" if matters else "info")


def hollow_roots(graph: BackwardGraph) -> list[int]:
    """Roots that are leaves which nobody trains, in a call that reaches no other: `requires_grad_()` on a loss without graph."""
    own = {graph.leaf_at(root.node) for root in graph.roots if root.node != UNKNOWN and graph.op(root.node) == ACCUMULATE}
    ends = {place for place, leaf in enumerate(graph.leaves) if leaf.node != UNKNOWN}
    if not own or own != ends or any(_trained(graph.leaves[place]) for place in ends):
        return []
    return [place for place, root in enumerate(graph.roots) if root.node != UNKNOWN]


def _trained(leaf: Leaf) -> bool:
    return bool(leaf.owner) or leaf.kind == "parameter"


def behind_hollow_roots(graph: BackwardGraph) -> set[int]:
    """The leaves known to lie behind what such a root was made of."""
    hollow = set(hollow_roots(graph))
    return {leaf for cut in graph.columns.facts.cuts if hollow.intersection(cut.roots) for leaf in cut.leaves}


def reaches_unseen(graph: BackwardGraph) -> bool:
    """Whether the pass may bring gradients to leaves that are not in the graph."""
    return not NESTING.isdisjoint(graph.columns.ops)


def _optimizer(leaf: Leaf) -> str:
    """The owner without the parameter group."""
    return leaf.owner.rpartition("[")[0]


def _leaves_out(graph: BackwardGraph, tape: Tape) -> bool:
    """The pass skips leaves of its own graph: the call named what to differentiate for."""
    return any(not tape.step_of(leaf.node) for leaf in graph.reached)
