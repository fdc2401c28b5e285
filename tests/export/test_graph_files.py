"""The graph as GraphML and DOT."""

from __future__ import annotations

import dataclasses
import io
import math
import re
import xml.etree.ElementTree as ElementTree

import networkx as nx
import pytest
from graphs import Drawing
from reports import empty_report, random_report, stop_of, two_outputs_report

from gradscope.export import dot, graphml
from gradscope.findings.finding import Finding
from gradscope.model.report import Report

STRANGE = 'a\\b "q" <&>\n\x00\x1b ‖é 🙂 \ud800'


def strange() -> Report[Finding]:
    drawing = Drawing()
    node = drawing.node("MulBackward0", origin=drawing.origin(STRANGE, 1, f"y = {STRANGE}"))
    drawing.edge(node, drawing.leaf(STRANGE), (1.0,))
    drawing.root(node)
    return Report(STRANGE, stops=(stop_of(drawing, ((math.inf,),)),))


def as_graphml(report: Report[Finding]) -> nx.MultiDiGraph[str]:
    graph = nx.read_graphml(io.BytesIO(b"".join(graphml.chunks(report))), force_multigraph=True)
    assert isinstance(graph, nx.MultiDiGraph)
    return graph


def as_dot(report: Report[Finding]) -> str:
    return b"".join(dot.chunks(report)).decode()


def test_graphml_reads_back() -> None:
    graph = as_graphml(two_outputs_report())
    assert nx.is_isomorphic(nx.DiGraph(graph), nx.DiGraph([(2, 0), (2, 1), (0, 3), (1, 3)]))
    assert graph.number_of_edges("call1.node0", "call1.node3") == 2
    node = graph.nodes["call1.node1"]
    assert (node["op"], node["line"], node["makes"], node["step"], node["shape"]) == ("SinBackward0", 11, "b = x.sin()", 2, "[2]")
    assert node["norm"] == pytest.approx(math.hypot(1, 10))
    assert graph.nodes["call1.node3"]["leaf"] == "x"
    (edge,) = graph["call1.node1"]["call1.node3"].values()
    assert (edge["slot"], edge["input_nr"], edge["edge"], edge["role"]) == (0, 0, 2, "self")


def test_graphml_ids_are_unique() -> None:
    root = ElementTree.fromstring(b"".join(graphml.chunks(random_report(3))))
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_several_calls_lie_side_by_side() -> None:
    report = random_report(5)
    graph = as_graphml(report)
    assert len(graph) == sum(len(stop.graph) for stop in report.stops if stop.graph)
    assert {data["call"] for _, data in graph.nodes(data=True)} == {"call1", "call2"}
    twice = dataclasses.replace(report, stops=(report.stops[0], report.stops[0]))
    assert {data["call"] for _, data in as_graphml(twice).nodes(data=True)} == {"call1", "call1#2"}
    assert as_dot(twice).count("subgraph") == 2


def test_characters_that_xml_lacks() -> None:
    graph = as_graphml(strange())
    assert graph.nodes["call1.node1"]["leaf"] == STRANGE.translate({0: "\ufffd", 0x1B: "\ufffd", 0xD800: "\ufffd"})
    assert graph.nodes["call1.node0"]["nonfinite"] == "inf"


def test_dot() -> None:
    lines = as_dot(two_outputs_report()).splitlines()
    assert '    "call1.node1" [label="SinBackward0\\nb = x.sin()\\n[2]\\n‖10.05‖"]' in lines
    assert '  "call1.node1" -> "call1.node3" [label="self ‖4.196‖"]' in lines
    assert (lines[0], lines[-1]) == ("digraph gradscope {", "}")


def test_dot_strings_end_where_they_should() -> None:
    """Without its quoted strings the text is plain: no quote inside one was left open."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "S", as_dot(strange()))
    assert '"' not in bare
    assert "\0" not in bare
    assert re.fullmatch(r"[\w\s{}\[\]=,>;-]+", bare)


def test_nothing_recorded() -> None:
    assert len(as_graphml(empty_report())) == 0
    assert as_dot(empty_report()).count("{") == as_dot(empty_report()).count("}")
