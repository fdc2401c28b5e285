"""Rows of values under common columns, as a cash book has them: label, numbers, remark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from textual.content import Content

from gradscope.model.tensors import Value
from gradscope.tui import numbers
from gradscope.tui.colours import MUTED

LABEL = 12
"""Least width of the labels."""

WIDEST_LABEL = 26

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


class Ledger:
    """Collects rows; `draw` writes them for a width."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def line(self, *parts: str | Content | tuple[str, str]) -> None:
        """A line that keeps to no column."""
        self.rows.append(Row(Content.assemble(*parts), free=True))

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
        """The lines; None when the values do not fit beside each other, unless they may be cut."""
        label = min(WIDEST_LABEL, max([LABEL, *(row.label.cell_length for row in self.rows if not row.free)]))
        columns, note = self._columns(), max((row.note.cell_length for row in self.rows), default=0)
        for gap in GAPS:
            end = label + sum(column + gap for column in columns)
            blanks = min(GAPS[0], width - end - note)
            if blanks >= 1 or (end <= width and (gap == GAPS[-1] or not note)):
                spaced = [column + gap for column in columns]
                return [line for row in self.rows for line in self._row(row, label, spaced, max(1, blanks), width)]
        if not cut:
            return None
        spaced = [column + GAPS[-1] for column in columns]
        return [line.truncate(width) for row in self.rows for line in self._row(row, label, spaced, 1, width)]

    def _columns(self) -> list[int]:
        cells = [[numbers.fixed(value) for value in row.values] or [row.text] for row in self.rows if not row.free]
        cells += [_indices(row.heading) for row in self.rows if row.heading]
        count = max((len(row) for row in cells), default=0)
        return [max([numbers.COLUMN, *(len(row[i]) for row in cells if i < len(row))]) for i in range(count)]

    def _row(self, row: Row, label: int, columns: list[int], blanks: int, width: int) -> list[Content]:
        if row.free:
            return [row.label.truncate(width, ellipsis=True)]
        texts = _indices(row.heading) if row.heading else [numbers.fixed(value) for value in row.values] or [row.text]
        cells = "".join(text.rjust(column) for text, column in zip(texts, columns, strict=False)) if any(texts) else ""
        line = Content.assemble(
            row.label.truncate(label, ellipsis=True, pad=True),
            (cells, MUTED if row.heading else row.style),
        )
        if not row.note.cell_length:
            return [line.rstrip()]
        line = line.pad_right(max(0, label + sum(columns) - line.cell_length))
        if line.cell_length + blanks + row.note.cell_length <= width:
            return [Content.assemble(line, " " * blanks, row.note)]
        if not cells:
            return [Content.assemble(row.label, " " * 3, row.note).truncate(width, ellipsis=True)]
        return [line.rstrip(), Content.assemble(" " * label, row.note).truncate(width, ellipsis=True)]


def _indices(shape: Sequence[int] | None) -> list[str]:
    """`[0]`, `[1]` or `[0,0]`, `[0,1]`, … in row-major order."""
    places: list[tuple[int, ...]] = [()]
    for extent in shape or ():
        places = [(*place, i) for place in places for i in range(extent)]
    return [numbers.shape(place) for place in places]
