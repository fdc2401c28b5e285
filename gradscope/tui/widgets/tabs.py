"""One line of tabs; the open one is inverted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from gradscope.tui.colours import MUTED


class TabBar(Widget):
    """Shows the names of tabs and tells which one was clicked; its owner opens it."""

    DEFAULT_CSS = "TabBar { height: 1; width: 1fr; }"

    @dataclass
    class Chosen(Message):
        """A tab was clicked."""

        tab: str

    def __init__(self, tabs: Sequence[tuple[str, str]] = (), active: str = "") -> None:
        super().__init__()
        self._tabs = list(tabs)
        self.active = active or (self._tabs[0][0] if self._tabs else "")

    def show(self, tabs: Sequence[tuple[str, str]], active: str) -> None:
        """Set names and the open tab: (id, text) each."""
        if (list(tabs), active) != (self._tabs, self.active):
            self._tabs, self.active = list(tabs), active
            self.refresh()

    def neighbour(self, direction: int) -> str:
        """The tab after (1) or before (-1) the open one, round the end."""
        names = [name for name, _ in self._tabs]
        return names[(names.index(self.active) + direction) % len(names)] if self.active in names else self.active

    def render(self) -> Content:
        return Content("  ").join(
            Content.styled(text, "bold reverse" if name == self.active else MUTED) for _, text, name in self._cells()
        )

    def _cells(self) -> list[tuple[int, str, str]]:
        """(column, text, tab) of what is drawn, two blanks between."""
        cells, column = [], 0
        for name, label in self._tabs:
            cells.append((column, label, name))
            column += Content(label).cell_length + 2
        return cells

    def on_click(self, event: events.Click) -> None:
        for column, text, name in self._cells():
            if column <= event.x < column + Content(text).cell_length:
                event.stop()
                self.post_message(self.Chosen(name))
