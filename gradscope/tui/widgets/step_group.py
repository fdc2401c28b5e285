"""The Step tab of a folded group of steps: what comes in from outside, what goes out of it."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from gradscope.model import playhead
from gradscope.model.tape import Contribution
from gradscope.model.tensors import NO_TENSOR
from gradscope.tui import numbers
from gradscope.tui.colours import MUTED, TEXT, WARNING
from gradscope.tui.widgets.step_tab import STRONG, StepPage, shorter

LOOKED_AT = 20_000
"""steps of a group that are searched for edges to the outside"""

SHOWN = 12


class GroupPage:
    """Writes steps `first` … `last` as one node."""

    def __init__(self, page: StepPage, first: int, last: int) -> None:
        self.page, self.first, self.last = page, first, last
        self.graph, self.tape, self.view = page.graph, page.tape, page.view

    def write(self) -> None:
        ledger = self.page.ledger
        if self.view.playhead < self.first:
            ledger.line(("○ not run yet", MUTED), (f"   steps {self.first}-{self.last}", MUTED))
        elif self.view.playhead < self.last:
            ledger.line((f"● step {self.view.playhead} of {self.first}-{self.last}", MUTED))
        self.arrives()
        self.sends()
        if self.last - self.first >= LOOKED_AT:
            ledger.line((f"only the first {LOOKED_AT} of {self.last - self.first + 1} steps were looked at", MUTED))

    def arrivals(self) -> list[tuple[int, int]]:
        """Gradient slots in the group that something from outside it reaches, in the order of their steps."""
        slots: dict[tuple[int, int], None] = {}
        for step in self.steps():
            node = self.tape.node_at(step)
            if self.graph.leaf_at(node) is not None:
                continue
            for edge in self.graph.in_edges(node):
                if not self.inside(self.tape.step_of(self.graph.source[edge])):
                    slots[node, self.graph.input_nr[edge]] = None
            for root in range(len(self.tape.seeds)):
                if self.tape.seed_slot(root)[0] == node:
                    slots[self.tape.seed_slot(root)] = None
        return list(slots)

    def arrives(self) -> None:
        arrivals = self.arrivals()
        for node, input_nr in arrivals[:SHOWN]:
            if self.tape.step_of(node) > self.view.playhead:
                continue
            came = playhead.slot(self.graph, self.tape, self.view.playhead, node, input_nr)
            what = "" if len(arrivals) == 1 else self.graph.short(node)
            self.page.tensor(
                Content.assemble(("arrives", STRONG), "  ", (what, MUTED)),
                self.tape.arrived(node, input_nr),
                self.page.origin(came),
                counts=len(arrivals) == 1,
            )
        if len(arrivals) > SHOWN:
            self.page.ledger.line((f"… arrives at {len(arrivals) - SHOWN} more places", MUTED))

    def sends(self) -> None:
        """Contributions to the outside by now, and to leaves wherever they are."""
        sent = list(self.outgoing())
        came = [self.tape.norm(self.tape.arrived(*slot)) for slot in self.arrivals()]
        inner = [one for one in sent if self.leaf(one) is None]
        for place, one in enumerate([*inner, *(one for one in sent if self.leaf(one) is not None)][:SHOWN]):
            label = Content.assemble(("sends    " if not place else " " * 9, STRONG), *self.target(one))
            self.page.tensor(label, one.tensor, self.note(one, came))
        if len(sent) > SHOWN:
            self.page.ledger.line((f"… {len(sent) - SHOWN} more", MUTED))

    def outgoing(self) -> Iterator[Contribution]:
        for step in self.steps():
            if step > self.view.playhead:
                return
            for one in self.tape.sent_by(step):
                target = self.graph.target[one.edge]
                if not self.inside(self.tape.step_of(target)) or self.graph.leaf_at(target) is not None:
                    yield one

    def note(self, one: Contribution, came: list[float]) -> Content:
        """`×0.046` for what goes on; `1 of 1` for a leaf."""
        if self.view.against is not None and (delta := self.page.delta_sent(one)):
            return delta
        leaf = self.leaf(one)
        if leaf is not None:
            node, input_nr = self.graph.target[one.edge], self.graph.input_nr[one.edge]
            done, total = playhead.count_so_far(self.graph, self.tape, self.view.playhead, node, input_nr)
            return Content.styled(f"{done} of {total}", MUTED if done == total else TEXT)
        norm = self.tape.norm(one.tensor)
        if len(came) != 1 or not came[0] or one.tensor == NO_TENSOR:
            return Content()
        ratio = norm / came[0]
        return Content.styled(numbers.gain(ratio), WARNING if ratio != ratio else MUTED)

    def target(self, one: Contribution) -> list[tuple[str, str]]:
        """The module that goes on, where one does; else as for a single node."""
        origin = self.graph.origin(self.graph.target[one.edge]) if self.leaf(one) is None else None
        name = "" if origin is None else shorter(origin.module)
        return [("→ ", MUTED), (name, TEXT)] if name else self.page.target(one.edge)

    def leaf(self, one: Contribution) -> int | None:
        return self.graph.leaf_at(self.graph.target[one.edge])

    def steps(self) -> range:
        return range(max(1, self.first), min(self.last, self.first + LOOKED_AT) + 1)

    def inside(self, step: int) -> bool:
        return self.first <= step <= self.last
