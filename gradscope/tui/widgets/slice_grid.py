"""A two-dimensional piece of a tensor as lines of numbers under one power of ten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from gradscope.model.tensors import Value
from gradscope.tui import numbers
from gradscope.tui.colours import ERROR, MUTED, TEXT
from gradscope.tui.indexing import Index

ROWS, COLUMNS = 12, 10
"""how much of a big tensor is asked for at first"""

LINE = 64
"""elements asked for of a tensor of one dimension"""


@dataclass(frozen=True, slots=True)
class Slice:
    """Values of a tensor at an index, row-major."""

    index: Index
    shape: tuple[int, ...]
    values: tuple[Value, ...]

    @classmethod
    def of_cells(cls, index: Index, shape: Sequence[int], cells: Sequence[float | int | bool], dtype: str) -> Slice:
        """From what crosses the wire: a complex element takes two cells."""
        if not dtype.startswith("complex"):
            return cls(index, tuple(shape), tuple(cells))
        values = tuple(complex(cells[i], cells[i + 1]) for i in range(0, len(cells), 2))
        return cls(index, tuple(shape), values)


def corner(shape: Sequence[int]) -> Index:
    """The first matrix of a tensor, as far as a pane can show it; of a vector its first elements."""
    if len(shape) == 1:
        return ((0, min(shape[0], LINE), 1),)
    lead = [(0, min(1, extent), 1) for extent in shape[:-2]]
    sizes = (min(extent, most) for extent, most in zip(shape[-2:], (ROWS, COLUMNS), strict=False))
    return (*lead, *((0, size, 1) for size in sizes))


def spoken(index: Index, shape: Sequence[int]) -> str:
    """An index as a person types it; what a pane cuts off at the end is not spoken of: `[0, :, :]`."""
    parts = []
    for place, ((start, stop, step), extent) in enumerate(zip(index, shape, strict=True)):
        if place < len(shape) - 2:
            parts.append(str(start) if stop - start == 1 else _range(start, stop, step, extent))
        else:
            parts.append(":" if start == 0 and step == 1 else _range(start, stop, step, extent))
    return f"[{', '.join(parts)}]"


def _range(start: int, stop: int, step: int, extent: int) -> str:
    end = "" if stop >= extent else str(stop)
    return f"{start or ''}:{end}" + (f":{step}" if step != 1 else "")


def write(part: Slice, width: int, height: int) -> list[Content]:
    """Heading and rows, as many as fit."""
    if not part.values:
        return [Content.styled("  no elements", MUTED)]
    rows, columns, wrapped = _extent(part, width)
    grid = numbers.grid(part.values)
    cell = grid.width + 2
    label = max(4, len(str(_last_row(part, rows))) + 1)
    room = width - label - (len(grid.factor) + 3 if grid.factor else 0)
    count = min(columns, max(1, room // cell))
    if wrapped:
        columns = count
        rows = -(-len(part.values) // columns)
    first_column = 0 if wrapped else part.index[-1][0]
    heading = "".join(str(first_column + i).rjust(cell) for i in range(count))
    lines = [Content.styled(" " * label + heading + (f"   {grid.factor}" if grid.factor else ""), MUTED)]
    for row in range(min(rows, max(1, height - 1))):
        start = row * columns
        cells = [
            (grid.cells[place].rjust(cell), colour(part.values[place]))
            for place in range(start, min(start + count, len(part.values)))
        ]
        name = start + part.index[-1][0] if wrapped else _row_name(part, row)
        lines.append(Content.assemble((str(name).rjust(label - 1) + " ", MUTED), *cells))
    return lines


def colour(value: Value) -> str:
    """NaN and infinities stand out, zero steps back; the text says it too."""
    if isinstance(value, complex):
        return TEXT
    if value != value or value in (float("inf"), float("-inf")):
        return ERROR
    return MUTED if value == 0 else TEXT


def _extent(part: Slice, width: int) -> tuple[int, int, bool]:
    """Rows, columns, and whether a vector is to be wrapped."""
    if len(part.shape) < 2:
        return 1, len(part.values), True
    return len(part.values) // part.shape[-1], part.shape[-1], False


def _row_name(part: Slice, row: int) -> int:
    return part.index[-2][0] + row * part.index[-2][2]


def _last_row(part: Slice, rows: int) -> int:
    return len(part.values) if len(part.shape) < 2 else _row_name(part, rows)
