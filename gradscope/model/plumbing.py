"""View-like nodes: those whose backward only gives the gradient another shape. They can be hidden from the tape."""

from __future__ import annotations

from gradscope.model.backward_graph import BackwardGraph, short_op
from gradscope.model.tape import Tape

PLUMBING = frozenset(
    {
        *("View", "UnsafeView", "ReshapeAlias", "Alias", "T", "Transpose", "Permute", "Movedim", "Swapaxes", "Swapdims"),
        *("Unsqueeze", "Squeeze", "Expand", "Clone"),
    }
)
"""What reshapes, reorders or copies. An expand's backward sums over what was repeated; it is plumbing to most readers too."""


def hidden_steps(graph: BackwardGraph, tape: Tape) -> bytearray:
    """By step: 1 for the view-like nodes of which there is nothing else to say. Worked out once for a tape."""
    if "plumbing" not in tape.derived:
        tape.derived["plumbing"] = _find(graph, tape)
    marks: bytearray = tape.derived["plumbing"]
    return marks


def _find(graph: BackwardGraph, tape: Tape) -> bytearray:
    """Roots, leaves, and nodes where a person's code, a hook, a what-if or an exception had a say stay in sight."""
    ops = [short_op(op) in PLUMBING for op in graph.columns.ops]
    marks = bytearray(tape.steps + 1)
    for step, node in enumerate(tape.step_node, 1):
        marks[step] = ops[graph.op_index(node)]
    seen = {tape.seed_slot(seed.root)[0] for seed in tape.seeds} | {leaf.node for leaf in graph.reached}
    seen.update(graph.columns.foreign, (hook.node for hook in graph.columns.hooks))
    seen.update(change.node for change in tape.columns.changes)
    if tape.failure is not None:
        seen.add(tape.failure.node)
    for step in (*tape.columns.hook_changed, *(tape.step_of(node) for node in seen if node >= 0)):
        marks[step] = 0
    return marks
