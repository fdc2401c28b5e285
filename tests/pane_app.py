"""An app of a few panes over hand-made views: keys go in, text and messages come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.containers import Container, Vertical
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Static

import gradscope.tui
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.rows import Folds, Rows
from gradscope.model.tape import Tape
from gradscope.session.view import State, View
from gradscope.tui import messages
from gradscope.tui.widgets.lower import LowerPane
from gradscope.tui.widgets.node import NodePane
from gradscope.tui.widgets.seed import SeedPane

TOLD = tuple(
    kind
    for kind in vars(messages).values()
    if isinstance(kind, type) and issubclass(kind, Message) and kind.__module__ == messages.__name__
)

Answer = Callable[[messages.FetchWanted], messages.TensorFetched]


def view_of(graph: BackwardGraph, tape: Tape, playhead: int = 0, selection: int = 0, **more: Any) -> View:
    """A stop with one pass; row k of the unfolded tape is step k."""
    rows = Rows.build(graph, tape, Folds())
    return View(
        State.STOPPED, "two_outputs.py", graph=graph, tape=tape, rows=rows, playhead=playhead, selection=selection, **more
    )


class PaneApp(App[None]):
    """Node, lower and seed pane at the places of the main screen."""

    CSS_PATH = Path(gradscope.tui.__file__).parent / "app.tcss"
    HORIZONTAL_BREAKPOINTS: ClassVar = [(0, "-narrow"), (100, "-medium"), (170, "-wide")]

    def __init__(self, view: View, answer: Answer | None = None) -> None:
        super().__init__()
        self.view = view
        self.answer = answer
        self.told: list[Message] = []
        """messages for the app, fetches apart"""
        self.fetched: list[messages.FetchWanted] = []

    def compose(self) -> ComposeResult:
        with Container(id="body"):
            with Vertical(id="left", classes="-column"):
                yield Static(id="tape")
                with Vertical(id="middle", classes="-column"):
                    source = Static(id="source")
                    source.styles.height = "1fr"
                    yield source
                    yield SeedPane()
            with Vertical(id="right", classes="-column"):
                yield NodePane()
                yield LowerPane()

    def on_mount(self) -> None:
        self.show(self.view)

    def show(self, view: View) -> None:
        self.view = view
        for pane in (self.node, self.lower, self.seed):
            pane.show(view)

    @property
    def node(self) -> NodePane:
        return self.screen_stack[0].query_one(NodePane)

    @property
    def lower(self) -> LowerPane:
        return self.screen_stack[0].query_one(LowerPane)

    @property
    def seed(self) -> SeedPane:
        return self.screen_stack[0].query_one(SeedPane)

    async def _on_message(self, message: Message) -> None:
        await super()._on_message(message)
        if isinstance(message, messages.FetchWanted):
            self.fetched.append(message)
            if self.answer is not None and message.asker is not None:
                message.asker.post_message(self.answer(message))
        elif isinstance(message, TOLD):
            self.told.append(message)

    def lines(self) -> list[str]:
        """The screen as text."""
        return [strip.text.rstrip() for strip in self.screen._compositor.render_strips(self.size)]

    def text(self) -> str:
        return "\n".join(self.lines())

    def column(self, start: int, end: int | None = None) -> list[str]:
        """Part of every line."""
        return [line[start:end].rstrip() for line in self.lines()]


async def until(pilot: Pilot[Any], condition: Callable[[], object]) -> None:
    """Wait for what takes time: a timer, an answer."""
    for _ in range(250):
        await pilot.pause(0.02)
        if condition():
            return
    raise AssertionError("it never came")


def counting(event: messages.FetchWanted) -> messages.TensorFetched:
    """An answer in which every element says its own index: [3,4,5] is 345."""
    shape = tuple(len(range(*part)) for part in event.index)
    values: list[float] = [0.0]
    for part in event.index:
        values = [value * 10 + place for value in values for place in range(*part)]
    return messages.TensorFetched(event.tensor, event.index, shape, list(values))


def names(told: Sequence[Message]) -> list[str]:
    return [type(message).__name__ for message in told]
