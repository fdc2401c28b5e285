"""The tab of watched gradients: what each is at the playhead."""

from __future__ import annotations

from rich.style import Style
from textual.message import Message
from textual.strip import Strip

from gradscope.model import playhead
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.session.view import View
from gradscope.tui import colours, numbers
from gradscope.tui.messages import NodeWanted, WatchToggled
from gradscope.tui.widgets.line import Line
from gradscope.tui.widgets.pick_list import PickList

NAME, MAKES = 16, 20
"""greatest widths of what stands before the value"""


class Watch(PickList):
    """Pinned nodes, in the order they were pinned."""

    def __init__(self, id: str | None = "watch") -> None:
        super().__init__(id)
        self._view: View | None = None
        self._drawn: tuple[object, ...] = ()

    def show(self, view: View) -> None:
        """Draw this state."""
        self._view = view
        state = (view.tape, view.against, view.playhead, view.watches)
        if state != self._drawn:
            self._drawn = state
            self.set_count(len(view.watches) if view.tape is not None else 0, below=not view.watches)
            self.cursor = min(self.cursor, max(0, self.count - 1))
            self.redraw()

    def opened(self) -> Message | None:
        return NodeWanted(self._view.watches[self.cursor]) if self._view is not None and self.count else None

    def removed(self) -> Message | None:
        return WatchToggled(self._view.watches[self.cursor]) if self._view is not None and self.count else None

    def draw_below(self, line: int, width: int) -> Strip:
        return Line().add("w on a row of the tape watches its gradient here", colours.muted).strip(width)

    def draw(self, row: int, width: int) -> Strip:
        view = self._view
        if view is None or view.graph is None or view.tape is None:
            return Strip.blank(width)
        node = view.watches[row]
        texts = [_words(view, view.graph, view.tape, other) for other in view.watches]
        name, makes = texts[row]
        line = Line().left(name, min(NAME, max(len(one) for one, _ in texts)), colours.text).add("  ")
        line.left(makes, min(MAKES, max(len(one) for _, one in texts)), colours.muted)
        tensor = playhead.shown(view.graph, view.tape, view.playhead, node)
        return line.add("  ").add(*self._value(view, tensor, width - line.width - 2)).strip(width, self.background(row))

    def _value(self, view: View, tensor: int, room: int) -> tuple[str, Style]:
        """Elements if they fit, else the norm; a dot while nothing is there."""
        if tensor == NO_TENSOR or view.tape is None:
            return "·", colours.muted
        values = view.tape.tensors.values(tensor)
        text = " ".join(map(numbers.fixed, values)) if values else ""
        if not text or len(text) > room:
            text = f"‖·‖ {numbers.norm(view.tape.summary(tensor).norm)}  {numbers.shape(view.tape.tensors.shape(tensor))}"
        return text, colours.text


def _words(view: View, graph: BackwardGraph, tape: Tape, node: int) -> tuple[str, str]:
    """Name of the gradient, and what its node makes; for a leaf how many contributions are in."""
    leaf = graph.leaf_at(node)
    if leaf is None:
        return graph.gradient_name(node) or graph.short(node), graph.makes(node)
    entry = graph.leaves[leaf]
    done, total = playhead.count_so_far(graph, tape, view.playhead, entry.node, entry.input_nr)
    return view.gradient_of(entry), f"{done} of {total} in"
