"""Graphs that grow from call to call, as each hangs on the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import at_node, at_origin, tying_line, written
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.facts import EarlierCall
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape

KIND = "growing-graph"


def growing(graph: BackwardGraph, tape: Tape, calls: Sequence[Related] = ()) -> Iterator[Finding]:
    """Told from the third call of a line on: once is no growth yet, and a graph that two losses share stays as old as it is."""
    facts = graph.columns.facts
    same = _at_this_line(facts.earlier, calls)
    if tape.failure is not None or len(same) < 2 or not _grows(same, len(graph), facts.old_nodes):
        return
    sizes = ", ".join(str(count) for count in (*(call.nodes for call in same[-3:]), len(graph)))
    bridge = tying_line(graph)
    tie = f": {written(bridge)} carries the old part into the new one" if bridge is not None else ""
    message = (
        f"the graph of this line's calls grows from call to call ({sizes} nodes), and {facts.old_nodes} of its {len(graph)} "
        f"nodes are older than the call before{tie}"
    )
    name = (facts.names.get(facts.bridge, "") if bridge is not None else "") or (bridge.target if bridge is not None else "")
    hint = (
        f"{name or 'what is carried over'}.detach() before the next forward, and no retain_graph"
        if name
        else ("detach() what is carried from one iteration to the next, and leave retain_graph out")
    )
    related = at_origin(bridge, "carries the old graph into the new one")
    if bridge is not None:
        yield at_node(graph, facts.bridge, KIND, "warning", message, hint, related=related)
    else:
        file, line = (calls[0].file, calls[0].line) if calls else (same[-1].file, same[-1].line)
        yield Finding(KIND, "warning", message, hint, file=file, line=line)


def _at_this_line(earlier: Sequence[EarlierCall], calls: Sequence[Related]) -> list[EarlierCall]:
    """The earlier calls of the line that calls now, as far as they were looked at; without `calls`, that of the last one."""
    if not earlier:
        return []
    line = (calls[0].file, calls[0].line) if calls else (earlier[-1].file, earlier[-1].line)
    calls_of_line = [call for call in earlier if (call.file, call.line) == line and call.nodes != UNKNOWN]
    return [call for call in calls_of_line if call.kind == "backward"]  # derivatives of derivatives are meant to nest


def _grows(same: Sequence[EarlierCall], nodes: int, old_nodes: int) -> bool:
    before, last = same[-2:]
    return before.nodes < last.nodes < nodes and max(before.old_nodes, 0) < last.old_nodes < old_nodes
