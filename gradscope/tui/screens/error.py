"""A fault, told: what happened, why, what to do, and the script's own traceback where there is one."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from gradscope.tui.screens.dialog import Dialog

KEYS_BEHIND = {"r": "resume", "R": "rerun", "q": "quit"}
"""keys of the main screen that are meant as they are there: what the text tells to press must do it"""


class ErrorScreen(Dialog[None]):
    """Stays until it is closed; what lies behind it stays as it is."""

    BINDINGS: ClassVar = [
        Binding("enter", "close", show=False),
        Binding("d", "details", show=False),
        *(Binding(key, f"close_to('{action}')", show=False) for key, action in KEYS_BEHIND.items()),
    ]

    def __init__(
        self, heading: str, what: str, why: str = "", hint: str = "", details: str = "", *, detailed: bool = True
    ) -> None:
        """`detailed`: the traceback is shown without being asked for."""
        super().__init__()
        self.HEADING = heading
        self._detailed = detailed
        self.KEYS = _keys("" if not details else "hide" if detailed else "show")
        self._parts = (what, why, hint)
        self._details = details

    def body(self) -> list[Widget]:
        what, why, hint = self._parts
        text = Content("\n").join(
            part
            for part in (
                Content.styled(what, "bold $text-error"),
                Content(why) if why else None,
                Content.assemble(("what to do  ", "$text-muted"), hint) if hint else None,
            )
            if part is not None
        )
        traceback = VerticalScroll(Static(Content(self._details.rstrip())), id="traceback")
        traceback.display = bool(self._details) and self._detailed
        return [Static(text, classes="dialog-text"), traceback]

    def action_close_to(self, action: str) -> None:
        """Close, and do what the key does on the main screen."""
        self.dismiss(None)
        self.app.call_after_refresh(self.app.run_action, action)

    def action_details(self) -> None:
        traceback = self.query_one("#traceback")
        traceback.display = bool(self._details) and not traceback.display
        if self._details:
            self.query_one("#dialog-keys", Static).update(Content(_keys("hide" if traceback.display else "show")))


def _keys(what: str) -> str:
    """The last line; the traceback's key does the one or the other."""
    return "Enter or Esc close" + (f" · d {what} the traceback" if what else "")
