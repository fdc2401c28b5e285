"""The chain rule along one path: by how much each step from the root to the selected row changed the norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gradscope.tui import numbers
from gradscope.tui.colours import MUTED, TEXT, WARNING
from gradscope.tui.messages import NodeWanted
from gradscope.tui.screens.dialog import Dialog

if TYPE_CHECKING:
    from gradscope.session.stepping import Factor

VANISHING, EXPLODING = 0.05, 20.0
"""gains outside these are marked, as in the tape's flags"""


EXPLANATION = "gain = ‖sent along the path‖ / ‖arrived‖\nwhere paths part the heaviest contribution is followed"


class FactorsScreen(Dialog[None]):
    """Follows the heaviest edge wherever paths part; Enter selects a node."""

    HEADING = "Factors along the path from the root"
    KEYS = "↑ ↓ move · Enter select the node · Esc close"

    DEFAULT_CSS = "FactorsScreen .dialog-heading { width: auto; } FactorsScreen OptionList { margin-bottom: 1; }"

    def __init__(self, factors: Sequence[Factor]) -> None:
        super().__init__()
        self._factors = factors

    def body(self) -> list[Widget]:
        if not self._factors:
            return [Static("The seed's row has no path to the root: select another.", classes="dialog-text")]
        names = max(12, *(len(factor.label) for factor in self._factors))
        heading = f"{'node'.ljust(names)}  {'‖arrived‖':>9}  {'gain':>9}  {'product':>9}"
        return [
            Static(Content.styled(heading, MUTED), classes="dialog-heading"),
            OptionList(*(Option(_line(factor, names)) for factor in self._factors)),
            Static(Content.styled(EXPLANATION, MUTED), classes="dialog-text"),
        ]

    def on_mount(self) -> None:
        if self._factors:
            options = self.query_one(OptionList)
            options.focus()
            options.highlighted = len(self._factors) - 1

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.app.post_message(NodeWanted(self._factors[event.option_index].node))
        self.dismiss(None)


def _line(factor: Factor, names: int) -> Content:
    loud = factor.gain < VANISHING or factor.gain > EXPLODING
    flag = "↓" if factor.gain < VANISHING else "↑" if factor.gain > EXPLODING else " "
    gain = "" if math.isnan(factor.gain) else numbers.gain(factor.gain)
    product = "" if math.isnan(factor.product) else numbers.gain(factor.product)
    return Content.assemble(
        (factor.label.ljust(names), TEXT),
        (f"  {numbers.norm(factor.arrived) if not math.isnan(factor.arrived) else '?':>9}", TEXT),
        (f"  {gain:>9}", WARNING if loud else TEXT),
        (flag, WARNING),
        (f" {product:>9}", MUTED),
    )
