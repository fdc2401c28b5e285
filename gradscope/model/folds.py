"""Which groups of the tape are closed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.modules import CALL, REPEATED, ROUND, Group, Item, Outline
from gradscope.model.tape import Tape

UNFOLDED = -1

UNFOLDED_NODES = 200
"""Up to so many nodes a graph opens unfolded."""


@dataclass(frozen=True, slots=True)
class Folds:
    """Immutable: each change gives new folds.

    A small graph is shown step by step, without headings, apart from the modules that were closed. A big one is shown as an
    outline: all is closed apart from the groups that were opened, and those have headings.
    """

    outline: bool = False
    leaves: bool = False
    """leaves are shown with the step that contributes to them last, not as rows of their own"""
    changed: frozenset[str] = field(default_factory=frozenset)
    """keys of the groups that were closed, in an outline of those that were opened"""
    plumbing: bool = False
    """view-like nodes are hidden: their steps belong to rows beside them"""
    depth: int = UNFOLDED
    """to how many levels all was last opened; UNFOLDED for all of them, without an outline"""

    @classmethod
    def default(cls, graph: BackwardGraph, tape: Tape, screen_rows: int = 40) -> Folds:
        """Unfolded up to UNFOLDED_NODES; above that open to the depth at which the rows fit two screens.

        Of a series of alike blocks the first is opened, the others stay one row.
        """
        if len(graph) <= UNFOLDED_NODES:
            return cls()
        outline, folds = Outline.of(graph, tape), cls(outline=True, leaves=True, depth=0)
        for opened in _levels(outline):
            if _count(outline, outline.top, opened) > 2 * screen_rows:
                return folds
            folds = opened
        return folds

    def by_depth(self, graph: BackwardGraph, tape: Tape, change: int) -> Folds | None:
        """All opened to one level more or less, series of alike blocks still rolled but for their first; None at the ends.

        Beyond the deepest level all is unfolded, without an outline.
        """
        levels = [Folds(outline=True, leaves=True, depth=0), *_levels(Outline.of(graph, tape)), Folds()]
        depth = (len(levels) - 1 if self.depth == UNFOLDED else self.depth) + change
        return replace(levels[depth], plumbing=self.plumbing) if 0 <= depth < len(levels) else None

    def closed(self, key: str) -> bool:
        return (key in self.changed) != self.outline

    def open(self, key: str) -> Folds:
        return self.toggle(key) if self.closed(key) else self

    def close(self, key: str) -> Folds:
        return self if self.closed(key) else self.toggle(key)

    def toggle(self, key: str) -> Folds:
        return replace(self, changed=self.changed ^ {key})

    def with_leaves(self, folded: bool) -> Folds:
        """Leaves folded into their consumers, or each a row of its own."""
        return replace(self, leaves=folded)

    def with_plumbing(self, hidden: bool) -> Folds:
        """View-like nodes hidden, or shown."""
        return replace(self, plumbing=hidden)

    def like(self, other: Folds) -> Folds:
        """What the person made of the folds in another call's graph, where this one is shown in the same manner."""
        return other if other.outline == self.outline else self.with_plumbing(other.plumbing)


def _levels(outline: Outline) -> Iterator[Folds]:
    """Everything opened one level deep, then two, … as long as there is anything to open."""
    folds = Folds(outline=True, leaves=True, depth=0)
    while keys := frozenset(_openable(outline, outline.top, folds)):
        folds = replace(folds, changed=folds.changed | keys, depth=folds.depth + 1)
        yield folds


def _openable(outline: Outline, items: list[Item], folds: Folds) -> list[str]:
    """Closed groups in sight that have groups inside, and first rounds of loops: opening them shows more of the outline."""
    keys: list[str] = []
    for group in items:
        if not isinstance(group, Group) or group.kind == CALL:
            continue
        if group.kind == REPEATED:
            keys.extend(_openable(outline, [outline.member(group, 0)], folds))
        elif not folds.closed(group.key):
            keys.extend(_openable(outline, outline.inside(group), folds))
        elif group.kind == ROUND or any(isinstance(item, Group) and item.kind != CALL for item in outline.inside(group)):
            keys.append(group.key)
    return keys


def _count(outline: Outline, items: list[Item], folds: Folds) -> int:
    """Rows in sight, for folds that open no series but perhaps its first member."""
    rows = 0
    for item in items:
        if not isinstance(item, Group):
            rows += outline.count_heads(item)
        elif item.kind == REPEATED:
            first = outline.member(item, 0)
            opened = isinstance(first, Group) and not folds.closed(first.key)
            rows += 1 + (_count(outline, [first], folds) if opened else 0)
        else:
            rows += 1 if folds.closed(item.key) else 1 + _count(outline, outline.inside(item), folds)
    return rows
