"""Gradients that become zero because a half-precision dtype cannot hold anything so small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.findings.finding import Finding
from gradscope.findings.place import at_node, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape
from gradscope.model.tensors import KNOWN_COUNTS, NO_TENSOR

KIND = "underflow"
MOST = 3
"""So many places are told, those with the largest share first."""
SHARE = 0.5
"""A warning when at least this share of what was not zero is lost; below it, and above NOTED, an info."""
NOTED = 0.01
_SMALLEST = {"float16": "6e-08", "bfloat16": "9e-41", "float8_e4m3fn": "2e-03", "float8_e5m2": "2e-05"}
_CASTS = ("ToCopy",)
_DIVIDES = ("Mean", "Div", "Mul")
"""Of these the slope is never zero, or is known where it is (`graph.local`)."""


@dataclass(frozen=True, slots=True)
class _Loss:
    """What one step lost."""

    node: int
    dtype: str
    came: int
    """elements that were not zero"""
    lost: int
    numel: int
    """elements sent"""

    @property
    def share(self) -> float:
        return self.lost / self.came


def underflow(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Casts to half precision, and nodes that compute in it, at which elements that were not zero became zero."""
    losses = [loss for step in range(1, tape.ran + 1) if (loss := _lost(graph, tape, step)) is not None]
    for loss in sorted(losses, key=lambda loss: -loss.share)[:MOST]:
        what = "casts to" if graph.short(loss.node) in _CASTS else "computes in"
        smallest = f", whose smallest number is {_SMALLEST[loss.dtype]}" if loss.dtype in _SMALLEST else ""
        message = (
            f"{name(graph, loss.node)} {what} {loss.dtype}{smallest}: {loss.lost} of {loss.came} elements of the gradient "
            "that were not zero become zero there"
        )
        hint = (
            "multiply the loss by a scale before backward() and divide the gradients by it afterwards (torch.amp.GradScaler does "
            "both), or keep this part in float32 or bfloat16"
        )
        yield at_node(graph, loss.node, KIND, "warning" if loss.share >= SHARE else "info", message, hint)


def _lost(graph: BackwardGraph, tape: Tape, step: int) -> _Loss | None:
    node, table = tape.node_at(step), tape.tensors
    op, sent = graph.short(node), tape.sent_range(step)
    if op not in (*_CASTS, *_DIVIDES) or not sent:
        return None
    before, after = tape.arrived_by_step[step], tape.contribution_tensor[sent[0]]
    if NO_TENSOR in (before, after) or not table.known[before] & table.known[after] & KNOWN_COUNTS:
        return None
    dtype, count, numel = table.dtype(after), table.numel(before), table.numel(after)
    if dtype not in _SMALLEST or not count or not _slopes_are_known(graph, op, tape.contribution_edge[sent[0]]):
        return None
    if op in _CASTS and table.dtype(before) == dtype:
        return None
    if op == "Mean":  # each element that arrives is spread over as many
        spread = numel // count
        came, zeros = (count - table.zero[before]) * spread, table.zero[before] * spread
    elif numel == count:
        came, zeros = count - table.zero[before], table.zero[before]
    else:
        return None
    lost = table.zero[after] - zeros
    return _Loss(node, dtype, came, lost, numel) if lost > NOTED * came > 0 else None


def _slopes_are_known(graph: BackwardGraph, op: str, edge: int) -> bool:
    """No slope of the node is zero, so that a zero it makes is too small a number."""
    if op in (*_CASTS, "Mean"):
        return True
    local = graph.local(edge)
    return local is not None and bool(local.values) and all(local.values)
