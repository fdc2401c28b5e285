"""Leaves that lie on one memory, and are two all the same."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.findings.finding import Finding
from gradscope.findings.place import at_node, at_origin
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape

KIND = "shared-storage"


def shared_storage(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Each pair once: tied in memory, not in the graph."""
    told: set[frozenset[str]] = set()
    for one in graph.columns.facts.shared:
        leaf = graph.leaves[one.leaf]
        pair = frozenset((leaf.name, one.other))
        if pair in told:
            continue
        told.add(pair)
        at = f" since line {one.origin.line} ({one.origin.code})" if one.origin else ""
        message = (
            f"{leaf.name} and {one.other} are two leaves on the same memory{at}: a step of one writes into the other, yet each "
            f"has a gradient of its own, which is but its share"
        )
        hint = "to tie them use one Parameter in both places (a.weight = b.weight); to keep them apart clone() the values"
        related = at_origin(one.origin, "makes the one of the other")
        if leaf.node >= 0:
            yield at_node(graph, leaf.node, KIND, "warning", message, hint, related=related, leaf=f"{leaf.name}, {one.other}")
        else:
            yield Finding(KIND, "warning", message, hint, related=related, leaf=f"{leaf.name}, {one.other}")
