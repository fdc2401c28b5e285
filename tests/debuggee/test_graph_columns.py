from __future__ import annotations

import torch
from passes import explored
from torch import nn

from gradscope.debuggee.capture import capture
from gradscope.debuggee.graph_columns import graph_columns
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import Origin


def test_local_derivatives_and_roles() -> None:
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = torch.tensor([5.0, 7.0], requires_grad=True)
    columns = graph_columns(capture([x.sin() * y]))
    graph = BackwardGraph(columns)
    mul = next(n for n in range(len(graph)) if graph.op(n) == "MulBackward0")
    first, second = graph.out_edges(mul)
    assert (columns.edge_roles[first], columns.edge_roles[second]) == ("self", "other")
    assert columns.local[first].values == (5.0, 7.0)
    assert columns.local[first].text == "other"
    assert columns.local[second].values == tuple(x.detach().sin().tolist())
    sin = next(n for n in range(len(graph)) if graph.op(n) == "SinBackward0")
    [edge] = graph.out_edges(sin)
    assert columns.local[edge].values == tuple(x.detach().cos().double().tolist())
    assert columns.local[edge].text == "cos(x)"
    assert x.grad is None


def test_no_local_derivative_where_shapes_differ_or_numbers_are_many() -> None:
    x = torch.ones(3, 1, requires_grad=True)
    assert graph_columns(capture([(x * torch.ones(3, 2, requires_grad=True))])).local == {}
    assert graph_columns(capture([torch.ones(65, requires_grad=True).sin()])).local == {}


def test_no_local_derivative_behind_unpack_hooks() -> None:
    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        raise AssertionError("read")

    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = x.sin()
    captured = capture([y])
    assert graph_columns(captured).local == {}
    assert "unpack hook" in captured.foreign.why[0]


def test_a_freed_graph_can_still_be_described() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.sin().sum()
    y.backward()
    assert graph_columns(capture([y])).ops == ["SumBackward0", "SinBackward0", "AccumulateGrad"]


def test_shapes_sequence_numbers_and_leaves() -> None:
    net = nn.Linear(4, 2)
    graph = explored(net(torch.ones(3, 4)).sum()).graph
    assert [graph.op(n) for n in range(len(graph))][:2] == ["SumBackward0", "AddmmBackward0"]
    assert graph.shape(1) == (3, 2)
    assert graph.sequence_nr(0) > graph.sequence_nr(1)
    assert sorted(leaf.shape for leaf in graph.leaves) == [(2,), (2, 4)]
    assert {leaf.kind for leaf in graph.leaves} == {"parameter"}
    assert [graph.role(edge) for edge in graph.out_edges(1)] == ["self", "mat2"] or graph.role(0) is not None


def test_origins_and_occurrences() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(3):
        y = y.sin()
    place = Origin("train.py", 3, "main")
    runs = [1, 1, 2]
    columns = graph_columns(capture([y]), origin_of=lambda number, op: place, occurrences=lambda numbers: runs, root_names=["y"])
    graph = BackwardGraph(columns)
    assert columns.origins == [place]
    assert [graph.occurrence(n) for n in range(4)] == [2, 1, 1, 0]
    assert [graph.occurrences(n) for n in range(4)] == [2, 2, 2, 0]
    assert columns.roots[0].name == "y"
