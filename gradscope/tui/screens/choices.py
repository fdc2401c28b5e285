"""Menus: pick one of a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gradscope.tui.screens.dialog import Dialog


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of a menu."""

    text: str
    aside: str = ""
    """at the right, muted"""
    key: str = ""
    """a letter that picks it at once"""


class ChoicesScreen(Dialog[int]):
    """Gives the place of the choice, None when the person picks none."""

    BINDINGS: ClassVar = [
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]
    KEYS = "j k move · Enter choose · Esc cancel"

    def __init__(self, heading: str, choices: Sequence[Choice], explanation: str = "") -> None:
        super().__init__()
        self.HEADING = heading
        self._choices = choices
        self._explanation = explanation

    def body(self) -> list[Widget]:
        keyed = max((len(choice.key) for choice in self._choices), default=0)
        room = max((len(choice.text) for choice in self._choices), default=0)
        options = [Option(_line(choice, keyed, room), id=str(place)) for place, choice in enumerate(self._choices)]
        explained = [Static(Content(self._explanation), classes="dialog-text")] if self._explanation else []
        return [*explained, OptionList(*options)]

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def on_key(self, event: events.Key) -> None:
        for place, choice in enumerate(self._choices):
            if choice.key and choice.key == event.character:
                event.stop()
                event.prevent_default()
                self.dismiss(place)

    @on(OptionList.OptionSelected)
    def chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)

    def action_down(self) -> None:
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        self.query_one(OptionList).action_cursor_up()


def _line(choice: Choice, keyed: int, room: int) -> Content:
    key = (choice.key.ljust(keyed) + "  ", "bold $text-primary") if keyed else ""
    return Content.assemble(key, choice.text.ljust(room), (f"   {choice.aside}" if choice.aside else "", "$text-muted"))
