"""What the nodes keep for backward: asked for once a stop, and for one node when a person looks at it."""

from __future__ import annotations

from gradscope.errors import GradscopeError
from gradscope.model.tensors import TensorTable
from gradscope.protocol import messages as m
from gradscope.session import slices
from gradscope.session.asking import Fetched
from gradscope.session.browsing import NOTHING, Browsing
from gradscope.session.view import State
from gradscope.session.visit import Visit

EARLY = 20_000
"""Graphs of at most so many nodes are read as soon as their first pass is recorded: earlier stops then keep what was read."""


class Inspecting(Browsing):
    """A run whose nodes can be looked into."""

    def read_saved(self) -> None:
        """Read what every node keeps; the answer stands in `view.saved`, also when the script has run on."""
        visit = self._here
        if visit is None or visit.stop.graph is None:
            self.notice = NOTHING
        elif visit.keeps.saved is None and not visit.keeps.asked:
            if self.live:
                self._read(visit)
            else:
                self.notice = self._too_late("what the nodes keep was not read")

    def inspect(self, node: int) -> None:
        """Look into what one node keeps; the answer stands in `view.inspected`."""
        visit = self._here
        if visit is None or visit.stop.graph is None:
            self.notice = NOTHING
        elif node not in visit.keeps.inspected and node not in visit.keeps.looking:
            if self.live:
                visit.keeps.looking.add(node)
                self._asking.inspect(node, lambda _: visit.keeps.looking.discard(node))
            else:
                self.notice = self._too_late("what this node keeps was not looked into")

    def fetch_saved(self, node: int, place: int, index: list[tuple[int, int, int]], done: Fetched) -> None:
        """Get a slice of a saved tensor, by its place among those of its node: at once where it is here, else when it comes."""
        cells = self._saved_at_hand(node, place, index)
        if cells is not None:
            done(m.TensorSlice(0, slices.shape_of(index), cells))
        elif self.live:
            self._asking.fetch_saved(node, place, index, done)
        else:
            why = "the snapshot was saved without it" if self.state is State.SNAPSHOT else "the script has run on since"
            done(GradscopeError("that tensor is gone", why, "what was looked into while the script stood still stays"))

    # ------------------------------------------------------------ inside

    def _first_recorded(self, visit: Visit) -> None:
        graph = visit.stop.graph
        if self.browsed and self.live and graph is not None and len(graph) <= EARLY and visit.keeps.saved is None:
            visit.keeps.asked = True
            self._asking.read_saved_early(lambda error: self._unread(visit))

    def _read(self, visit: Visit) -> None:
        visit.keeps.asked = True
        self._asking.read_saved(lambda error: self._unread(visit))

    def _unread(self, visit: Visit) -> None:
        visit.keeps.asked = False

    def _too_late(self, what: str) -> str:
        if self.state is State.SNAPSHOT:
            return f"{what} before the snapshot was saved"
        return f"{what} while the script stood still here"

    def _saved_at_hand(self, node: int, place: int, index: list[tuple[int, int, int]]) -> list[slices.Cell] | None:
        """Of a small tensor that was looked into."""
        looked = None if self._here is None else self._here.keeps.inspected.get(node)
        if looked is None or place not in looked.places:
            return None
        table, row = TensorTable(looked.tensors), looked.places.index(place)
        values = table.values(row)
        return None if values is None else slices.of_values(values, table.shape(row), index)
