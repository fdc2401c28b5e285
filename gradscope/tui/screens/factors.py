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
    from gradscope.session.edges import Factor

VANISHING, EXPLODING = 0.05, 20.0
"""gains outside these are marked, as in the tape's flags"""


MULTIPLIED = 8
"""factors that are written out in one line"""

EXPLANATION = """\
gain = ‖sent along the path‖ / ‖arrived‖; where both are one number, their quotient
where paths part the heaviest contribution is followed"""


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
        single = any(factor.factor is not None for factor in self._factors)
        heading = f"{'node'.ljust(names)}  {'‖arrived‖':>9}  {'factor' if single else 'gain':>9}  {'product':>9}"
        return [
            Static(Content.styled(heading, MUTED), classes="dialog-heading"),
            OptionList(*(Option(line) for line in _lines(self._factors, names))),
            *self._product(),
            Static(Content.styled(EXPLANATION, MUTED), classes="dialog-text"),
        ]

    def _product(self) -> list[Widget]:
        """`0.7788 × -1 × 1 = -0.7788`: the last factors of the path that are numbers, and what one element becomes by them."""
        factors = [factor.factor for factor in self._factors[:-1]]
        if not factors or None in factors:
            return []
        written = [numbers.digits(factor) for factor in factors if factor is not None]
        left = " × ".join(written if len(written) <= MULTIPLIED else [*written[:2], "…", written[-1]])
        product = math.prod(factor for factor in factors if factor is not None)
        return [Static(Content.styled(f"{left} = {numbers.digits(product)}", TEXT), classes="dialog-text")]

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


def _lines(factors: Sequence[Factor], names: int) -> list[Content]:
    """One a node. Where one element goes all the way its factors have their signs, elsewhere gains are of norms."""
    lines, product = [], 1.0
    for place, factor in enumerate(factors):
        last = place == len(factors) - 1
        product = product if last else product * (math.nan if factor.factor is None else factor.factor)
        gain = "" if math.isnan(factor.gain) else numbers.gain(factor.gain)
        whole = "" if math.isnan(factor.product) else numbers.gain(factor.product)
        if factor.factor is not None:
            gain = f"×{numbers.digits(factor.factor)}"
        if not math.isnan(product):
            whole = f"×{numbers.digits(product)}"
        lines.append(_line(factor, names, gain, whole))
    return lines


def _line(factor: Factor, names: int, gain: str, product: str) -> Content:
    loud = factor.gain < VANISHING or factor.gain > EXPLODING
    flag = "↓" if factor.gain < VANISHING else "↑" if factor.gain > EXPLODING else " "
    return Content.assemble(
        (factor.label.ljust(names), TEXT),
        (f"  {numbers.norm(factor.arrived) if not math.isnan(factor.arrived) else '?':>9}", TEXT),
        (f"  {gain:>9}", WARNING if loud else TEXT),
        (flag, WARNING),
        (f" {product:>9}", MUTED),
    )
