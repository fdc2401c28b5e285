"""The elements of the seeds, laid out for reading and for picking one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from gradscope.model.tensors import Value
from gradscope.tui import numbers
from gradscope.tui.colours import MUTED, SEED

GAP = 3


@dataclass(slots=True)
class Sheet:
    """Lines, and where each cell stands in them."""

    lines: list[Content] = field(default_factory=list)
    places: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """(line, first column, column after, root, cell)"""

    def cell_at(self, x: int, y: int) -> tuple[int, int] | None:
        """(root, cell) at a place."""
        for line, start, end, root, cell in self.places:
            if line == y and start <= x < end:
                return root, cell
        return None


class SeedCells(Static):
    """Shows a sheet; a click on a cell picks it."""

    DEFAULT_CSS = "SeedCells { height: auto; width: 1fr; text-wrap: nowrap; text-overflow: clip; }"

    @dataclass
    class Picked(Message):
        root: int
        cell: int

    def __init__(self) -> None:
        super().__init__()
        self._sheet = Sheet()

    def write(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self.update(Content("\n").join(sheet.lines))

    def on_click(self, event: events.Click) -> None:
        if place := self._sheet.cell_at(event.x, event.y):
            event.stop()
            self.post_message(self.Picked(*place))


def add_vector(
    sheet: Sheet, root: int, name: str, values: Sequence[Value], picked: int | None, width: int, tail: Content
) -> None:
    """`[0] 1.0   [1] 10.0`, going on in the next line; `tail` goes where there is room for it."""
    line = Content.styled(f"{name}  " if name else "", MUTED)
    indent = line.cell_length
    for cell, value in enumerate(values):
        head, text = f"[{cell}] ", numbers.short(value)
        size = len(head) + len(text) + GAP
        if line.cell_length > indent and line.cell_length + size - GAP > width:
            sheet.lines.append(line)
            line = Content(" " * indent)
        start = line.cell_length
        line = Content.assemble(line, (head, MUTED), *_cell(text, cell == picked))
        sheet.places.append((len(sheet.lines), start, line.cell_length, root, cell))
    if line.cell_length + tail.cell_length > width and tail.cell_length:
        sheet.lines.append(line)
        line = Content(" " * indent)
    sheet.lines.append(Content.assemble(line, tail))


def add_matrix(
    sheet: Sheet, root: int, name: str, values: Sequence[Value], shape: Sequence[int], picked: int | None, tail: Content
) -> None:
    """One line for each row along the last dimension, its index in front."""
    columns = shape[-1]
    texts = [numbers.short(value) for value in values]
    size = max((len(text) for text in texts), default=1)
    sheet.lines.append(Content.assemble((f"{name} {numbers.shape(shape)}   ".lstrip(), MUTED), tail))
    for row in range(len(values) // columns):
        index = numbers.shape(_unravel(row, shape[:-1]))[:-1] + ",:]"
        line = Content.styled(f"{index}  ", MUTED)
        for cell in range(row * columns, (row + 1) * columns):
            start = line.cell_length
            line = Content.assemble(line, *_cell(texts[cell].rjust(size), cell == picked, gap=1))
            sheet.places.append((len(sheet.lines), start, line.cell_length, root, cell))
        sheet.lines.append(line)


def _cell(text: str, picked: bool, gap: int = GAP) -> list[tuple[str, str]]:
    """A value and the blanks after it; a picked one is inverted, with a blank on either side."""
    if gap == 1:
        return [(f" {text} ", f"reverse {SEED}" if picked else SEED)]
    if picked:
        return [(f" {text} ", f"reverse {SEED}"), (" " * (gap - 1), "")]
    return [(text, SEED), (" " * gap, "")]


def _unravel(place: int, shape: Sequence[int]) -> tuple[int, ...]:
    index: list[int] = []
    for extent in reversed(shape):
        index.append(place % extent)
        place //= extent
    return tuple(reversed(index))
