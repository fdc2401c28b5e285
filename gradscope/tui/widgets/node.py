"""Pane 3: the selected node."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.strip import Strip
from textual.timer import Timer

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.session.view import View
from gradscope.tui.indexing import Index
from gradscope.tui.messages import FetchWanted, TensorFetched
from gradscope.tui.pane import Pane
from gradscope.tui.widgets import node_page, slice_grid
from gradscope.tui.widgets.slice_grid import Slice
from gradscope.tui.widgets.tabs import TabBar
from gradscope.tui.widgets.virtual_list import VirtualList

TABS = (("step", "Step"),)

PATIENCE = 0.06
"""Seconds a selection must rest before the values of a big tensor are asked for: keys held down ask for nothing."""

SLICES_KEPT = 64


class Page(VirtualList):
    """The text of a tab, scrolling when it is long. A line that stays as it was costs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Content] = []

    def write(self, lines: list[Content]) -> None:
        """Show these lines, each of one row."""
        self._lines = lines
        self.set_count(len(lines))
        self.redraw()

    def draw(self, row: int, width: int) -> Strip:
        return Strip(self._lines[row].render_segments())


class NodePane(Pane):
    """Shows the selection: what arrives, what it sends, how far the targets are."""

    NUMBER = 3
    TITLE = "Node"

    BINDINGS: ClassVar = [
        Binding("pagedown", "turn(1)", show=False),
        Binding("pageup", "turn(-1)", show=False),
    ]

    def __init__(self, id: str | None = "node", classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._view: View | None = None
        self._drawn: tuple[object, ...] = ()
        self._slices: dict[tuple[Tape, int], Slice | str] = {}
        """(pass, tensor) -> its corner, or why there is none; of the stop that is shown"""
        self._wanted: dict[int, Tape] = {}
        """tensor asked for -> pass"""
        self._graph: BackwardGraph | None = None
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield TabBar(TABS)
        yield Page()

    # ------------------------------------------------------------ what the app calls

    def show(self, view: View) -> None:
        self._view = view
        state = (view.rows, view.selection, view.tape, view.against, view.playhead, view.state, view.stop and view.stop.refusal)
        if state != self._drawn:
            if self._drawn and (view.tape is None or view.graph is not self._graph):
                self._slices.clear()
                self._wanted.clear()
            self._graph = view.graph
            if state[:2] != self._drawn[:2]:
                self.query_one(Page).scroll_to(y=0, animate=False)
            self._drawn = state
            self._draw()

    def tab(self, direction: int) -> None:
        """Open the next or the previous tab."""
        self.open_tab(self.query_one(TabBar).neighbour(direction))

    def open_tab(self, name: str) -> None:
        if name in dict(TABS):
            self.query_one(TabBar).show(TABS, name)

    # ------------------------------------------------------------ events

    def on_resize(self) -> None:
        self._draw()

    @on(TabBar.Chosen)
    def _choose(self, event: TabBar.Chosen) -> None:
        event.stop()
        self.open_tab(event.tab)

    @on(TensorFetched)
    def _take(self, event: TensorFetched) -> None:
        event.stop()
        tape = self._wanted.pop(event.tensor, None)
        if tape is None:
            return
        if len(self._slices) >= SLICES_KEPT:
            self._slices.pop(next(iter(self._slices)))
        dtype = tape.tensors.dtype(event.tensor)
        self._slices[tape, event.tensor] = event.error or Slice.of_cells(event.index, event.shape, event.values, dtype)
        self._draw()

    def action_turn(self, direction: int) -> None:
        self.query_one(Page).scroll_relative(y=direction * max(1, self.size.height - 3), animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.query_one(Page).max_scroll_y > 0 if action == "turn" else True

    # ------------------------------------------------------------ drawing

    def _draw(self) -> None:
        view, page = self._view, self.query_one(Page)
        width = page.size.width
        if view is None or width == 0:
            return
        self.set_title(node_page.title(view))
        lines, most = node_page.fitting(view, width)
        tensor = node_page.big_tensor(view, most)
        if tensor != NO_TENSOR and view.tape is not None:
            lines += self._values(view, tensor, width, max(4, page.size.height - len(lines) - 2))
        page.write(lines)

    def _values(self, view: View, tensor: int, width: int, height: int) -> list[Content]:
        """The corner of a tensor that is too big to be written out; asks for it where it is not here yet."""
        tape = view.tape
        if tape is None:
            return []
        shape = tape.tensors.shape(tensor)
        part: Slice | str | None
        values = tape.tensors.values(tensor)
        if values is not None:
            part = Slice(tuple((0, extent, 1) for extent in shape), shape, values)
        else:
            part = self._slices.get((tape, tensor))
        index = part.index if isinstance(part, Slice) else slice_grid.corner(shape)
        lines = [Content(), node_page.values_title(view, slice_grid.spoken(index, shape))]
        if isinstance(part, Slice):
            return lines + slice_grid.write(part, width, height)
        if part is not None:
            return [*lines, node_page.remark(part)]
        self._ask_soon(tape, tensor, index)
        return lines

    def _ask_soon(self, tape: Tape, tensor: int, index: Index) -> None:
        if self._timer is not None:
            self._timer.stop()
        if tensor in self._wanted:
            return

        def ask() -> None:
            self._wanted[tensor] = tape
            self.app.post_message(FetchWanted(tensor, index, self))

        self._timer = self.set_timer(PATIENCE, ask)
