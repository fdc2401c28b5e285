"""How wide the tape's columns are: from what the whole graph holds, never from the rows in sight, so that nothing jumps."""

from __future__ import annotations

from dataclasses import dataclass

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape
from gradscope.tui import numbers
from gradscope.tui.widgets.line import cells

GUTTER = 2
NORM = 7
FLAGS = 2
"""always there: a column that came with the first flag would move the others"""
BAR = 4
DELTA = 9
SCROLLBAR = 1
"""a scroll bar hides the last cell of a line: it may end a bar, never a number"""
NARROWEST_NODE, WIDEST_NODE = 14, 26
NARROWEST_MAKES, WIDEST_MAKES = 10, 26
WIDEST_SHAPE = 14


@dataclass(frozen=True, slots=True)
class Content:
    """The widest text of each column in a whole graph and pass."""

    step: int
    node: int
    makes: int
    line: int
    shape: int
    grouped: bool
    """Some rows stand for several steps."""

    @classmethod
    def of(cls, graph: BackwardGraph, tape: Tape, grouped: bool) -> Content:
        """Of a pass."""
        columns = graph.columns
        digits = len(str(tape.steps))
        labels = [*columns.ops, *(f"{leaf.name}  (leaf)" for leaf in graph.reached[:1000])]
        leaf_lines = {leaf.origin for leaf in graph.leaves}
        codes = [origin.code for place, origin in enumerate(columns.origins[:5000]) if place not in leaf_lines]
        lines = max((origin.line for origin in columns.origins), default=0)
        shapes = {*columns.shapes[:1000], *shapes_of(tape)}
        return cls(
            step=max(4, 2 * digits + 1 if grouped else digits),
            node=_between(NARROWEST_NODE, max(map(cells, labels), default=0), WIDEST_NODE),
            makes=_between(NARROWEST_MAKES, max(map(cells, codes), default=0), WIDEST_MAKES),
            line=max(4, len(str(lines)) + 1),
            shape=_between(4, max((len(numbers.shape(shape)) for shape in shapes), default=0), WIDEST_SHAPE),
            grouped=grouped,
        )


def shapes_of(tape: Tape) -> list[tuple[int, ...]]:
    """The distinct shapes in a pass."""
    return [tuple(shape) for shape in tape.columns.tensors.shapes[:1000]]


@dataclass(frozen=True, slots=True)
class Columns:
    """Widths in cells; 0 for a column that is left out."""

    step: int
    rail: int
    node: int
    makes: int
    line: int
    """0 where the line stands at the right of the node's column"""
    shape: int
    flags: int
    bar: int
    delta: int

    @classmethod
    def fit(cls, width: int, content: Content, rail: int, delta: bool) -> Columns:
        """Columns for a list of this width: `makes` goes first, then shape, then line."""
        rail = min(max(5, rail), max(5, width // 4))
        bar = 0 if delta else BAR
        fixed = GUTTER + content.step + 1 + rail + 1 + NORM + FLAGS + bar + (DELTA + SCROLLBAR if delta else 0)
        room = width - fixed
        shape = content.shape + 1
        for wanted_shape in (shape, 0):
            if content.grouped or (delta and wanted_shape and width < 76):
                continue
            both = room - (1 + 1 + content.line + 1 + wanted_shape)
            makes = _between(NARROWEST_MAKES, both - content.node, content.makes)
            node = min(content.node, both - makes)
            if node >= NARROWEST_NODE:
                return cls(content.step, rail, node, makes, content.line, max(0, wanted_shape - 1), FLAGS, bar, _delta(delta))
        # the line moves into the node's column
        if delta or room - shape < NARROWEST_NODE:
            shape = 0
        widest = content.node + 1 + content.line
        node = max(4, min(room - shape - 1, widest if not content.grouped else max(widest, 22)))
        return cls(content.step, rail, node, 0, 0, max(0, shape - 1), FLAGS, bar, _delta(delta))


def _delta(wanted: bool) -> int:
    return DELTA if wanted else 0


def _between(least: int, wanted: int, most: int) -> int:
    return min(max(least, wanted), most)
