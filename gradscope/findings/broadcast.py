"""A column set against a row of the same numbers: every element meets every other."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradscope.findings.finding import Finding
from gradscope.findings.place import at_node, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.facts import Broadcast
from gradscope.model.tape import Tape

KIND = "broadcast"
_ON_PURPOSE = ("None", "newaxis", "unsqueeze", "reshape", "view", "expand", "cdist", "outer")
"""What one writes where every pair is wanted."""
_LOSSES = ("loss", "mse", "l1", "huber", "entropy", "bce", "kl_div", "nll")


def broadcast(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Shapes like (N, 1) and (N,), which make (N, N). Told once a line."""
    told: set[int] = set()
    for one in graph.columns.facts.broadcasts:
        line = graph.origin_index(one.node)
        if line in told or not _crossed(one):
            continue
        told.add(line)
        first, second = one.shapes
        numel = max(math.prod(first), math.prod(second))
        message = (
            f"{name(graph, one.node)} sets shape {first} against {second}: both are expanded to {one.result}, so each of "
            f"{numel} elements meets each of the others ({math.prod(one.result)} pairs)"
        )
        hint = "give both the same shape: prediction.squeeze(-1), or target.unsqueeze(-1)"
        yield at_node(graph, one.node, KIND, "info" if _on_purpose(graph, one) else "warning", message, hint)


def _crossed(one: Broadcast) -> bool:
    """The same extents but for ones, at least one of them above 1, and a result that is larger than either."""
    first, second = ([extent for extent in shape if extent != 1] for shape in one.shapes)
    larger = math.prod(one.result) > max(math.prod(one.shapes[0]), math.prod(one.shapes[1]))
    return first == second and bool(first) and larger


def _on_purpose(graph: BackwardGraph, one: Broadcast) -> bool:
    """Pairs of all with all are also what distances and kernels are made of; a loss function wants none."""
    origin = graph.origin(one.node)
    if origin is None:
        return True
    function = origin.torch_function.rpartition(".")[2].lower()
    if any(word in function for word in _LOSSES):
        return False
    return any(word in origin.code for word in _ON_PURPOSE)
