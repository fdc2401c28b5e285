"""A stop without a backward call: which of the live tensors is to be differentiated, with which seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from gradscope.tui import numbers
from gradscope.tui.colours import ACCENT, ERROR, MUTED, TEXT
from gradscope.tui.messages import RootPicked
from gradscope.tui.screens.dialog import Dialog

if TYPE_CHECKING:
    from gradscope.session.view import View

EXPLANATION = {
    "end": "Your script has made no backward call. These of its tensors have a graph:",
    "error": "Your script failed. These of its tensors have a graph:",
    "line": "Your script stands here without a backward call. These of its tensors have a graph:",
}

NOTHING = (
    "No tensor with a graph is alive here.\n"
    "--stop-at FILE:LINE stops at a line where one is; requires_grad=True on an input, and no torch.no_grad(), make one."
)


class RootsScreen(Dialog[None]):
    """Posts `RootPicked` and closes."""

    HEADING = "Pick a root"
    KEYS = "↑ ↓ move · Enter pick · Esc cancel"

    DEFAULT_CSS = """
    RootsScreen #roots-seed { width: 60; margin-top: 1; }
    RootsScreen #roots-note { width: auto; height: auto; }
    """

    BINDINGS: ClassVar = [
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
    ]

    def __init__(self, view: View) -> None:
        super().__init__()
        stop = view.stop
        self._live = list(stop.live) if stop is not None else []
        self._reason = stop.reason if stop is not None else ""
        self._refusal = stop.refusal if stop is not None else ""

    def body(self) -> list[Widget]:
        if not self._live:
            return [
                Static(Content.assemble(NOTHING, (f"\n{self._refusal}" if self._refusal else "", ERROR)), classes="dialog-text")
            ]
        names = max(len(live.name) for live in self._live)
        shapes = max(len(numbers.shape(live.shape)) for live in self._live)
        options = [Option(_line(live.name, live.shape, live.dtype, live.op, live.where, names, shapes)) for live in self._live]
        return [
            Static(EXPLANATION.get(self._reason, "These tensors have a graph:"), classes="dialog-text"),
            OptionList(*options),
            Input(placeholder="seed", id="roots-seed", compact=True),
            Static(id="roots-note"),
        ]

    def on_mount(self) -> None:
        if self._live:
            self.query_one(OptionList).highlighted = 0
            self.query_one(Input).focus()

    @on(OptionList.OptionHighlighted)
    def _describe(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        live = self._live[event.option_index]
        line = self.query_one(Input)
        if needs_seed(live.shape):
            line.placeholder = f"seed for {live.name} {numbers.shape(live.shape)}: 1,10 · ones · any expression (empty: ones)"
        else:
            line.placeholder = f"seed for {live.name} (empty: 1)"

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._pick()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._pick()

    def _pick(self) -> None:
        place = self.query_one(OptionList).highlighted
        if place is None:
            return
        seed = self.query_one(Input).value.strip()
        if not seed and needs_seed(self._live[place].shape):
            seed = "ones"
        self.app.post_message(RootPicked(place, seed))
        self.dismiss(None)

    def action_move(self, rows: int) -> None:
        if not self._live:
            return
        options = self.query_one(OptionList)
        options.highlighted = max(0, min((options.highlighted or 0) + rows, len(self._live) - 1))


def needs_seed(shape: Sequence[int]) -> bool:
    """Whether a root of this shape has no implied seed."""
    count = 1
    for extent in shape:
        count *= extent
    return count != 1


def _line(name: str, shape: Sequence[int], dtype: str, op: str, where: str, names: int, shapes: int) -> Content:
    return Content.assemble(
        (name.ljust(names + 2), f"bold {TEXT}"),
        (numbers.shape(shape).ljust(shapes + 2), TEXT),
        (dtype.ljust(10), MUTED),
        (op.ljust(20), ACCENT),
        (where, MUTED),
    )
