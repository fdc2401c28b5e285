"""Which visible rows hold a text."""

from __future__ import annotations

import re

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.rows import Rows
from gradscope.model.tape import Tape


def find(rows: Rows, graph: BackwardGraph, tape: Tape, text: str) -> list[int]:
    """Rows that match, ascending.

    A text is searched as it is, without regard to case unless it has a capital; `/…/` is a regular expression. What is looked at:
    the row's label, what it makes, its module and its leaf. A regular expression that is wrong matches nothing.
    """
    pattern = _pattern(text)
    if pattern is None:
        return []
    return [row for row in range(len(rows)) if pattern.search(_text(rows, graph, row))]


def _pattern(text: str) -> re.Pattern[str] | None:
    if not text:
        return None
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        try:
            return re.compile(text[1:-1])
        except re.error:
            return None
    return re.compile(re.escape(text), 0 if text != text.lower() else re.IGNORECASE)


def _text(rows: Rows, graph: BackwardGraph, row: int) -> str:
    node = rows.node(row)
    if node < 0:
        return rows.label(row)
    origin = graph.origin(node)
    return "\n".join((rows.label(row), graph.makes(node), origin.module if origin else ""))
