"""What a page of the Node pane is about: one node, the nodes of a group, or the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape
from gradscope.session.view import View


@dataclass(frozen=True, slots=True)
class Selected:
    """The selected row."""

    graph: BackwardGraph
    tape: Tape
    first: int
    """0 for the seed's row, which stands for the whole graph"""
    last: int

    @property
    def node(self) -> int | None:
        """None for a row of several steps, and for the seed's."""
        return self.tape.node_at(self.first) if self.first == self.last > 0 else None

    @property
    def whole(self) -> bool:
        """It stands for every node, also those that do not run."""
        return self.last <= 0

    @property
    def nodes(self) -> Sequence[int]:
        """In the order in which they run; of the whole graph in that of their numbers."""
        return range(len(self.graph)) if self.whole else self.tape.step_node[self.first - 1 : self.last]

    def holds(self, node: int) -> bool:
        """Whether the row stands for this node."""
        return self.whole or self.first <= self.tape.step_of(node) <= self.last


def selected(view: View) -> Selected | None:
    """The row's nodes; None while nothing is recorded."""
    graph, tape, rows = view.graph, view.tape, view.rows
    if graph is None or tape is None or rows is None:
        return None
    return Selected(graph, tape, rows.first(view.selection), rows.last(view.selection))
