"""After a seed edit: with which seed the script's own call is to run."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from gradscope.tui.colours import ACCENT, MUTED, WARNING
from gradscope.tui.screens.dialog import Dialog


class ResumeScreen(Dialog[bool]):
    """Gives True for the edited seed, False for the script's own, None to stay."""

    HEADING = "Resume: the seed was edited"
    KEYS = "Esc stay"

    BINDINGS: ClassVar = [
        Binding("enter,r", "own", show=False),
        Binding("e", "edited", show=False),
    ]

    def __init__(self, own: str = "", edited: str = "", possible: bool = True) -> None:
        super().__init__()
        self._own, self._edited, self._possible = own, edited, possible

    def body(self) -> list[Widget]:
        lines = [
            Content.assemble(
                ("Enter  ", f"bold {ACCENT}"), "your script's own seed", (f"   {self._own}" if self._own else "", MUTED)
            ),
        ]
        if self._possible:
            lines += [
                Content.assemble(
                    ("e      ", f"bold {ACCENT}"), "the edited seed", (f"   {self._edited}" if self._edited else "", WARNING)
                ),
                Content.styled("       the script then computes something else than without gradscope", MUTED),
            ]
        return [Static(Content("\n").join(lines), classes="dialog-text")]

    def action_own(self) -> None:
        self.dismiss(False)

    def action_edited(self) -> None:
        if self._possible:
            self.dismiss(True)
