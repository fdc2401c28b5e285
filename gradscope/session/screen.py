"""pyte's screen, with two ends of it made reachable. Imported late: pyte takes 20 ms that the first paint does not wait for."""

from __future__ import annotations

from collections.abc import Callable

import pyte


class Screen(pyte.Screen):
    """Tells what scrolls off its top, and what the terminal answers to the script."""

    def __init__(self, columns: int, rows: int, leaves: Callable[[], None], reply: Callable[[bytes], None]) -> None:
        self._leaves, self._reply = leaves, reply
        super().__init__(columns, rows)

    def index(self) -> None:
        """A line feed; at the bottom the top line goes."""
        bottom = self.margins.bottom if self.margins else self.lines - 1
        if self.cursor.y == bottom and (self.margins is None or self.margins.top == 0):
            self._leaves()
        super().index()

    def write_process_input(self, data: str) -> None:
        """What the script asked its terminal for (where the cursor is)."""
        self._reply(data.encode())

    def drop_top(self) -> None:
        """Everything one row up."""
        for y in range(self.lines - 1):
            self.buffer[y] = self.buffer[y + 1]
        self.buffer.pop(self.lines - 1, None)
        self.cursor.y -= 1

    def drop_bottom(self, rows: int) -> None:
        """Only the first `rows` rows stay; pyte's own `resize` drops the first ones instead, where our lines are."""
        for y in range(rows, self.lines):
            self.buffer.pop(y, None)
        self.lines = rows
        self.set_margins()
