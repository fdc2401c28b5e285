"""A virtual list with a cursor of its own, for the tabs of the lower pane."""

from __future__ import annotations

from collections.abc import Hashable

from rich.style import Style
from textual import events
from textual.message import Message

from gradscope.tui import colours
from gradscope.tui.widgets.virtual_list import VirtualList

CURSOR = Style(bgcolor=colours.SELECTED, bold=True)
"""bold too: without colours the background is not seen"""


class PickList(VirtualList):
    """One row is picked; the pane around it moves the cursor and asks to `open` what is picked."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id)
        self.cursor = 0
        self.lit = False
        """the cursor is drawn: the pane has the focus"""

    def opened(self) -> Message | None:
        """What Enter or a double click on the picked row tells the app."""
        return None

    def removed(self) -> Message | None:
        """What Delete on the picked row tells the app."""
        return None

    def pick(self, row: int) -> None:
        """Put the cursor on a row, as near as there is one."""
        old, self.cursor = self.cursor, max(0, min(row, self.count - 1))
        if old != self.cursor:
            self.redraw_rows(old, self.cursor)
            self.picked()
        self.show_row(self.cursor)

    def picked(self) -> None:
        """The cursor has moved."""

    def light(self, lit: bool) -> None:
        if lit != self.lit:
            self.lit = lit
            self.redraw_rows(self.cursor)

    def variant(self, row: int) -> Hashable:
        return self.is_lit(row)

    def is_lit(self, row: int) -> bool:
        return self.lit and row == self.cursor

    def background(self, row: int) -> Style | None:
        return CURSOR if self.is_lit(row) else None

    def clicked(self, row: int, column: int, event: events.Click) -> None:
        self.pick(row)
        if event.chain == 2 and (message := self.opened()):
            self.post_message(message)
