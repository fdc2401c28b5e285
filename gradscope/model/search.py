"""Which visible rows hold a text."""

from __future__ import annotations

import re

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import UNKNOWN
from gradscope.model.rows import Rows
from gradscope.model.tape import Tape


def find(rows: Rows, graph: BackwardGraph, tape: Tape, text: str) -> list[int]:
    """Rows that match, ascending; a closed group matches when something inside it does.

    A text is searched as it is, without regard to case unless it has a capital; `/…/` is a regular expression. What is looked at:
    the node's op, the statement that made it, its module, leaves and their other names, and the labels of groups. A regular
    expression that is wrong matches nothing.
    """
    pattern = _pattern(text)
    if pattern is None:
        return []
    steps = _steps(graph, tape, pattern)
    found = set(steps) if len(rows) == tape.steps + 1 else set(map(rows.row_of_step, steps))
    found.update(row for row in rows.groups if pattern.search(rows.label(row)))
    if pattern.search(rows.label(0)):
        found.add(0)
    return sorted(found)


def _pattern(text: str) -> re.Pattern[str] | None:
    if not text:
        return None
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        try:
            return re.compile(text[1:-1])
        except re.error:
            return None
    return re.compile(re.escape(text), 0 if text != text.lower() else re.IGNORECASE)


def _steps(graph: BackwardGraph, tape: Tape, pattern: re.Pattern[str]) -> list[int]:
    """Steps whose node matches. Ops and origins are few: each is looked at once, however many nodes it has."""
    columns = graph.columns
    ops = [bool(pattern.search(op)) for op in columns.ops]
    origins = [bool(pattern.search(origin.code) or pattern.search(origin.module)) for origin in columns.origins]
    origins.append(False)  # the place that UNKNOWN, -1, names
    assert UNKNOWN == -1
    leaves = {leaf.node for leaf in graph.reached if any(map(pattern.search, (leaf.name, *leaf.aliases)))}
    op_of, origin_of = graph.op_index, graph.origin_index
    return [step for step, node in enumerate(tape.step_node, 1) if ops[op_of(node)] or origins[origin_of(node)] or node in leaves]
