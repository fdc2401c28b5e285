"""The tab of leaves: what each had, what this pass has brought to it by now, and which it does not reach."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message
from textual.strip import Strip

from gradscope.model import playhead
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.session.view import View
from gradscope.tui import colours, numbers
from gradscope.tui.messages import FindingOpened, NodeWanted
from gradscope.tui.widgets.line import Line
from gradscope.tui.widgets.pick_list import PickList

WRITTEN_OUT = 4
"""leaves of at most this many elements show them; if one has more, all show norms"""

NAMES = (8, 60)
"""least and greatest width of the names"""


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the columns of the list begin."""

    in_full: bool
    name: int
    shape: int
    """0 where there is no room for it"""
    was: int
    """0 where nothing was there before in any leaf and norms are shown"""
    values: int
    becomes: int


class Leaves(PickList):
    """Those that the pass touched last on top, unless all fit; then those it cannot reach, then those to come."""

    HEADING = 1

    def __init__(self, id: str | None = "leaves") -> None:
        super().__init__(id)
        self._view: View | None = None
        self._drawn: tuple[object, ...] = ()
        self._order: list[int] = []
        self._fitted: tuple[object, object] = (None, None)
        self._columns = Columns(True, 8, 7, 10, 16, 0)
        self._events: tuple[Tape | None, list[tuple[int, int]]] = (None, [])
        """of a tape: (step, leaf) of every contribution to a leaf, in order"""

    def show(self, view: View) -> None:
        """Draw this state."""
        self._view = view
        state = (view.tape, view.playhead, view.stop, self.size)
        if state == self._drawn:
            return
        self._drawn = state
        picked = self._order[self.cursor] if self.cursor < len(self._order) else None
        self._order = self._ordered(view)
        if self._fitted != (view.tape, self.size):
            self._fitted, self._columns = (view.tape, self.size), self._fit(view)
        self.set_count(len(self._order))
        self.redraw()
        self.cursor = (
            self._order.index(picked) if picked in self._order and self.lit else min(self.cursor, max(0, self.count - 1))
        )

    def on_resize(self) -> None:
        if self._view is not None:
            self.show(self._view)

    def opened(self) -> Message | None:
        """Select the leaf's node; for a leaf that is not in the graph the finding that speaks of it."""
        if self._view is None or self._view.graph is None or not self._order:
            return None
        leaf = self._view.graph.leaves[self._order[self.cursor]]
        if leaf.node != UNKNOWN:
            return NodeWanted(leaf.node)
        places = (index for index, finding in enumerate(self._view.findings) if finding.leaf == leaf.name)
        return next((FindingOpened(index) for index in places), None)

    # ------------------------------------------------------------ order and columns

    def _ordered(self, view: View) -> list[int]:
        graph, tape = view.graph, view.tape
        if graph is None or tape is None:
            return []
        everything = list(range(len(graph.leaves)))
        if len(everything) <= max(1, self.size.height - self.HEADING):
            return everything
        touched: dict[int, None] = {}
        for step, leaf in reversed(self._deliveries(graph, tape)):
            if step <= view.playhead:
                touched[leaf] = None
        unreached = [place for place in everything if graph.leaves[place].node == UNKNOWN]
        rest = [place for place in everything if place not in touched and graph.leaves[place].node != UNKNOWN]
        return [*touched, *unreached, *rest]

    def _deliveries(self, graph: BackwardGraph, tape: Tape) -> list[tuple[int, int]]:
        if self._events[0] is not tape:
            steps = [
                (tape.contribution_step[index], place)
                for place, leaf in enumerate(graph.leaves)
                if leaf.node != UNKNOWN
                for index in tape.indices_to(leaf.node, leaf.input_nr)
            ]
            self._events = (tape, sorted(steps))
        return self._events[1]

    def _fit(self, view: View) -> Columns:
        graph, tape = view.graph, view.tape
        if graph is None or tape is None:
            return self._columns
        leaves = graph.leaves
        count = max((_numel(leaf.shape) for leaf in leaves), default=0)
        name = max([NAMES[0], *(min(len(leaf.name), NAMES[1]) + 1 for leaf in leaves)])
        shape = max([7, *(len(numbers.shape(leaf.shape)) + 1 for leaf in leaves)])
        accumulates = any(tape.leaf_before(place) != NO_TENSOR for place in range(len(graph.reached)))
        values = max(16, 8 * count)
        wide = 8 * count + 2
        in_full = count <= WRITTEN_OUT and name + shape + (wide if accumulates else 10) + values + 4 <= self.size.width
        if in_full:
            return Columns(True, name, shape, wide if accumulates else 10, values, wide if accumulates else 0)
        norm = 9 if accumulates else 0
        owner = min(10, max((len(leaf.owner) for leaf in leaves), default=0))
        room = self.size.width - 2 * norm - 9 - 6 - owner - 1  # the last for a scroll bar
        if name + shape > room:
            shape = 0
        return Columns(False, min(name, max(NAMES[0], room - shape)), shape, norm, 9, norm)

    # ------------------------------------------------------------ drawing

    def draw_heading(self, line: int, width: int) -> Strip:
        at, muted = self._columns, colours.muted
        drawn = Line().left("leaf", at.name, muted).left("shape" if at.shape else "", at.shape, muted)
        if at.in_full:
            drawn.left(".grad was", at.was, muted).left("so far", at.values, muted).left("from", 5, muted)
        else:
            if at.was:
                drawn.right("was", at.was - 1, muted).add(" ")
            drawn.right("‖grad‖", at.values - 1, muted).add(" ").left("from", 6, muted)
        if at.becomes:
            drawn.add(" ").left("becomes", at.becomes, muted)
        if not at.in_full:
            drawn.add("owner", muted)
        return drawn.strip(width)

    def draw(self, row: int, width: int) -> Strip:
        view, place, at = self._view, self._order[row], self._columns
        if view is None or view.graph is None or view.tape is None:
            return Strip.blank(width)
        graph, tape = view.graph, view.tape
        leaf = graph.leaves[place]
        reason = unreached(graph, tape, place)
        line = Line().left(ending(leaf.name, at.name - 1), at.name, colours.warning if reason else colours.leaf)
        if at.shape:
            line.left(numbers.shape(leaf.shape), at.shape, colours.text)
        if reason:
            line.right("None", at.was + at.values - 1 if not at.in_full else 4, colours.text).add(" ").add(
                reason, colours.warning
            )
            return line.add(f", {leaf.owner}" if leaf.owner else "", colours.text).strip(width, self.background(row))
        done, total = playhead.count_so_far(graph, tape, view.playhead, leaf.node, leaf.input_nr)
        so_far = playhead.leaf_so_far(graph, tape, view.playhead, place)
        before = tape.leaf_before(place)
        if at.was:
            self._number(line, tape, before, at.was, "None" if leaf.kind != "input" else "")
        self._number(line, tape, so_far, at.values, "⟂ none" if done and done == total else "·")
        line.left(f"{done}/{total}", 5 if at.in_full else 6, colours.accent if 0 < done < total else colours.muted)
        if at.becomes:
            line.add(" ")
            self._number(line, tape, tape.leaf_after(place) if done == total else NO_TENSOR, at.becomes, "")
        if not at.in_full:
            line.add(leaf.owner or ("no optimizer" if leaf.kind == "parameter" else ""), colours.muted)
        return line.strip(width, self.background(row))

    def _number(self, line: Line, tape: Tape, tensor: int, width: int, nothing: str) -> None:
        """A gradient in a column: elements from the left, a norm at the right."""
        style = colours.text if tensor != NO_TENSOR else colours.muted
        if self._columns.in_full:
            values = None if tensor == NO_TENSOR else tape.tensors.values(tensor)
            text = nothing if tensor == NO_TENSOR else "?" if values is None else " ".join(map(numbers.fixed, values))
            line.add(text.ljust(width - 1) + " ", colours.text if text == "None" else style)
        else:
            text = nothing if tensor == NO_TENSOR else numbers.norm(tape.summary(tensor).norm)
            line.right(text, width - 1, style).add(" ")


def unreached(graph: BackwardGraph, tape: Tape, place: int) -> str:
    """Why this pass brings nothing to a leaf; empty when it does."""
    leaf = graph.leaves[place]
    if leaf.node == UNKNOWN:
        return "not used" if leaf.requires_grad else "frozen"
    return "" if tape.step_of(leaf.node) or tape.indices_to(leaf.node, leaf.input_nr) else "not reached"


def ending(name: str, width: int) -> str:
    """A dotted name says most at its end."""
    return name if len(name) <= width else "…" + name[len(name) - width + 1 :]


def _numel(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count
