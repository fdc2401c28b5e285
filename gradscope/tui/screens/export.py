"""Where to write what was recorded; the ending of the file says as what."""

from __future__ import annotations

import os
from typing import ClassVar

from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from gradscope.errors import GradscopeError
from gradscope.tui.colours import ERROR, MUTED, TEXT, WARNING
from gradscope.tui.messages import ExportWanted
from gradscope.tui.screens.dialog import Dialog


class ExportScreen(Dialog[str]):
    """Posts `ExportWanted` once an older file of that name may be replaced. Opened again with the problem when that fails."""

    HEADING = "Export"
    KEYS = "Enter write · Tab complete the ending · Esc cancel"

    DEFAULT_CSS = """
    ExportScreen #export-line { width: 72; }
    ExportScreen #export-note { width: auto; max-width: 76; height: auto; min-height: 1; margin-top: 1; }
    ExportScreen #export-formats { width: auto; margin-top: 1; }
    """

    BINDINGS: ClassVar = [Binding("tab", "complete", show=False, priority=True)]

    def __init__(self, path: str = "", problem: str = "") -> None:
        super().__init__()
        self._path, self._problem = path, problem
        self._asked = ""
        """the path for which the person was told that a file is there"""

    def body(self) -> list[Widget]:
        from gradscope.export.formats import FORMATS

        lines = (Content.assemble((ending.ljust(14), TEXT), (form.what, MUTED)) for ending, form in FORMATS.items())
        return [
            Input(self._path, placeholder="a file: run.gscope", id="export-line", compact=True, select_on_focus=False),
            Static(id="export-note"),
            Static(Content("\n").join(lines), id="export-formats"),
        ]

    def on_mount(self) -> None:
        line = self.query_one(Input)
        line.focus()
        line.cursor_position = len(self._path)
        if self._problem:
            self._say(self._problem, ERROR)

    @on(Input.Submitted)
    def _write(self, event: Input.Submitted) -> None:
        event.stop()
        path = os.path.expanduser(event.value.strip())
        if not path:
            return
        if problem := refused(path):
            self._say(f"✗ {problem}", ERROR)
        elif os.path.exists(path) and path != self._asked:
            self._asked = path
            self._say(f"{path} exists: Enter again replaces it", WARNING)
        else:
            self.app.post_message(ExportWanted(path))
            self.dismiss(path)

    @on(Input.Changed)
    def _typing(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self._path:
            self._path, self._asked = event.value, ""
            self._say("", TEXT)

    def action_complete(self) -> None:
        """The ending that begins as what was typed; without one `.gscope`."""
        from gradscope.export.formats import FORMATS

        line = self.query_one(Input)
        stem, ending = os.path.splitext(line.value)
        found = next((one for one in FORMATS if ending and one.startswith(ending)), None)
        if line.value and (found or not ending):
            line.value = stem.removesuffix(".") + (found or ".gscope")
            line.cursor_position = len(line.value)

    def _say(self, text: str, colour: str) -> None:
        self.query_one("#export-note", Static).update(Content.styled(text, colour))


def refused(path: str) -> str:
    """Why nothing can be written there; empty when it can."""
    from gradscope.export import formats

    if path == "-":
        return "the screen has no standard output to write to: give a file"
    try:
        formats.check(path)
    except GradscopeError as error:
        return " ".join(part for part in (error.what, error.why, error.hint) if part)
    return ""
