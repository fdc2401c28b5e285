import math
from dataclasses import replace

import graphs
import networkx as nx
import pytest

from gradscope.model.backward_graph import BackwardGraph, short_op
from gradscope.model.columns import GraphColumns
from gradscope.model.places import UNKNOWN

MUL, SIN, ADD, X = 0, 1, 2, 3


@pytest.fixture
def graph() -> BackwardGraph:
    return graphs.two_outputs()[0]


def test_nodes_and_edges(graph):
    assert (len(graph), graph.edge_count) == (4, 5)
    assert [graph.op(node) for node in range(4)] == ["MulBackward0", "SinBackward0", "AddBackward0", "AccumulateGrad"]
    assert [graph.short(node) for node in range(4)] == ["Mul", "Sin", "Add", "AccumulateGrad"]
    assert [graph.target[edge] for edge in graph.out_edges(ADD)] == [MUL, SIN]
    assert [graph.target[edge] for edge in graph.out_edges(MUL)] == [X, X]
    assert [graph.source[edge] for edge in graph.in_edges(X)] == [MUL, MUL, SIN]
    assert [graph.role(edge) for edge in graph.in_edges(X)] == ["self", "other", "self"]
    assert len(graph.out_edges(X)) == len(graph.in_edges(ADD)) == 0


def test_words(graph):
    assert [graph.label(node) for node in range(4)] == ["MulBackward0", "SinBackward0", "AddBackward0", "x  (leaf)"]
    assert [graph.makes(node) for node in range(4)] == ["a = x * x", "b = x.sin()", "J = a + b", ""]
    assert [graph.gradient_name(node) for node in range(4)] == ["∂a", "∂b", "∂J", "x.grad"]
    assert graph.origin(SIN).line == 11
    assert graph.origin(X).line == 9
    assert graph.shape(SIN) == (2,)
    assert graph.dtype(SIN) == "float32"
    assert graph.local(graph.out_edges(SIN)[0]).values == (math.cos(1.0), math.cos(2.0))


def test_a_part_of_a_statement_is_shown_as_that_part(graph):
    columns = graph.columns
    columns.origins = [replace(origin, expression="x * x", target="") for origin in columns.origins]
    assert BackwardGraph(columns).makes(MUL) == "x * x"
    columns.origins = [replace(origin, expression="x * x", target="a") for origin in columns.origins]
    assert BackwardGraph(columns).makes(MUL) == "a = x * x"


def test_leaves_reached_and_not():
    drawing = graphs.two_outputs_drawing()
    drawing.leaf("unused", reached=False)
    graph = drawing.graph()
    assert [leaf.name for leaf in graph.reached] == ["x"]
    assert [leaf.name for leaf in graph.unreached] == ["unused"]
    assert graph.leaf_at(X) == 0
    assert graph.leaf_at(SIN) is None


@pytest.mark.parametrize(
    ("op", "short"),
    [
        ("SinBackward0", "Sin"),
        ("AccumulateGrad", "AccumulateGrad"),
        ("ThresholdBackwardBackward0", "ThresholdBackward"),
        ("MyFunctionBackward", "MyFunction"),
        ("CopySlices", "CopySlices"),
        ("Backward0", "Backward0"),
    ],
)
def test_short_names(op, short):
    assert short_op(op) == short


def test_only_the_node_that_made_a_name_carries_it():
    drawing = graphs.Drawing()
    line = drawing.origin("a.py", 1, "b = (x * x).sin()")
    leaf = drawing.leaf("x")
    mul, sin = drawing.node("MulBackward0", origin=line), drawing.node("SinBackward0", origin=line)
    drawing.edge(sin, mul)
    drawing.edge(mul, leaf)
    drawing.root(sin, "f(x)[0]")
    graph = drawing.graph()
    assert [graph.gradient_name(node) for node in (mul, sin)] == ["", "∂b"]


def test_each_round_of_a_loop_makes_the_name():
    graph, _ = graphs.recurrent(3)
    tanhs = [node for node in range(len(graph)) if graph.op(node) == "TanhBackward0"]
    mms = [node for node in range(len(graph)) if graph.op(node) == "MmBackward0"]
    assert [graph.gradient_name(node) for node in tanhs] == ["∂h"] * 3
    assert [graph.gradient_name(node) for node in mms] == [""] * 3
    assert [graph.occurrence(node) for node in tanhs] == [1, 2, 3]
    assert graph.occurrences(tanhs[0]) == 3


def test_networkx_has_every_edge_with_its_slot(graph):
    drawn = graph.networkx
    assert isinstance(drawn, nx.MultiDiGraph)
    assert sorted(drawn.edges(keys=True)) == [(MUL, X, 0), (MUL, X, 1), (SIN, X, 0), (ADD, MUL, 0), (ADD, SIN, 1)]
    assert drawn.edges[MUL, X, 1] == {"edge": 1, "input_nr": 0}
    assert drawn.nodes[SIN] == {
        "op": "SinBackward0",
        "name": "Sin",
        "shape": (2,),
        "dtype": "float32",
        "file": graphs.FILE,
        "line": 11,
        "function": "<module>",
        "module": "",
        "leaf": "",
    }
    assert drawn.nodes[X]["leaf"] == "x"
    assert nx.ancestors(drawn, X) == {MUL, SIN, ADD}
    assert graph.networkx is drawn


def test_an_empty_graph():
    graph = BackwardGraph(GraphColumns())
    assert (len(graph), graph.edge_count, graph.reached) == (0, 0, [])
    assert len(graph.networkx) == 0


def test_unknown_columns_may_be_left_out():
    columns = graphs.two_outputs()[0].columns
    columns.origin = columns.occurrence = columns.shape = columns.sequence_nr = columns.dtype = b""
    graph = BackwardGraph(columns)
    assert graph.origin(SIN) is None
    assert graph.origin_index(SIN) == UNKNOWN
    assert (graph.makes(SIN), graph.gradient_name(SIN), graph.shape(SIN), graph.occurrence(SIN)) == ("", "", None, 0)
    assert graph.sequence_nr(SIN) == UNKNOWN
    assert graph.gradient_name(ADD) == "∂J"
