"""One line to type on, at the bottom of the screen: go to a step, search."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from gradscope.tui.messages import SearchTyped


class Prompt(ModalScreen[str]):
    """Gives what was typed, None after Esc. The main screen stays in sight above it."""

    BINDINGS: ClassVar = [Binding("escape", "cancel", show=False)]

    def __init__(self, label: str, value: str = "", placeholder: str = "", integer: bool = False) -> None:
        super().__init__()
        self._label, self._value, self._placeholder = label, value, placeholder
        self._restrict = r"[0-9]*" if integer else None

    def compose(self) -> ComposeResult:
        with Horizontal(id="prompt"):
            yield Static(Content(self._label))
            yield Input(self._value, placeholder=self._placeholder, restrict=self._restrict, compact=True)

    def typed(self, text: str) -> Message | None:
        """What to tell the app at each key."""
        return None

    @on(Input.Changed)
    def changed(self, event: Input.Changed) -> None:
        message = self.typed(event.value)
        if message is not None:
            self.app.post_message(message)

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_cancel(self) -> None:
        self.dismiss(None)


class SearchPrompt(Prompt):
    """Searches as one types."""

    def typed(self, text: str) -> Message:
        return SearchTyped(text)
