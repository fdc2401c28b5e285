"""A grid of numbers as big as the screen, over a tensor as big as it likes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.binding import Binding
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gradscope.model.tensors import Summary, Value
from gradscope.tui import colours, numbers
from gradscope.tui.indexing import Selection
from gradscope.tui.messages import FetchWanted, TensorFetched
from gradscope.tui.widgets.slice_grid import Slice, colour
from gradscope.tui.widgets.tiles import Tiles

NUMBERS, MAP = "numbers", "map"

SHADES = (" ░", " ▒", " ▓", " █")
"""of a modulus: below a hundredth of the greatest, below a tenth, below a half, above"""

LIMITS = (0.01, 0.1, 0.5)

WRAPPED = 10
"""a vector is shown in lines of a multiple of so many"""


class ValueGrid(Widget, can_focus=True):
    """Draws what is in sight, asks for what is missing, moves a cursor."""

    DEFAULT_CSS = "ValueGrid { height: 1fr; width: 1fr; }"

    BINDINGS: ClassVar = [
        Binding("down,j", "move(1, 0)", show=False),
        Binding("up,k", "move(-1, 0)", show=False),
        Binding("right,l", "move(0, 1)", show=False),
        Binding("left,h", "move(0, -1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("home", "edge(-1)", show=False),
        Binding("end", "edge(1)", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The cursor stands on another element, or its value has come."""

    def __init__(self) -> None:
        super().__init__()
        self.tensor = -1
        self.cursor = (0, 0)
        self.mode = NUMBERS
        self.in_full = False
        self.problem = ""
        self._dtype = ""
        self._tiles = Tiles(Selection((0,), (range(0),)))
        self._top = self._left = 0
        self._exponent = 0
        self._greatest = 0.0

    # ------------------------------------------------------------ what the screen calls

    def show(self, tensor: int, summary: Summary, selection: Selection) -> None:
        """Draw a grid of a tensor, the cursor at its first element."""
        self.tensor, self._dtype, self.problem = tensor, summary.dtype, ""
        self._tiles = Tiles(selection, summary.values)
        ends = [end for end in (summary.min, summary.max) if end is not None]
        self._exponent = numbers.common_exponent(summary.values if summary.values is not None else ends)
        known = [abs(value) for value in (summary.values if summary.values is not None else ends)]
        self._greatest = max((size for size in known if math.isfinite(size)), default=0.0)
        self._top = self._left = 0
        self._set((0, 0))

    @property
    def selection(self) -> Selection:
        return self._tiles.selection

    @property
    def factor(self) -> str:
        """`×1e-5`, for the heading."""
        return f"×1e{self._exponent}" if self._exponent and not self.in_full and self.mode == NUMBERS else ""

    @property
    def place(self) -> tuple[int, ...] | None:
        """The index of the element at the cursor."""
        return None if self._tiles.selection.is_empty else self._tiles.selection.place(*self._unwrapped(*self.cursor))

    @property
    def value(self) -> Value | None:
        return None if self._tiles.selection.is_empty else self._tiles.value(*self._unwrapped(*self.cursor))

    def go_to(self, place: tuple[int, ...]) -> None:
        """Put the cursor on an element that the grid has."""
        row, column = self._tiles.selection.position(place)
        self._set(divmod(column, self._across) if self._wraps else (row, column))

    def switch(self, mode: str | None = None, in_full: bool | None = None) -> None:
        """Draw numbers or a map; numbers rounded or in full."""
        self.mode, self.in_full = mode or self.mode, self.in_full if in_full is None else in_full
        self._set(self.cursor)

    def on_resize(self) -> None:
        self._set(self.cursor)

    # ------------------------------------------------------------ keys

    def action_move(self, rows: int, columns: int) -> None:
        self._set((self.cursor[0] + rows, self.cursor[1] + columns))

    def action_page(self, pages: int) -> None:
        self.action_move(pages * self._seen_rows, 0)

    def action_edge(self, direction: int) -> None:
        self._set((self.cursor[0], 0 if direction < 0 else self._columns - 1))

    def on_click(self, event: events.Click) -> None:
        row, column = event.y - 1, (event.x - self._label) // self._cell
        if row >= 0 and column >= 0 and event.x >= self._label:
            self._set((self._top + row, self._left + column))

    def on_mouse_scroll_down(self) -> None:
        self.action_move(3, 0)

    def on_mouse_scroll_up(self) -> None:
        self.action_move(-3, 0)

    @on(TensorFetched)
    def _take(self, event: TensorFetched) -> None:
        event.stop()
        if event.tensor != self.tensor:
            return
        part = Slice.of_cells(event.index, event.shape, event.values, self._dtype)
        if event.error:
            self.problem = event.error
        elif not self._tiles.take(event.index, part.values):
            return
        self.refresh()
        self.post_message(self.Moved())

    # ------------------------------------------------------------ sizes

    @property
    def _wraps(self) -> bool:
        return len(self._tiles.selection.ranges) < 2

    @property
    def _across(self) -> int:
        """Elements in a line of a vector."""
        fits = max(1, (self.size.width - self._label) // self._cell)
        return fits // WRAPPED * WRAPPED or fits

    @property
    def _columns(self) -> int:
        return min(self._across, self._tiles.columns) if self._wraps else self._tiles.columns

    @property
    def _rows(self) -> int:
        return -(-self._tiles.columns // self._across) if self._wraps else self._tiles.rows

    @property
    def _label(self) -> int:
        return max(5, len(str(max(self._tiles.rows, self._tiles.columns))) + 2)

    @property
    def _cell(self) -> int:
        """Width of a cell with the blank before it."""
        if self.mode == MAP:
            return 2
        if self._dtype == "bool":
            return 7
        twice = 2 if self._dtype.startswith("complex") else 1
        if self.in_full:
            return 25 * twice
        if self._dtype.startswith(("int", "uint")):
            return max(7, len(f"{int(self._greatest)}") + 3)
        return 10 * twice

    @property
    def _seen_rows(self) -> int:
        return max(1, self.size.height - 1)

    @property
    def _seen_columns(self) -> int:
        return max(1, min(self._columns, (self.size.width - self._label) // self._cell))

    def _unwrapped(self, row: int, column: int) -> tuple[int, int]:
        """A cell of the screen's grid as row and column of the selection."""
        return (0, row * self._across + column) if self._wraps else (row, column)

    def _exists(self, row: int, column: int) -> bool:
        return not self._wraps or row * self._across + column < self._tiles.columns

    def _set(self, cursor: tuple[int, int]) -> None:
        row = max(0, min(cursor[0], self._rows - 1))
        column = max(0, min(cursor[1], self._columns - 1))
        if self._wraps:
            column = min(column, max(0, self._tiles.columns - 1 - row * self._across))
        self.cursor = (row, column)
        self._top = max(min(self._top, row, max(0, self._rows - self._seen_rows)), row - self._seen_rows + 1)
        self._left = max(min(self._left, column, max(0, self._columns - self._seen_columns)), column - self._seen_columns + 1)
        self._ask()
        self.refresh()
        self.post_message(self.Moved())

    # ------------------------------------------------------------ drawing

    def render_line(self, y: int) -> Strip:
        if y == 0:
            return self._strip(self._heading())
        if self.problem:
            return self._strip([Segment(f"  {self.problem}" if y == 2 else "", colours.warning)])
        row = self._top + y - 1
        if row >= self._rows or self._tiles.selection.is_empty:
            text = "  no elements" if y == 1 and self._tiles.selection.is_empty else ""
            return self._strip([Segment(text, colours.muted)])
        segments = [Segment(self._row_name(row).rjust(self._label - 1) + " ", colours.muted)]
        for column in range(self._left, self._left + self._seen_columns):
            if not self._exists(row, column):
                break
            value = self._tiles.value(*self._unwrapped(row, column))
            style = self._style(value)
            if (row, column) == self.cursor:
                style += Style(reverse=True)
            segments.append(Segment(self._text(value), style))
        return self._strip(segments)

    def _strip(self, segments: list[Segment]) -> Strip:
        return Strip(segments).crop_extend(0, self.size.width, None).apply_style(self.rich_style)

    def _ask(self) -> None:
        """Ask for what is in sight and not here; straight from the app, whoever made the grid move."""
        if self.size.height == 0 or self._tiles.selection.is_empty:
            return
        if self._wraps:
            start = self._top * self._across
            rows, columns = range(1), range(start, min(self._tiles.columns, start + self._seen_rows * self._across))
        else:
            rows = range(self._top, min(self._rows, self._top + self._seen_rows))
            columns = range(self._left, min(self._columns, self._left + self._seen_columns))
        for index in list(self._tiles.missing(rows, columns)):
            self.app.post_message(FetchWanted(self.tensor, index, self))

    def _heading(self) -> list[Segment]:
        names = (self._column_name(column) for column in range(self._left, self._left + self._seen_columns))
        if self.mode == MAP:
            text = "".join(name.ljust(10) if not place % 5 else "" for place, name in enumerate(names))
            return [Segment(" " * (self._label + 1) + text, colours.muted)]
        text = "".join(name.rjust(self._cell) for name in names)
        return [Segment(" " * self._label + text, colours.muted), Segment(f"   {self.factor}", colours.text)]

    def _column_name(self, column: int) -> str:
        if self._wraps:
            return f"+{column}"
        part = self.selection.parts[self.selection.ranges[-1]]
        return str(part[column]) if isinstance(part, range) and column < len(part) else ""

    def _row_name(self, row: int) -> str:
        ranges = self.selection.ranges
        part = self.selection.parts[ranges[-1 if self._wraps else -2]] if ranges else range(1)
        return str(part[row * self._across if self._wraps else row]) if isinstance(part, range) else ""

    def _text(self, value: Value | None) -> str:
        if value is None:
            return " " * self._cell
        if self.mode == MAP:
            return shade(value, self._greatest)
        text = numbers.exact(value) if self.in_full else numbers.scaled(value, self._exponent)
        return text.rjust(self._cell)

    def _style(self, value: Value | None) -> Style:
        if value is None:
            return colours.muted
        if self.mode == MAP and not isinstance(value, complex) and math.isfinite(value) and value:
            return colours.warning if value < 0 else colours.accent
        return Style(color=colour(value))


def shade(value: Value, greatest: float) -> str:
    """Two characters for an element: `-` before what is negative, then its size, or N, I, · for NaN, infinity and zero."""
    if isinstance(value, complex):
        size, sign = abs(value), " "
    else:
        if text := numbers.special(float(value)):
            return {"nan": " N", "inf": " I", "-inf": "-I"}.get(text, " ·")
        size, sign = abs(value), "-" if value < 0 else " "
    if not math.isfinite(size):
        return " N" if math.isnan(size) else " I"
    level = sum(size >= limit * greatest for limit in LIMITS) if greatest else 0
    return sign + SHADES[level][1] if size else " ·"
