"""The graphs of a report as one networkx graph whose attributes are all plain strings and numbers, as file forms want them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gradscope.export.naming import call_names
from gradscope.findings.finding import Finding
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.report import Report
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

if TYPE_CHECKING:
    import networkx

Attributes = dict[str, str | int | float]


def build(report: Report[Finding]) -> networkx.MultiDiGraph[str]:
    """Every call's graph, side by side. Node 5 of call 1 is `call1.node5`, edge 7 has the key `call1.edge7`.

    Norms are those of the script's own pass; a norm that is NaN or infinite is the text `nonfinite` instead of a number.
    """
    import networkx as nx

    whole: networkx.MultiDiGraph[str] = nx.MultiDiGraph(script=report.script)
    for call, stop in zip(call_names(report), report.stops, strict=True):
        if stop.graph is not None:
            _add(whole, call, stop.graph, stop.tapes[0] if stop.tapes else None)
    return whole


def _add(whole: networkx.MultiDiGraph[str], call: str, graph: BackwardGraph, tape: Tape | None) -> None:
    names = [f"{call}.node{node}" for node in range(len(graph))]
    for node, attributes in graph.networkx.nodes(data=True):
        whole.add_node(names[node], call=call, node=node, **_of_node(graph, tape, node, attributes))
    for source, target, slot, attributes in graph.networkx.edges(keys=True, data=True):
        edge = attributes["edge"]
        of_edge = {"slot": slot, "role": graph.role(edge), **_present(attributes)}
        sent = tape.contribution_of_edge(edge) if tape else None
        norm = _norm(tape, sent.tensor) if tape and sent else {}
        whole.add_edge(names[source], names[target], key=f"{call}.edge{edge}", **of_edge, **norm)


def _of_node(graph: BackwardGraph, tape: Tape | None, node: int, attributes: dict[str, object]) -> Attributes:
    result = _present(attributes) | _present({"makes": graph.makes(node)})
    if tape is not None and (step := tape.step_of(node)):
        result |= {"step": step, **_norm(tape, tape.arrived_at(step))}
    return result


def _present(attributes: dict[str, object]) -> Attributes:
    """The attributes that say something, shapes as `[2, 3]`."""
    result: Attributes = {}
    for name, value in attributes.items():
        if isinstance(value, tuple):
            result[name] = str(list(value))
        elif isinstance(value, str | int | float) and value != "":
            result[name] = value
    return result


def _norm(tape: Tape, tensor: int) -> Attributes:
    norm = None if tensor == NO_TENSOR else tape.summary(tensor).norm
    if norm is None:
        return {}
    return {"norm": norm} if math.isfinite(norm) else {"nonfinite": str(norm)}
