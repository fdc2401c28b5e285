"""The text of a tab, scrolling when it is long, with a cursor on the lines that lead somewhere."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.strip import Strip

from gradscope.tui.widgets.jumps import Goal, goal_of
from gradscope.tui.widgets.pick_list import CURSOR
from gradscope.tui.widgets.virtual_list import VirtualList

NONE = -1


class Page(VirtualList):
    """Lines of one row each. A line that stays as it was costs nothing."""

    @dataclass
    class Led(Message):
        """A leading line was opened."""

        goal: Goal

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Content] = []
        self._leading: list[int] = []
        """the rows that lead somewhere"""
        self._cursor = NONE
        self._lit = False

    def write(self, lines: list[Content], anew: bool = False) -> None:
        """Show these lines; of a page that was not shown before, from the top."""
        self._lines = lines
        self._leading = [row for row, line in enumerate(lines) if goal_of(line) is not None]
        if anew or self._cursor not in self._leading:
            wanted = 0 if anew else self._cursor
            self._cursor = min(self._leading, key=lambda row: abs(row - wanted), default=NONE)
        self.set_count(len(lines))
        if anew:
            self.scroll_to(y=0, animate=False)
        self.redraw()

    @property
    def leading(self) -> int:
        """How many lines lead somewhere."""
        return len(self._leading)

    def pick(self, by: int) -> None:
        """Move the cursor among the leading lines."""
        if self._leading:
            place = self._leading.index(self._cursor) + by
            self._go(self._leading[max(0, min(place, len(self._leading) - 1))])
            self.show_row(self._cursor)

    def open(self) -> None:
        """Tell where the line under the cursor leads."""
        if self._cursor != NONE and (goal := goal_of(self._lines[self._cursor])) is not None:
            self.post_message(self.Led(goal))

    def light(self, lit: bool) -> None:
        """Show the cursor while the pane has the focus."""
        if lit != self._lit:
            self._lit = lit
            self.redraw_rows(self._cursor)

    def draw(self, row: int, width: int) -> Strip:
        strip = Strip(self._lines[row].render_segments())
        return strip.crop_extend(0, width, None).apply_style(CURSOR) if self.variant(row) else strip

    def variant(self, row: int) -> Hashable:
        return self._lit and row == self._cursor

    def clicked(self, row: int, column: int, event: events.Click) -> None:
        if row in self._leading:
            self._go(row)
            self.open()

    def _go(self, row: int) -> None:
        old, self._cursor = self._cursor, row
        self.redraw_rows(old, row)
