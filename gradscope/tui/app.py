"""The main screen: composes the panes, shows them the session's view, turns keys and messages into calls of the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import App, ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Static

from gradscope.tui import actions
from gradscope.tui.pane import Pane

if TYPE_CHECKING:
    from gradscope.session.view import View


class _Placeholder(Pane):
    def show(self, view: View) -> None:
        return


class GradscopeApp(App[int]):
    """The terminal debugger."""

    CSS_PATH = "app.tcss"
    TITLE = "gradscope"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS: ClassVar = [(0, "-narrow"), (100, "-medium"), (170, "-wide")]
    BINDINGS: ClassVar = actions.bindings()

    def compose(self) -> ComposeResult:
        yield Static(id="header")
        with Container(id="body"):
            with Vertical(id="left", classes="-column"):
                yield _Placeholder(id="tape")
                with Vertical(id="middle", classes="-column"):
                    yield _Placeholder(id="source")
                    yield _Placeholder(id="seed")
            with Vertical(id="right", classes="-column"):
                yield _Placeholder(id="node")
                yield _Placeholder(id="lower")
        yield Static(id="footer")

    def show(self, view: View) -> None:
        """Draw this state on every pane, as one repaint."""
        with self.batch_update():
            for pane in self.query(Pane):
                pane.show(view)
