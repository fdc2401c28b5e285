"""What the record itself says: sums that do not agree with the engine, gradients that a hook changed."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.findings.finding import Finding
from gradscope.findings.place import at_node, foreign_places, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR


def not_exact(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Places where what was recorded is not what the engine handed on."""
    hint = "what gradscope shows there is not what torch computed: please report it with the script"
    for mismatch in tape.columns.mismatches:
        if mismatch.node == UNKNOWN:
            yield Finding("not-exact", "error", f"the record is not exact: {mismatch.what}", hint)
        else:
            message = f"the record is not exact at {name(graph, mismatch.node)}: {mismatch.what}"
            yield at_node(graph, mismatch.node, "not-exact", "error", message, hint)


def hook_changed(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Gradients that a hook of the person's replaced or edited before they arrived."""
    for step in tape.columns.hook_changed:
        node = tape.node_at(step)
        hook = graph.columns.foreign.get(node, "")
        message = f"a hook changes the gradient that arrives at {name(graph, node)}{_by_how_much(tape, node)}"
        hint = f"{hook} runs in each backward pass" if hook else ""
        yield at_node(graph, node, "hook-changed", "info", message, hint, related=foreign_places(hook, "the hook"))


def _by_how_much(tape: Tape, node: int) -> str:
    for input_nr, tensor in tape.arrivals(node):
        contributions = tape.to(node, input_nr)
        before = contributions[-1].so_far if contributions else NO_TENSOR
        if NO_TENSOR not in (tensor, before) and tensor != before:
            return f": norm {tape.norm(before):.3g} before it, {tape.norm(tensor):.3g} after"
    return ""
