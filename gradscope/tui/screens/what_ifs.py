"""The what-ifs of the pass that is shown, to be taken back one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gradscope.tui.colours import MUTED, WARNING
from gradscope.tui.messages import ChangeUndone, NodeWanted
from gradscope.tui.screens.dialog import Dialog
from gradscope.tui.what_if_targets import code, spoken

if TYPE_CHECKING:
    from gradscope.session.view import View

NONE = "This pass has no what-ifs: x at a row makes one."
NOT_YOURS = "They are tried on this pass only: your script's own call never has them."


class WhatIfsScreen(Dialog[None]):
    """Taking one back records a pass without it, so the list closes; `{` flips to the passes before."""

    HEADING = "What-ifs"

    BINDINGS: ClassVar = [
        Binding("delete,backspace,x", "undo", show=False),
        Binding("a", "undo_all", show=False),
    ]

    def __init__(self, view: View, stopped: bool) -> None:
        super().__init__()
        self._view, self._stopped = view, stopped
        tape = view.tape
        self._changes = list(tape.columns.changes) if tape is not None else []
        undo = "Delete take back · a all of them · " if self._changes and stopped else ""
        self.KEYS = f"{'Enter go there · ' if self._changes else ''}{undo}Esc close"

    def body(self) -> list[Widget]:
        graph, tape = self._view.graph, self._view.tape
        if not self._changes or graph is None or tape is None:
            return [Static(Content(NONE), classes="dialog-text")]
        names = [spoken(graph, tape, change) for change in self._changes]
        room, typed = max(map(len, names)), max(len(change.text) for change in self._changes)
        lines = [
            Content.assemble(name.ljust(room + 3), (change.text.ljust(typed + 3), WARNING), (code(graph, change), MUTED))
            for name, change in zip(names, self._changes, strict=True)
        ]
        return [OptionList(*map(Option, lines)), Static(Content.styled(NOT_YOURS, MUTED), classes="dialog-text")]

    def on_mount(self) -> None:
        if self._changes:
            options = self.query_one(OptionList)
            options.focus()
            options.highlighted = len(self._changes) - 1

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.app.post_message(NodeWanted(self._changes[event.option_index].node))
        self.dismiss(None)

    def action_undo(self) -> None:
        if self._changes and self._stopped:
            self.app.post_message(ChangeUndone(self.query_one(OptionList).highlighted))
            self.dismiss(None)

    def action_undo_all(self) -> None:
        if self._changes and self._stopped:
            self.app.post_message(ChangeUndone(None))
            self.dismiss(None)
