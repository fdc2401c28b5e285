"""Pane 5: leaves, findings, the script's output, watched gradients."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container

from gradscope.session.terminal import Terminal
from gradscope.session.view import State, View
from gradscope.tui.pane import MOVES, Pane
from gradscope.tui.widgets.findings import Findings
from gradscope.tui.widgets.leaves import Leaves
from gradscope.tui.widgets.output import Output
from gradscope.tui.widgets.pick_list import PickList
from gradscope.tui.widgets.tabs import TabBar
from gradscope.tui.widgets.watch import Watch

TABS = ("leaves", "findings", "output", "watch")


class LowerPane(Pane):
    """Four tabs; only the open one is drawn."""

    NUMBER = 5

    BINDINGS: ClassVar = [
        *MOVES,
        Binding("enter", "open", show=False),
        Binding("delete,backspace", "remove", show=False),
    ]

    def __init__(self, id: str | None = "lower", classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._view: View | None = None
        self._bar = TabBar()
        self._leaves, self._findings, self._output, self._watch = Leaves(), Findings(), Output(), Watch()
        self._open = "leaves"
        self._chosen = False
        """the person has opened a tab"""

    def compose(self) -> ComposeResult:
        yield self._bar
        with Container():
            yield self._leaves
            yield self._findings
            yield self._output
            yield self._watch

    def on_mount(self) -> None:
        self._turn(self._open)

    # ------------------------------------------------------------ what the app calls

    def show(self, view: View) -> None:
        self._view = view
        if not self._chosen:
            self._open_for(view)
        self._draw()

    def tab(self, direction: int) -> None:
        """Open the next or the previous tab."""
        self.open_tab(self._bar.neighbour(direction))

    def open_tab(self, name: str) -> None:
        """Open `leaves`, `findings`, `output` or `watch`, and keep it open over stops."""
        if name in TABS:
            self._chosen = True
            self._turn(name)

    def open_finding(self, index: int) -> None:
        """Open the findings, with one of them picked."""
        self.open_tab("findings")
        self._findings.list.pick(index)

    def _turn(self, name: str) -> None:
        self._open = name
        for other, part in zip(TABS, self._parts, strict=True):
            part.display = other == name
        if self._bar.is_mounted:
            self._draw()

    @property
    def open_name(self) -> str:
        return self._open

    def attach(self, terminal: Terminal) -> None:
        """Draw the script's terminal in the tab Output."""
        self._output.attach(terminal)

    def output_came(self) -> None:
        """The terminal has more to show."""
        if self._open == "output":
            self._output.follow()

    def type_to_script(self) -> None:
        """Open Output; keys go to the script until Esc."""
        self.open_tab("output")
        if self._output.can_type:
            self._output.focus()

    # ------------------------------------------------------------ keys

    def action_move(self, rows: int) -> None:
        if (picking := self._list) is not None:
            picking.pick(picking.cursor + rows)
        else:
            self._output.move(rows)

    def action_page(self, pages: int) -> None:
        picking = self._list
        self.action_move(pages * (picking.page if picking is not None else self._output.page))

    def action_edge(self, direction: int) -> None:
        if (picking := self._list) is not None:
            picking.pick(0 if direction < 0 else picking.count - 1)
        elif direction < 0:
            self._output.scroll_home(animate=False)
        else:
            self._output.scroll_end(animate=False)

    def action_open(self) -> None:
        picking = self._list
        if picking is None:
            self.type_to_script()
        elif message := picking.opened():
            self.post_message(message)

    def action_remove(self) -> None:
        picking = self._list
        if picking is not None and (message := picking.removed()):
            self.post_message(message)

    @on(TabBar.Chosen)
    def _choose(self, event: TabBar.Chosen) -> None:
        event.stop()
        self.open_tab(event.tab)

    def on_descendant_focus(self) -> None:
        self._draw()

    def on_descendant_blur(self) -> None:
        self._draw()

    def on_focus(self) -> None:
        self._light(True)

    def on_blur(self) -> None:
        self._light(False)

    # ------------------------------------------------------------ inside

    @property
    def _parts(self) -> tuple[Leaves | Findings | Output | Watch, ...]:
        return self._leaves, self._findings, self._output, self._watch

    @property
    def _list(self) -> PickList | None:
        """The open tab's list; None for the output."""
        return {"leaves": self._leaves, "findings": self._findings.list, "watch": self._watch}.get(self._open)

    def _output_title(self) -> str:
        """How to type to the script."""
        if self._output.has_focus:
            return "keys go to your script · Esc: back"
        return "Enter: type to your script · Esc: back" if self._output.can_type else ""

    def _light(self, lit: bool) -> None:
        for picking in (self._leaves, self._findings.list, self._watch):
            picking.light(lit)

    def _open_for(self, view: View) -> None:
        """Until the person chooses a tab: the script's output while nothing is recorded, then the leaves; at an error why."""
        if view.tape is None and view.findings and view.state in (State.STOPPED, State.CRASHED):
            wanted = "findings"
        else:
            wanted = "output" if view.tape is None and view.state not in (State.STOPPED, State.SNAPSHOT) else "leaves"
        if wanted != self._open:
            self._turn(wanted)

    def _draw(self) -> None:
        view = self._view
        if view is None:
            return
        leaves = len(view.graph.leaves) if view.graph is not None else 0
        counts = {"leaves": str(leaves), "findings": str(len(view.findings)), "watch": str(len(view.watches) or "")}
        self.set_title(self._output_title() if self._open == "output" else "")
        self._bar.show([(name, f"{name.capitalize()} {counts.get(name, '')}".rstrip()) for name in TABS], self._open)
        self._parts[TABS.index(self._open)].show(view)
