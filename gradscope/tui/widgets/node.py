"""Pane 3: the selected node, in tabs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.timer import Timer

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.session.view import View
from gradscope.tui import messages as m
from gradscope.tui.colours import MUTED
from gradscope.tui.pane import Pane
from gradscope.tui.widgets import formula_page, hooks_page, keepers, made_at, map_page, node_page, saved_page, slice_grid
from gradscope.tui.widgets.corners import Corners
from gradscope.tui.widgets.page import Page
from gradscope.tui.widgets.selected import Selected, selected
from gradscope.tui.widgets.slice_grid import Slice
from gradscope.tui.widgets.tabs import TabBar

STEP, FORMULA, SAVED, HOOKS, MAP = "step", "formula", "saved", "hooks", "map"

NO_FORMULA = ("the seed is given, not computed", "each row below it has its formula")
SEVERAL = ("this row stands for several nodes", "l opens it: each of them has its formula")

SCROLLBAR = 1
"""cells that it covers"""

PATIENCE = 0.06
"""Seconds a selection must rest before what is not here is asked for: keys held down ask for nothing."""


class NodePane(Pane):
    """Shows the selection. The open tab stays when the selection moves and when the script stops again."""

    NUMBER = 3
    TITLE = "Node"

    BINDINGS: ClassVar = [
        Binding("pagedown", "turn(1)", show=False),
        Binding("pageup", "turn(-1)", show=False),
        Binding("j,down", "pick(1)", show=False),
        Binding("k,up", "pick(-1)", show=False),
        Binding("enter", "lead", show=False),
    ]

    def __init__(self, id: str | None = "node", classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._view: View | None = None
        self._drawn: tuple[object, ...] = ()
        self._shown: tuple[object, ...] = ()
        """what the page is about: another starts at its top"""
        self._graph: BackwardGraph | None = None
        self._corners = Corners()
        self._wanted: dict[Hashable, Message] = {}
        """what the page lacks -> how to ask for it"""
        self._asked: set[Hashable] = set()
        """questions about the stop that is shown"""
        self._timer: Timer | None = None
        self._frames = False
        """the library frames of a node's line are shown"""
        self._order = keepers.ORDERS[0]

    def compose(self) -> ComposeResult:
        yield TabBar(((STEP, "Step"),))
        yield Page()

    # ------------------------------------------------------------ what the app calls

    def show(self, view: View) -> None:
        self._view = view
        node = view.rows.node(view.selection) if view.rows is not None else NO_TENSOR
        state = (
            *(view.rows, view.selection, view.tape, view.against, view.playhead, view.state, view.stop and view.stop.refusal),
            *(view.saved, view.inspected.get(node), view.checks.get(node), view.formulas),
        )
        if state != self._drawn:
            if self._drawn and (view.tape is None or view.graph is not self._graph):
                self._corners.clear()
                self._asked.clear()
            self._graph, self._drawn = view.graph, state
            self._draw()

    def tab(self, direction: int) -> None:
        """Open the next or the previous tab."""
        self.open_tab(self.query_one(TabBar).neighbour(direction))

    def open_tab(self, name: str) -> None:
        """Open `step`, `formula`, `saved`, `hooks` or `map`."""
        bar = self.query_one(TabBar)
        if name in dict(tabs(self._view)):
            bar.show(tabs(self._view), name)
            self._draw()

    @property
    def open_name(self) -> str:
        return self.query_one(TabBar).active

    # ------------------------------------------------------------ events

    def on_resize(self) -> None:
        self._draw()

    def on_focus(self) -> None:
        self.query_one(Page).light(True)

    def on_blur(self) -> None:
        self.query_one(Page).light(False)

    @on(TabBar.Chosen)
    def _choose(self, event: TabBar.Chosen) -> None:
        event.stop()
        self.open_tab(event.tab)

    @on(m.TensorFetched)
    def _take(self, event: m.TensorFetched) -> None:
        event.stop()
        tensor = self._corners.awaited(event.tensor)
        if isinstance(tensor, tuple) and isinstance(tape := tensor[0], Tape):
            dtype = tape.tensors.dtype(event.tensor)
            self._corners.keep(tensor, event.error or Slice.of_cells(event.index, event.shape, event.values, dtype))
            self._draw()

    @on(m.SavedFetched)
    def _take_saved(self, event: m.SavedFetched) -> None:
        event.stop()
        tensor = self._corners.awaited((event.node, event.place))
        if tensor is not None:
            self._corners.keep(tensor, event.error or Slice.of_cells(event.index, event.shape, event.values, event.dtype))
            self._draw()

    @on(Page.Led)
    def _lead(self, event: Page.Led) -> None:
        """A line leads to a node, or changes how the page is written."""
        event.stop()
        match event.goal:
            case int(node):
                self.app.post_message(m.NodeWanted(node))
            case made_at.FRAMES:
                self._frames = not self._frames
            case keepers.ORDER:
                self._order = keepers.ORDERS[(keepers.ORDERS.index(self._order) + 1) % len(keepers.ORDERS)]
        self._draw()

    # ------------------------------------------------------------ keys

    def action_turn(self, direction: int) -> None:
        self.query_one(Page).scroll_relative(y=direction * max(1, self.size.height - 3), animate=False)

    def action_pick(self, by: int) -> None:
        self.query_one(Page).pick(by)

    def action_lead(self) -> None:
        self.query_one(Page).open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A page that does not scroll, or where nothing is to be picked, leaves its keys to the Tape."""
        page = self.query_one(Page)
        return {"turn": page.max_scroll_y > 0, "pick": page.leading > 1, "lead": page.leading > 0}.get(action, True)

    # ------------------------------------------------------------ drawing

    def _draw(self) -> None:
        view, page = self._view, self.query_one(Page)
        if view is None or page.size.width == 0:
            return
        bar = self.query_one(TabBar)
        bar.show(tabs(view), bar.active)
        self.set_title(node_page.title(view))
        self._wanted.clear()
        shown = (view.rows, view.selection, bar.active)
        width, height = page.size
        lines = self._lines(view, bar.active, width, height)
        if len(lines) > height:
            lines = self._lines(view, bar.active, width - SCROLLBAR, height)
        page.write(lines, anew=shown != self._shown)
        self._shown = shown
        self._ask_soon()

    def _lines(self, view: View, tab: str, width: int, height: int) -> list[Content]:
        row = selected(view)
        if row is None:
            return node_page.write(view, width)
        if tab == FORMULA:
            return self._formula(view, row, width)
        if tab == SAVED:
            return self._saved(view, width)
        if tab == HOOKS:
            return hooks_page.write(view, width)
        if tab == MAP:
            return map_page.write(view, width, height)
        lines, most = node_page.fitting(view, width, self._frames)
        tensor = node_page.big_tensor(view, most)
        if tensor != NO_TENSOR and view.tape is not None:
            lines += self._values(view, view.tape, tensor, width, max(4, height - len(lines) - 2))
        return lines

    def _values(self, view: View, tape: Tape, tensor: int, width: int, height: int) -> list[Content]:
        """The corner of a tensor that is too big to be written out; wants it where it is not here yet."""
        shape = tape.tensors.shape(tensor)
        values = tape.tensors.values(tensor)
        if values is not None:
            part: Slice | str | None = Slice(tuple((0, extent, 1) for extent in shape), shape, values)
        else:
            part = self._corners.of((tape, tensor))
        index = part.index if isinstance(part, Slice) else slice_grid.corner(shape)
        lines = [Content(), node_page.values_title(view, slice_grid.spoken(index, shape))]
        if isinstance(part, Slice):
            return lines + slice_grid.write(part, width, height)
        if part is not None:
            return [*lines, node_page.remark(part)]
        self._wanted[tape, tensor] = m.FetchWanted(tensor, index, self)
        return lines

    def _formula(self, view: View, row: Selected, width: int) -> list[Content]:
        """What one node computes; wants its attributes, which the formula may name."""
        if row.node is None:
            return [Content.styled(line, MUTED) for line in (NO_FORMULA if row.whole else SEVERAL)]
        self._want_node(view)
        return formula_page.write(view, row.node, width)

    def _want_node(self, view: View) -> None:
        """What all nodes keep, once a stop, and what this one keeps, looked into."""
        if saved_page.lacks_table(view):
            self._wanted["saved"] = m.SavedWanted()
        if (node := saved_page.lacks_node(view)) is not None:
            self._wanted["inspect", node] = m.InspectWanted(node)

    def _saved(self, view: View, width: int) -> list[Content]:
        """What is kept; wants to know what of it is not known."""
        self._want_node(view)
        parts = {}
        for one in saved_page.corners_wanted(view):
            tensor = (view.graph, one.node, one.place)
            part = self._corners.of(tensor)
            if part is None:
                self._wanted[tensor] = m.SavedSliceWanted(one.node, one.place, slice_grid.corner(one.shape), one.dtype, self)
            else:
                parts[one.place] = part
        return saved_page.write(view, width, parts, self._order)

    # ------------------------------------------------------------ asking

    def _ask_soon(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if self._wanted:
            self._timer = self.set_timer(PATIENCE, self._ask)

    def _ask(self) -> None:
        for tensor, message in self._wanted.items():
            match message:
                case m.FetchWanted():
                    anew = self._corners.asking(message.tensor, tensor)
                case m.SavedSliceWanted():
                    anew = self._corners.asking((message.node, message.place), tensor)
                case _:
                    anew = tensor not in self._asked
                    self._asked.add(tensor)
            if anew:
                self.app.post_message(message)


def tabs(view: View | None) -> list[tuple[str, str]]:
    """The tabs, those that count something with how much there is in the selected row, where that is known."""
    if view is None:
        return [(STEP, "Step")]
    counted = ((SAVED, "Saved", saved_page.count(view)), (HOOKS, "Hooks", hooks_page.count(view)))
    named = ((name, text if count is None else f"{text} {count}") for name, text, count in counted)
    return [(STEP, "Step"), (FORMULA, "Formula"), *named, (MAP, "Map")]
