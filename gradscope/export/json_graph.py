"""The backward graph in the JSON report: roots, nodes, edges."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Hook, Root
from gradscope.model.places import UNKNOWN, Origin
from gradscope.model.saved import SavedTable

Fields = dict[str, object]


def fields(graph: BackwardGraph | None, saved: SavedTable | None = None) -> Fields:
    """`roots`, `nodes` and `edges`; all empty where nothing was captured. Nodes tell what they keep where it was read."""
    if graph is None:
        return {"roots": [], "nodes": [], "edges": []}
    return {
        "roots": [_root(root) for root in graph.roots],
        "nodes": (_node(graph, node, saved) for node in range(len(graph))),
        "edges": _edges(graph),
    }


def number(value: int) -> int | None:
    """A node's or an edge's number, null where there is none."""
    return None if value == UNKNOWN else value


def text(value: str) -> str | None:
    """A name, null where there is none."""
    return value or None


def _root(root: Root) -> Fields:
    return {
        "name": root.name,
        "node": number(root.node),
        "input_nr": root.input_nr,
        "shape": root.shape,
        "dtype": root.dtype,
        "device": root.device,
    }


def _node(graph: BackwardGraph, node: int, table: SavedTable | None) -> Fields:
    origin = graph.origin(node)
    leaf = ", ".join(graph.leaves[place].name for place in graph.leaves_at(node))
    return {
        "id": node,
        "op": graph.op(node),
        "name": text(leaf or graph.gradient_name(node).removeprefix("∂")),
        "shape": graph.shape(node),
        "dtype": text(graph.dtype(node)),
        "origin": _origin(origin) if origin else None,
        "occurrence": graph.occurrence(node) or None,
        "leaf": text(leaf),
        "hooks": [_hook(hook) for _, hook in graph.hooks_of(node)],
        "saved": None if table is None else _saved(table, node),
    }


def _hook(hook: Hook) -> Fields:
    place = hook.place
    return {
        "kind": hook.kind,
        "name": hook.name,
        "input_nr": number(hook.input_nr),
        "file": place.file if place else None,
        "line": place.line if place else None,
    }


def _saved(table: SavedTable, node: int) -> Fields:
    """`bytes` counts each storage once; `own` those that nothing but the graph is known to hold."""
    return {
        "bytes": table.bytes_of_node(node),
        "own": table.bytes_of_node(node, own=True),
        "tensors": [
            {
                "name": one.name,
                "shape": one.shape,
                "dtype": text(one.dtype),
                "bytes": one.bytes,
                "state": one.text,
                "owner": text(one.owner),
            }
            for one in table.of_node(node)
        ],
        "untold": text(table.why_untold(node)),
    }


def _origin(origin: Origin) -> Fields:
    return {
        "file": origin.file,
        "line": origin.line,
        "function": origin.function,
        "module": origin.module,
        "module_type": origin.module_type,
        "torch_function": origin.torch_function,
        "code": origin.code,
        "expression": origin.expression,
    }


def _edges(graph: BackwardGraph) -> Iterator[Fields]:
    columns = zip(graph.source, graph.slot, graph.target, graph.input_nr, strict=True)
    for edge, (source, slot, target, input_nr) in enumerate(columns):
        yield {"source": source, "slot": slot, "target": target, "input_nr": input_nr, "role": text(graph.role(edge))}
