"""Leaves that ought to get a gradient and do not, and leaves that got theirs before a pass broke off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import at_node
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Leaf
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

NESTING = frozenset({"CheckpointFunctionBackward"})
"""Nodes that run a whole backward call of their own (torch/utils/checkpoint.py, `use_reentrant=True`): leaves below them are not
in the outer graph, and get their gradients all the same."""


def missing(graph: BackwardGraph, tape: Tape, inputs: bool = False, calls: Sequence[Related] = ()) -> Iterator[Finding]:
    """Leaves that want a gradient and that nothing reaches. With `inputs` only the tensors named in the call want one."""
    if tape.failure is not None:
        return
    named, inputs = inputs, inputs or _leaves_out(graph, tape)
    hidden = reaches_unseen(graph)
    reached = {_optimizer(leaf) for leaf in graph.reached if leaf.owner}
    for place, leaf in enumerate(graph.leaves):
        asked = leaf.kind == "input" or (named and leaf.target)
        if not leaf.requires_grad or (inputs and leaf.node == UNKNOWN and not asked):
            continue
        if leaf.node == UNKNOWN and hidden and not asked:
            continue
        if leaf.node == UNKNOWN:
            owned = bool(leaf.owner) and _optimizer(leaf) in reached
            yield _unreached(graph, leaf, "warning" if asked or owned else "info", calls if asked else ())
        elif tape.leaf_total(place) == NO_TENSOR and len(tape.indices_to(leaf.node, leaf.input_nr)):
            yield _undefined(graph, tape, leaf)


def reaches_unseen(graph: BackwardGraph) -> bool:
    """Whether the pass may bring gradients to leaves that are not in the graph."""
    return not NESTING.isdisjoint(graph.columns.ops)


def _optimizer(leaf: Leaf) -> str:
    """The owner without the parameter group."""
    return leaf.owner.rpartition("[")[0]


def _leaves_out(graph: BackwardGraph, tape: Tape) -> bool:
    """The pass skips leaves of its own graph: the call named what to differentiate for."""
    return any(not tape.step_of(leaf.node) for leaf in graph.reached)


def _unreached(graph: BackwardGraph, leaf: Leaf, severity: str, related: Sequence[Related]) -> Finding:
    """A warning where the call asks for the leaf, or the optimizer that steps it also steps others that are reached."""
    origin = graph.columns.origins[leaf.origin] if leaf.origin != UNKNOWN else None
    steps = f", though {leaf.owner} steps it" if leaf.owner else ""
    return Finding(
        kind="missing-gradient",
        severity=severity,
        message=f"{leaf.name} gets no gradient: this call's graph does not lead to it{steps}",
        hint=(
            "either the forward did not use it, or the graph was cut on the way: detach(), .data, .item(), numpy, "
            "a new tensor made from values, no_grad"
        ),
        file=origin.file if origin else "",
        line=origin.line if origin else 0,
        related=tuple(related),
        leaf=leaf.name,
    )


def _undefined(graph: BackwardGraph, tape: Tape, leaf: Leaf) -> Finding:
    contributions = tape.to(leaf.node, leaf.input_nr)
    senders = sorted({graph.op(one.source) for one in contributions if one.source != UNKNOWN})
    message = f"{leaf.name} is in the graph, but each of its {len(contributions)} contributions is undefined (None)"
    hint = f"{', '.join(senders)} sent no gradient for it: its derivative is undefined, or its backward returned None"
    severity = "warning" if leaf.owner or leaf.kind != "parameter" else "info"
    return at_node(graph, leaf.node, "missing-gradient", severity, message, hint if senders else "", leaf=leaf.name)


def partial(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Leaves whose `.grad` was changed before the pass failed. A hook of a leaf's may itself be what failed."""
    failure = tape.failure
    if failure is None:
        return
    surely = failure.node != UNKNOWN or tape.kind == "committed"
    took = "got its gradient" if surely else "was reached, and may have got its gradient,"
    for place, leaf in enumerate(graph.reached):
        if tape.step_of(leaf.node) and leaf.node != failure.node and _changed(tape, place):
            message = f"{leaf.name} {took} before the pass failed with {failure.type}; other leaves did not"
            hint = "a call that fails leaves these gradients in .grad: clear them before the next backward"
            yield at_node(graph, leaf.node, "partial-gradients", "warning", message, hint, leaf=leaf.name)


def _changed(tape: Tape, leaf: int) -> bool:
    before, after = tape.leaf_before(leaf), tape.leaf_after(leaf)
    if NO_TENSOR in (before, after) or before == after:
        return before != after
    return tape.norm(before) != tape.norm(after) or tape.tensors.values(before) != tape.tensors.values(after)
