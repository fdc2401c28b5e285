"""Rows of values under common columns, as a cash book has them: label, numbers, remark."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from textual.content import Content

from gradscope.model.tensors import Value
from gradscope.tui import numbers
from gradscope.tui.colours import MUTED

LABEL = 12
"""Least width of the labels."""

WIDEST_LABEL = 26

FEWER_DECIMALS = 3

MOST_LINES, LEAST_ACROSS = 3, 3
"""lines that the values of one row may take, and how many values make a line worth it"""

GAPS = (3, 2, 1)
"""Blanks before a column: as many as fit."""


@dataclass(slots=True)
class Row:
    label: Content
    values: Sequence[Value] = ()
    text: str = ""
    """stands in the first column where there are no values: `None`"""
    note: Content = field(default_factory=Content)
    style: str = ""
    heading: tuple[int, ...] | None = None
    """the shape whose indices head the columns"""
    free: bool = False
    """the label is a whole line of its own"""
    wraps: bool = False
    """and goes on in further lines where it is long"""
    first: int = 0
    across: int = 0
    """of a heading in several lines: its first index here, and how many stand in a line"""


class Ledger:
    """Collects rows; `draw` writes them for a width."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._decimals = numbers.DECIMALS

    def line(self, *parts: str | Content | tuple[str, str]) -> None:
        """A line that keeps to no column."""
        self.rows.append(Row(Content.assemble(*parts), free=True))

    def words(self, text: str, style: str) -> None:
        """A sentence, over as many lines as it needs."""
        self.rows.append(Row(Content.styled(text, style), style=style, free=True, wraps=True))

    def heading(self, shape: Sequence[int]) -> None:
        """The indices of the elements over their columns; nothing for a scalar."""
        if shape:
            self.rows.append(Row(Content(), heading=tuple(shape)))

    def row(
        self,
        label: Content | str,
        values: Sequence[Value] = (),
        note: Content | str = "",
        text: str = "",
        style: str = "",
    ) -> None:
        label = Content.styled(label, style) if isinstance(label, str) else label
        note = Content.styled(note, MUTED) if isinstance(note, str) else note
        self.rows.append(Row(label, values, text, note, style))

    def draw(self, width: int, cut: bool = False) -> list[Content] | None:
        """The lines. Values that do not fit beside each other lose decimals, then go on in a second line.

        None where even that is not enough, unless lines may be cut.
        """
        label = min(WIDEST_LABEL, max([LABEL, *(row.label.cell_length for row in self.rows if not row.free)]))
        for decimals in (numbers.DECIMALS, FEWER_DECIMALS):
            if (lines := self._beside(label, width, decimals)) is not None:
                return lines
        if (lines := self._wrapped(label, width)) is not None:
            return lines
        if not cut:
            return None
        spaced = [column + GAPS[-1] for column in self._columns()]
        return [line.truncate(width) for row in self.rows for line in self._row(row, label, spaced, 1, width)]

    def _beside(self, label: int, width: int, decimals: int) -> list[Content] | None:
        """All values of a row in one line."""
        self._decimals = decimals
        columns, note = self._columns(), max((row.note.cell_length for row in self.rows), default=0)
        for gap in GAPS:
            end = label + sum(column + gap for column in columns)
            blanks = min(GAPS[0], width - end - note)
            if blanks >= 1 or (end <= width and (gap == GAPS[-1] or not note)):
                spaced = [column + gap for column in columns]
                return [line for row in self.rows for line in self._row(row, label, spaced, max(1, blanks), width)]
        return None

    def _wrapped(self, label: int, width: int) -> list[Content] | None:
        """Values in as many columns as fit, over up to `MOST_LINES` lines a row."""
        self._decimals = numbers.DECIMALS
        columns = self._columns()
        column = max(columns, default=0) + GAPS[-1]
        across = (width - label) // column
        if across < LEAST_ACROSS or len(columns) > across * MOST_LINES:
            return None
        across = -(-len(columns) // -(-len(columns) // across))  # lines of one length
        lines = []
        for row in self.rows:
            for piece in self._pieces(row, across):
                lines += self._row(piece, label, [column] * across, 1, width)
        return lines

    def _pieces(self, row: Row, across: int) -> list[Row]:
        """A row as several: label on the first line, remark on the last."""
        count = math.prod(row.heading) if row.heading else len(row.values)
        if count <= across:
            return [row]
        starts = range(0, count, across)
        return [
            replace(
                row,
                label=row.label if not start else Content(),
                values=row.values[start : start + across],
                note=row.note if start == starts[-1] else Content(),
                first=start,
                across=across,
            )
            for start in starts
        ]

    def _columns(self) -> list[int]:
        cells = [self._cells(row) for row in self.rows if not row.free]
        count = max((len(row) for row in cells), default=0)
        least = numbers.COLUMN - numbers.DECIMALS + self._decimals
        return [max([least, *(len(row[i]) for row in cells if i < len(row))]) for i in range(count)]

    def _cells(self, row: Row) -> list[str]:
        if row.heading:
            return _indices(row.heading)[row.first :][: row.across or None]
        return [numbers.fixed(value, self._decimals) for value in row.values] or [row.text]

    def _row(self, row: Row, label: int, columns: list[int], blanks: int, width: int) -> list[Content]:
        if row.wraps:
            return [Content.styled(line, row.style) for line in _sentence(row.label.plain, width)]
        if row.free:
            return [row.label.truncate(width, ellipsis=True)]
        texts = self._cells(row)
        cells = "".join(text.rjust(column) for text, column in zip(texts, columns, strict=False)) if any(texts) else ""
        line = Content.assemble(
            row.label.truncate(label, ellipsis=True, pad=True),
            (cells, MUTED if row.heading else row.style),
        )
        if not row.note.cell_length:
            return [line.rstrip()]
        aligned = line.pad_right(max(0, label + sum(columns) - line.cell_length))
        for start, gap in ((aligned, blanks), (line, GAPS[0])):
            if start.cell_length + gap + row.note.cell_length <= width:
                return [Content.assemble(start, " " * gap, row.note)]
        if not cells:
            return [Content.assemble(row.label, " " * 3, row.note).truncate(width, ellipsis=True)]
        return [line.rstrip(), Content.assemble(" " * label, row.note).truncate(width, ellipsis=True)]


def _sentence(text: str, width: int) -> list[str]:
    """Lines of at most this many cells, the further ones indented."""
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, max(4, width), subsequent_indent="  ")]
    return lines or [""]


def _indices(shape: Sequence[int] | None) -> list[str]:
    """`[0]`, `[1]` or `[0,0]`, `[0,1]`, … in row-major order."""
    places: list[tuple[int, ...]] = [()]
    for extent in shape or ():
        places = [(*place, i) for place in places for i in range(extent)]
    return [numbers.shape(place) for place in places]
