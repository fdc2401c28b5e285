"""A pass that comes to a node whose saved tensors an earlier call has freed."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import at_node, at_origin, name, tying_line, written
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.facts import EarlierCall, Freed
from gradscope.model.places import UNKNOWN, Origin
from gradscope.model.tape import Tape

KIND = "freed-graph"
_TEXT = "backward through the graph a second time"


def freed(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Which node has been freed, which call did it, and what ties this graph to that call's."""
    if not failed_by_freeing(tape):
        return
    assert tape.failure is not None
    seen = tape.columns.facts.freed[0] if tape.columns.facts.freed else Freed(tape.failure.node, 0)
    call, surely = _caller(graph, seen)
    node = seen.node
    where = name(graph, node) if node != UNKNOWN else "a node of this graph"
    message = f"{where} was already run backward{_by(call, surely)}, and its saved tensors are gone{_tie(graph, node)}"
    related = (*_place(call), *at_origin(_bridge(graph, node), "ties this graph to the earlier one"))
    if node == UNKNOWN:
        yield Finding(KIND, "error", message, _hint(graph, node), related=related)
    else:
        yield at_node(graph, node, KIND, "error", message, _hint(graph, node), related=related)


def failed_by_freeing(tape: Tape) -> bool:
    """The pass ended because saved tensors were gone."""
    return tape.failure is not None and _TEXT in tape.failure.message


def _caller(graph: BackwardGraph, seen: Freed) -> tuple[EarlierCall | None, bool]:
    """The call that freed the node, and whether that is certain: else the last one that freed anything is guessed."""
    earlier = graph.columns.facts.earlier
    for call in earlier:
        if call.number == seen.call:
            return call, seen.certain
    freeing = [call for call in earlier if not call.retain_graph]
    return (freeing[-1] if freeing and not seen.call else None), False


def _by(call: EarlierCall | None, surely: bool) -> str:
    if call is None:
        return " by an earlier call"
    code = f", {call.code}" if call.code else ""
    said = f"backward call {call.number} (line {call.line}{code})"
    return f" by {said}" if surely else f", it may be by {said}"


def _place(call: EarlierCall | None) -> tuple[Related, ...]:
    return () if call is None else (Related(call.file, call.line, f"backward call {call.number}: frees what it runs through"),)


def _tie(graph: BackwardGraph, node: int) -> str:
    """What carries the old graph into the new one, where that is another line than the node's own."""
    bridge = _bridge(graph, node)
    return f"; {written(bridge)} carries them into this graph" if bridge is not None else ""


def _bridge(graph: BackwardGraph, node: int) -> Origin | None:
    origin = tying_line(graph)
    own = graph.origin(node) if node != UNKNOWN else None
    return None if origin is None or (own is not None and (own.file, own.line) == (origin.file, origin.line)) else origin


def _hint(graph: BackwardGraph, node: int) -> str:
    tensor = _carried(graph, node)
    return (
        f"where {tensor} is carried from one iteration to the next, detach() it there; where several losses share it, add them "
        "up and call backward once; retain_graph=True on the earlier call only where the same graph is meant to run twice"
    )


def _carried(graph: BackwardGraph, node: int) -> str:
    for one in (graph.columns.facts.bridge, node):
        if one == UNKNOWN:
            continue
        origin = graph.origin(one)
        name = graph.columns.facts.names.get(one, "") or (origin.target if origin is not None else "")
        if name:
            return name
        if origin is not None:
            return f"what line {origin.line} makes"
    return "a tensor"
