"""The `.dot` export, for Graphviz: `dot -Tsvg graph.dot -o graph.svg`.

Edges point the way the gradient goes, from the loss to the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gradscope.export.naming import call_names
from gradscope.export.plain_graph import build
from gradscope.findings.finding import Finding
from gradscope.model.report import Report

_HEAD = """digraph gradscope {
  graph [rankdir=TB, fontname="monospace"]
  node [shape=box, fontname="monospace", fontsize=10]
  edge [fontname="monospace", fontsize=9]
"""


def chunks(report: Report[Finding]) -> Iterator[bytes]:
    """The file in pieces: one line a node, one line an edge, a cluster for each call."""
    for text in _lines(report):
        yield text.encode("utf-8", "replace")


def _lines(report: Report[Finding]) -> Iterator[str]:
    graph = build(report)
    yield _HEAD
    nodes: dict[str, list[str]] = {name: [] for name in call_names(report)}
    for name, data in graph.nodes(data=True):
        nodes[data["call"]].append(f"    {quoted(name)} [{_node(data)}]\n")
    for (call, lines), stop in zip(nodes.items(), report.stops, strict=True):
        title = f"{stop.call.kind} {stop.call.number}: {stop.call.site.code or stop.call.site.file}"
        yield f"  subgraph {quoted(f'cluster_{call}')} {{\n    label={quoted(title)}\n"
        yield from lines
        yield "  }\n"
    for source, target, data in graph.edges(data=True):
        yield f"  {quoted(source)} -> {quoted(target)} [label={quoted(_edge_label(data))}]\n"
    yield "}\n"


def quoted(text: str) -> str:
    """A string of the DOT language. A backslash means itself, a line break starts a new line of the label."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n").replace("\0", "") + '"'


def _node(data: Mapping[str, object]) -> str:
    leaf = data.get("leaf")
    lines = [str(leaf or data["op"]), str(data.get("makes", "")), str(data.get("shape", "")), _norm(data)]
    label = quoted("\n".join(line for line in lines if line))
    style = ', style="rounded,filled", fillcolor="lightgrey"' if leaf else ""
    if "nonfinite" in data:
        style += ', color="red", penwidth=2'
    return f"label={label}{style}"


def _edge_label(data: Mapping[str, object]) -> str:
    return " ".join(part for part in (str(data.get("role", "")), _norm(data)) if part)


def _norm(data: Mapping[str, object]) -> str:
    norm = data.get("norm")
    if isinstance(norm, float):
        return f"‖{norm:.4g}‖"
    return f"‖{data['nonfinite']}‖" if "nonfinite" in data else ""
