"""The panes of the main screen. Imported after the first paint: with the model behind them they take a tenth of a second."""

from __future__ import annotations

from textual.containers import Vertical
from textual.widget import Widget

from gradscope.tui.widgets.lower import LowerPane
from gradscope.tui.widgets.node import NodePane
from gradscope.tui.widgets.seed import SeedPane
from gradscope.tui.widgets.source import SourcePane
from gradscope.tui.widgets.tape import TapePane


def columns() -> list[Widget]:
    """What lies between header and footer."""
    middle = Vertical(SourcePane(id="source"), SeedPane(id="seed"), id="middle", classes="-column")
    left = Vertical(TapePane(id="tape"), middle, id="left", classes="-column")
    right = Vertical(NodePane(id="node"), LowerPane(id="lower"), id="right", classes="-column")
    return [left, right]
