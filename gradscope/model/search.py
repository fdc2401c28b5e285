"""Which nodes of a pass, and which visible groups, a text names."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import UNKNOWN
from gradscope.model.rows import Rows
from gradscope.model.tape import Tape

Place = tuple[int, int]
"""What a match is: (step, -1) of a node, (first step, row) of a group."""


class Matches:
    """What a search finds under a set of folds, in the order of the tape; `in` tells whether a visible row is to be marked.

    Folds hide no match: a node counts wherever it is. A group is a match by its own name, and of those only groups without a
    matching node inside count, since the others only repeat it.
    """

    def __init__(self, rows: Rows, graph: BackwardGraph, tape: Tape, text: str) -> None:
        self.text = text
        self._rows = rows
        self._pattern = _pattern(text)
        self._steps: Sequence[int] = _steps(graph, tape, text, self._pattern, rows) if self._pattern else ()

    def __len__(self) -> int:
        return len(self._steps) + len(self._groups)

    def __contains__(self, row: object) -> bool:
        if self._pattern is None or not isinstance(row, int):
            return False
        if row in self._rows.groups:
            return row in self._named
        place = bisect_left(self._steps, self._rows.head(row))
        return place < len(self._steps) and self._steps[place] == self._rows.head(row)

    def at_or_after(self, row: int) -> Place | None:
        """The first match that is not above a row."""
        return self._after(row, bisect_left(self._steps, self._rows.first(row)), bisect_left(self._groups, row))

    def after(self, row: int) -> Place | None:
        """The first match below a row; what a group hides is below it."""
        step = self._rows.first(row)
        step -= row in self._rows.groups
        return self._after(row, bisect_right(self._steps, step), bisect_right(self._groups, row))

    def before(self, row: int) -> Place | None:
        """The last match above a row."""
        step, group = bisect_left(self._steps, self._rows.first(row)) - 1, bisect_left(self._groups, row) - 1
        if step < 0 or (group >= 0 and self._rows.first(self._groups[group]) > self._steps[step]):
            return self._group(group) if group >= 0 else None
        return self._steps[step], -1

    def number(self, place: Place) -> int:
        """Its number among all, from 1."""
        step, row = place
        if row >= 0:
            return bisect_left(self._steps, step) + bisect_left(self._groups, row) + 1
        groups = bisect_right(self._groups, step, key=self._rows.first)
        return bisect_left(self._steps, step) + groups + 1

    @property
    def first(self) -> Place | None:
        return self._after(0, 0, 0)

    @property
    def last(self) -> Place | None:
        step, group = len(self._steps) - 1, len(self._groups) - 1
        if group >= 0 and (step < 0 or self._rows.first(self._groups[group]) > self._steps[step]):
            return self._group(group)
        return (self._steps[step], -1) if step >= 0 else None

    def _after(self, row: int, step: int, group: int) -> Place | None:
        """The nearer of a match among the steps and one among the groups, by their places there."""
        if group < len(self._groups):
            first = self._rows.first(self._groups[group])
            if step == len(self._steps) or first <= self._steps[step]:
                return self._group(group)
        return (self._steps[step], -1) if step < len(self._steps) else None

    def _group(self, place: int) -> Place:
        return self._rows.first(self._groups[place]), self._groups[place]

    @cached_property
    def _named(self) -> frozenset[int]:
        """The visible groups whose own name matches."""
        pattern = self._pattern
        return frozenset(row for row in self._rows.groups if pattern and pattern.search(self._rows.label(row)))

    @cached_property
    def _groups(self) -> list[int]:
        """Those of them that hold no matching node."""
        return [row for row in sorted(self._named) if not self._holds_step(row)]

    def _holds_step(self, row: int) -> bool:
        place = bisect_left(self._steps, self._rows.first(row))
        return place < len(self._steps) and self._steps[place] <= self._rows.last(row)


def _pattern(text: str) -> re.Pattern[str] | None:
    """A text is searched as it is, without regard to case unless it has a capital; `/…/` is a regular expression.

    A regular expression that is wrong matches nothing.
    """
    if not text:
        return None
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        try:
            return re.compile(text[1:-1])
        except re.error:
            return None
    return re.compile(re.escape(text), 0 if text != text.lower() else re.IGNORECASE)


def _steps(graph: BackwardGraph, tape: Tape, text: str, pattern: re.Pattern[str], rows: Rows) -> Sequence[int]:
    """Steps whose node matches, 0 for the seed: remembered with the tape, since folds do not change them."""
    known: tuple[str, Sequence[int]] = tape.derived.get("search", ("", ()))
    if known[0] != text:
        seed = [0] if pattern.search(rows.label(0)) else []
        known = tape.derived["search"] = (text, array("i", [*seed, *_nodes(graph, tape, pattern)]))
    return known[1]


def _nodes(graph: BackwardGraph, tape: Tape, pattern: re.Pattern[str]) -> list[int]:
    """What is looked at: a node's op, the statement that made it, its module, leaves and their other names.

    Ops and origins are few: each is looked at once, however many nodes it has.
    """
    columns = graph.columns
    ops = [bool(pattern.search(op)) for op in columns.ops]
    origins = [bool(pattern.search(origin.code) or pattern.search(origin.module)) for origin in columns.origins]
    origins.append(False)  # the place that UNKNOWN, -1, names
    assert UNKNOWN == -1
    leaves = {leaf.node for leaf in graph.reached if any(map(pattern.search, (leaf.name, *leaf.aliases)))}
    op_of, origin_of = graph.op_index, graph.origin_index
    return [step for step, node in enumerate(tape.step_node, 1) if ops[op_of(node)] or origins[origin_of(node)] or node in leaves]
