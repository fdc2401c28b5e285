"""A tensor is called what the line that is looked at calls it, not what the function that made it did."""

from __future__ import annotations

from dataclasses import replace

import graphs
import pytest

from gradscope.model.edge_names import sent_name

FILE = "/home/ada/two.py"


def names(code: str, op: str, slots: int = 1, function: str = "main", made_in: str = "Net.forward") -> list[str]:
    """What a node made by this code says of the tensors that it sends to: each is `x`, made in another function."""
    drawing = graphs.Drawing()
    leaf = drawing.leaf("w")
    targets = [drawing.node("SinBackward0", origin=drawing.origin(FILE, line, "x = a.sin()")) for line in range(slots)]
    top = drawing.node(f"{op}Backward0", origin=drawing.origin(FILE, 9, code))
    drawing.origins[:] = [replace(one, function=function if one.line == 9 else made_in) for one in drawing.origins]
    for target in targets:
        drawing.edge(target, leaf)
        drawing.edge(top, target)
    drawing.root(top)
    graph = drawing.graph()
    (source,) = [node for node in range(len(graph)) if graph.short(node) == op]
    return [sent_name(graph, edge) for edge in graph.out_edges(source)]


@pytest.mark.parametrize(
    ("code", "op", "told"),
    [
        ("y, z = TwoOut.apply(hidden, hidden.detach() * gain)", "TwoOut", ["hidden", "x in forward"]),
        ("y = TwoOut.apply(hidden, state.h, 2)", "TwoOut", ["hidden", "state.h"]),
        ("y = TwoOut.apply(hidden, flag, state)", "TwoOut", ["x in forward", "x in forward"]),
        ("y = TwoOut.apply(*parts)", "TwoOut", ["x in forward", "x in forward"]),
        ("y = hidden * gain", "Mul", ["hidden", "gain"]),
        ("y = (a + b) * gain", "Mul", ["x in forward", "gain"]),
        ("y = hidden * gain + x", "Add", ["x", "x"]),
    ],
)
def test_the_argument_of_a_slot(code, op, told) -> None:
    assert names(code, op, slots=2) == told


@pytest.mark.parametrize(
    ("code", "op", "told"),
    [
        ("y = hidden.sin()", "Cos", "x in forward"),
        ("y = hidden.cos()", "Cos", "hidden"),
        ("y = torch.cos(hidden)", "Cos", "hidden"),
        ("y = torch.cos(x)", "Cos", "x"),
        ("y = F.mse_loss(hidden, aim)", "MseLoss", "x in forward"),
        ("y = hidden.view(2, 3)", "View", "hidden"),
        ("for y in hidden.view(2, 3):", "View", "x in forward"),
        ("y = 2.0 * hidden", "Mul", "x in forward"),
        ("y = obj.x.cos(other)", "Cos", "x in forward"),
    ],
)
def test_the_tensor_of_a_call(code, op, told) -> None:
    assert names(code, op) == [told]


def test_within_one_function_the_name_is_that_of_the_line_that_made_it() -> None:
    assert names("y = (a * b).cos()", "Cos", made_in="main") == ["x"]


def test_leaves_go_by_their_own_name() -> None:
    graph, _ = graphs.two_outputs()
    leaf = next(leaf for leaf in graph.reached if leaf.name == "x")
    assert {sent_name(graph, edge) for edge in graph.in_edges(leaf.node)} == {"x"}
