"""What-if: one line to change the gradient at the selected row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from gradscope.tui.what_if_targets import Target

WORDS = "*0.5 · zeros · clip(1) · an expression"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What was typed, and for which gradient."""

    target: Target
    text: str
    """empty takes back what was there"""


class WhatIfPrompt(ModalScreen[WhatIf]):
    """Gives what was typed, None after Esc. Arrows pick the gradient: all that arrives, or one contribution to it."""

    BINDINGS: ClassVar = [
        Binding("escape", "cancel", show=False),
        Binding("up", "pick(-1)", show=False),
        Binding("down", "pick(1)", show=False),
    ]

    def __init__(self, targets: Sequence[Target], refused: WhatIf | None = None) -> None:
        super().__init__()
        self._targets = targets
        self._place = targets.index(refused.target) if refused is not None and refused.target in targets else 0
        self._offered = refused.text if refused is not None and refused.target in targets else self._target.text
        """`refused` is what was typed last and could not be tried: it can be mended"""

    def compose(self) -> ComposeResult:
        with Horizontal(id="prompt"):
            yield Static()
            yield Input(self._offered, compact=True)

    def on_mount(self) -> None:
        self._draw()

    def action_pick(self, by: int) -> None:
        """Another gradient; what was typed stays, what stands there already is offered."""
        line = self.query_one(Input)
        untouched = line.value == self._target.text
        self._place = (self._place + by) % len(self._targets)
        if untouched:
            line.value = self._target.text
        self._draw()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        self.dismiss(None if text == self._target.text else WhatIf(self._target, text))

    def action_cancel(self) -> None:
        self.dismiss(None)

    @property
    def _target(self) -> Target:
        return self._targets[self._place]

    def _draw(self) -> None:
        self.query_one(Static).update(Content(f"what if {self._target.name} is"))
        several = "   ↑ ↓ a contribution" if len(self._targets) > 1 else ""
        self.query_one(Input).placeholder = f"{WORDS}{several}   Esc leaves"
