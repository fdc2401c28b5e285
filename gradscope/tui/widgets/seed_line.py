"""The line in which a seed is typed. Arrows that mean nothing to an empty line pick a cell of the grid above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input


class SeedLine(Input):
    """Up, down and, while nothing is typed, left and right move among the cells."""

    BINDINGS: ClassVar = [
        Binding("up", "move_rows(-1)", show=False),
        Binding("down", "move_rows(1)", show=False),
        Binding("tab", "move_roots(1)", show=False),
        Binding("shift+tab", "move_roots(-1)", show=False),
        Binding("escape", "leave", show=False),
    ]

    @dataclass
    class Moved(Message):
        """Another cell is picked."""

        cells: int = 0
        rows: int = 0
        roots: int = 0

    class Left(Message):
        """Esc."""

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False)

    def insert_word(self, word: str) -> None:
        """Put a word at the cursor; `onehot( )` leaves the cursor between its parentheses."""
        self.focus()
        self.insert_text_at_cursor(word.replace("( )", "()"))
        if word.endswith("( )"):
            self.cursor_position -= 1

    def action_cursor_left(self, select: bool = False) -> None:
        if self.value:
            super().action_cursor_left(select)
        else:
            self.post_message(self.Moved(cells=-1))

    def action_cursor_right(self, select: bool = False) -> None:
        if self.value:
            super().action_cursor_right(select)
        else:
            self.post_message(self.Moved(cells=1))

    def action_move_rows(self, rows: int) -> None:
        self.post_message(self.Moved(rows=rows))

    def action_move_roots(self, roots: int) -> None:
        self.post_message(self.Moved(roots=roots))

    def action_leave(self) -> None:
        self.post_message(self.Left())
