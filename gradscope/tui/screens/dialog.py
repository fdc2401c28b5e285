"""What all dialogs share: a box in the middle over the dimmed main screen, Esc closes it."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """A titled box; subclasses give its widgets in `body`."""

    BINDINGS: ClassVar = [Binding("escape", "close", show=False)]
    HEADING = ""
    KEYS = "Esc close"
    """the last line"""

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Content(self.HEADING), id="dialog-title")
            yield from self.body()
            yield Static(Content(self.KEYS), id="dialog-keys")

    def body(self) -> list[Widget]:
        """The widgets between title and keys."""
        raise NotImplementedError

    def action_close(self) -> None:
        self.dismiss(None)
