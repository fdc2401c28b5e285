"""The list of breakpoints, and a line to add one by its condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from gradscope.errors import UsageError
from gradscope.tui.colours import ERROR, MUTED, TEXT
from gradscope.tui.messages import BreakAdded, BreakRemoved
from gradscope.tui.screens.dialog import Dialog

if TYPE_CHECKING:
    from gradscope.session.view import View

EXAMPLES = (
    ("nan   inf   zero", "arriving or sent: a NaN, an infinity, only zeros"),
    ("undefined", "nothing arrives, or nothing is sent on an edge"),
    ("op:Softmax", "the backward of an operation"),
    ("leaf:fc1.weight", "something is delivered to a leaf"),
    ("module:h.5.attn", "a step of a module"),
    ("train.py:41", "a step that this line of yours made"),
    ("norm>1e3   norm<1e-6", "by the norm of what arrives"),
    ("gain>100   gain<0.01", "by the norm of what is sent over the arriving"),
    ("shape:[64,10]", "by the shape of what arrives; [] for a scalar"),
    ("finding:vanishing", "a step that a finding speaks of"),
    ("step:12", "a step by its number"),
)


class BreaksScreen(Dialog[None]):
    """Changes are made at once; Esc only closes."""

    HEADING = "Breakpoints"
    KEYS = "Enter add · ↑ ↓ list · Delete remove · Esc close"

    DEFAULT_CSS = """
    BreaksScreen #breaks-error { width: 78; max-width: 100%; height: auto; display: none; }
    BreaksScreen.-wrong #breaks-error { display: block; }
    BreaksScreen #breaks-line { width: 60; margin-top: 1; }
    BreaksScreen #breaks-examples { width: auto; margin-top: 1; }
    """

    BINDINGS: ClassVar = [
        Binding("delete", "remove", show=False),
        Binding("up", "list(-1)", show=False),
        Binding("down", "list(1)", show=False),
    ]

    def __init__(self, view: View) -> None:
        super().__init__()
        self._breaks = list(view.breaks)

    def body(self) -> list[Widget]:
        examples = Content("\n").join(
            Content.assemble((text.ljust(24), TEXT), (what, MUTED)) for text, what in (("a condition is", ""), *EXAMPLES)
        )
        return [
            OptionList(id="breaks-list"),
            Input(placeholder="a condition: nan", id="breaks-line", compact=True),
            Static(id="breaks-error"),
            Static(examples, id="breaks-examples"),
        ]

    def on_mount(self) -> None:
        self._fill()
        self.query_one(Input).focus()

    def _fill(self) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(Content.assemble("◆ ", text)) for text in self._breaks)
        if not self._breaks:
            options.add_option(Option(Content.styled("none yet", MUTED), disabled=True))

    @on(Input.Submitted)
    def _add(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        if not text:
            return
        if problem := wrong(text):
            self.query_one("#breaks-error", Static).update(Content.styled(f"✗ {problem}", ERROR))
            self.add_class("-wrong")
            return
        self.remove_class("-wrong")
        event.input.value = ""
        if text not in self._breaks:
            self._breaks.append(text)
            self._fill()
            self.app.post_message(BreakAdded(text))

    @on(Input.Changed)
    def _typing(self, event: Input.Changed) -> None:
        event.stop()
        self.remove_class("-wrong")

    def action_remove(self) -> None:
        place = self.query_one(OptionList).highlighted
        if place is not None and place < len(self._breaks):
            text = self._breaks.pop(place)
            self._fill()
            self.query_one(OptionList).highlighted = min(place, len(self._breaks) - 1) if self._breaks else None
            self.app.post_message(BreakRemoved(text))

    def action_list(self, rows: int) -> None:
        """From the line into the list and back."""
        options = self.query_one(OptionList)
        if not self._breaks:
            return
        if self.focused is not options:
            options.focus()
            options.highlighted = len(self._breaks) - 1 if rows < 0 else 0
        elif rows > 0 and options.highlighted == len(self._breaks) - 1:
            self.query_one(Input).focus()


def wrong(text: str) -> str:
    """What is wrong with a condition; empty for one that can be set."""
    from gradscope.session.breaks import condition

    try:
        condition(text)
    except UsageError as error:
        return f"{error.what}\n{error.why}"
    return ""
