"""Where a finding is: node, op and the line of the forward call that made it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import UNKNOWN, Origin


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
    """How a message calls a node: `SqrtBackward0 at line 12 (y = x.sqrt())`, `the leaf w`."""
    place = graph.leaf_at(node)
    if place is not None:
        return f"the leaf {graph.leaves[place].name}"
    origin, code = graph.origin(node), graph.makes(node)
    line = f" at line {origin.line}" if origin is not None else ""
    return f"{graph.op(node)}{line} ({code})" if code else f"{graph.op(node)}{line}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 4 more`."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def foreign_places(text: str, what: str) -> list[Related]:
    """The places that a text about a person's own code names: `hook clip (a.py:3)`."""
    return [Related(file, int(line), what) for file, line in re.findall(r"\(([^()]+):(\d+)\)", text)]


def written(origin: Origin, here: str = "") -> str:
    """`line 17 (h = net(x))`; `net.py:17 (…)` where that is not the file one speaks of."""
    place = f"line {origin.line}" if not here or origin.file == here else f"{os.path.basename(origin.file)}:{origin.line}"
    return f"{place} ({origin.code})" if origin.code else place


def tying_line(graph: BackwardGraph) -> Origin | None:
    """The line that ties this graph to an older one, where there is one."""
    node = graph.columns.facts.bridge
    return None if node == UNKNOWN else graph.origin(node)


def at_origin(origin: Origin | None, what: str) -> tuple[Related, ...]:
    """The line of an origin as the other place of a finding; none where it is not known."""
    return () if origin is None else (Related(origin.file, origin.line, what),)
