"""Where a finding is: node, op and the line of the forward call that made it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.model.backward_graph import BackwardGraph


def at_node(
    graph: BackwardGraph,
    node: int,
    kind: str,
    severity: str,
    message: str,
    hint: str = "",
    leaf: str = "",
    related: Sequence[Related] = (),
    index: tuple[int, ...] | None = None,
    value: float | None = None,
) -> Finding:
    """A finding that speaks of a node of the graph."""
    origin = graph.origin(node)
    place = graph.leaf_at(node)
    return Finding(
        kind=kind,
        severity=severity,
        message=message,
        hint=hint,
        node=node,
        op=graph.op(node),
        file=origin.file if origin else "",
        line=origin.line if origin else 0,
        related=tuple(related),
        leaf=leaf or (graph.leaves[place].name if place is not None else ""),
        index=index,
        value=value,
    )


def name(graph: BackwardGraph, node: int) -> str:
    """How a message calls a node: `SqrtBackward0 (y = x.sqrt())`, `the leaf w`."""
    place = graph.leaf_at(node)
    if place is not None:
        return f"the leaf {graph.leaves[place].name}"
    code = graph.makes(node)
    return f"{graph.op(node)} ({code})" if code else graph.op(node)


def listed(names: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 4 more`."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def foreign_places(text: str, what: str) -> list[Related]:
    """The places that a text about a person's own code names: `hook clip (a.py:3)`."""
    return [Related(file, int(line), what) for file, line in re.findall(r"\(([^()]+):(\d+)\)", text)]
