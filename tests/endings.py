"""Passes that a node ended by raising, made by hand."""

from __future__ import annotations

from graphs import FILE, Drawing

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Failure, TapeColumns
from gradscope.model.tape import Tape


def ended(drawing: Drawing, at: int, node: int, seed: tuple[float, ...] = (1.0, 10.0)) -> tuple[BackwardGraph, TapeColumns]:
    """The pass without the step `at` and all that come later: that is where the node raised."""
    graph = drawing.graph()
    columns = drawing.tape(graph, [seed]).columns
    whole = Tape(columns, graph)
    columns.step_node = columns.step_node[: 4 * (at - 1)]
    for kind, names in (("contribution", ("step", "edge", "tensor", "so_far")), ("arrival", ("step", "input_nr", "tensor"))):
        kept = sum(step < at for step in getattr(whole, f"{kind}_step"))
        for name in names:
            setattr(columns, f"{kind}_{name}", getattr(columns, f"{kind}_{name}")[: 4 * kept])
    columns.failure = Failure(node, "ValueError", "too big", "", FILE, 3)
    columns.exact = "unchecked"
    return graph, columns
