"""The Step tab of a folded group of steps: what comes in from outside, what goes out of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from weakref import WeakKeyDictionary

from textual.content import Content

from gradscope.model import playhead
from gradscope.model.tape import Contribution, Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.tui import numbers
from gradscope.tui.colours import MUTED, TEXT, WARNING
from gradscope.tui.widgets.near import near
from gradscope.tui.widgets.step_tab import STRONG, StepPage, shorter

LOOKED_AT = 4_000
"""steps at either end of a group that are searched for edges to the outside"""

SHOWN = 12


@dataclass(frozen=True, slots=True)
class Outside:
    """How a group of steps hangs together with the rest of the pass."""

    arrivals: list[tuple[int, int]]
    """gradient slots (node, input_nr) that something from outside reaches, by step"""
    sent: list[int]
    """contributions to nodes outside, in delivery order"""
    leaves: dict[tuple[int, int], list[int]]
    """contributions to leaves, wherever they run, by their slots"""


_known: WeakKeyDictionary[Tape, dict[tuple[int, int], Outside]] = WeakKeyDictionary()


class GroupPage:
    """Writes steps `first` … `last` as one node."""

    def __init__(self, page: StepPage, first: int, last: int) -> None:
        self.page, self.first, self.last = page, first, last
        self.graph, self.tape, self.view = page.graph, page.tape, page.view
        self.outside = across(page.tape, first, last)

    def write(self) -> None:
        ledger = self.page.ledger
        if self.view.playhead < self.first:
            ledger.line(("○ not run yet", MUTED), (f"   steps {self.first}-{self.last}", MUTED))
        elif self.view.playhead < self.last:
            ledger.line((f"● step {self.view.playhead} of {self.first}-{self.last}", MUTED))
        self.arrives()
        self.sends()
        if self.last - self.first >= 2 * LOOKED_AT:
            ledger.line((f"only {LOOKED_AT} steps at either end of {self.last - self.first + 1} were looked at", MUTED))

    def arrives(self) -> None:
        arrivals = self.outside.arrivals
        for node, input_nr in arrivals[:SHOWN]:
            if self.tape.step_of(node) > self.view.playhead:
                continue
            came = near(self.tape, self.view.playhead, node, input_nr)
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
        """What went on by now, then what leaves got."""
        came = [self.tape.norm(self.tape.arrived(*slot)) for slot in self.outside.arrivals]
        by_now = bisect_right(self.outside.sent, self.view.playhead, key=self.tape.contribution_step.__getitem__)
        shown = self.outside.sent[:by_now][:SHOWN]
        for place, index in enumerate(shown):
            one = self.tape.contribution(index)
            self.page.tensor(self.label(place, self.target(one)), one.tensor, self.gain(one, came))
        leaves = 0
        for slot, indices in self.outside.leaves.items():
            here = bisect_right(indices, self.view.playhead, key=self.tape.contribution_step.__getitem__)
            leaves += here > 0
            if here and len(shown) + leaves <= SHOWN:
                self.leaf(len(shown) + leaves - 1, slot, self.tape.contribution(indices[here - 1]), here)
        if (more := by_now + leaves - SHOWN) > 0:
            self.page.ledger.line((f"… {more} more", MUTED))

    def leaf(self, place: int, slot: tuple[int, int], newest: Contribution, here: int) -> None:
        """What a leaf got: the contribution, or where the group sent several the sum so far."""
        done, total = playhead.count_so_far(self.graph, self.tape, self.view.playhead, *slot)
        note: Content | str = Content.styled(f"{done} of {total}", MUTED if done == total else TEXT)
        if here > 1:
            note = Content.assemble(note, (", so far", MUTED))
        elif self.view.against is not None:
            note = self.page.delta_sent(newest) or note
        tensor = newest.tensor if here == 1 else playhead.sum_so_far(self.tape, self.view.playhead, *slot)
        self.page.tensor(self.label(place, self.page.target(newest.edge)), tensor, note)

    def label(self, place: int, target: list[tuple[str, str]]) -> Content:
        return Content.assemble(("sends    " if not place else " " * 9, STRONG), *target)

    def gain(self, one: Contribution, came: list[float]) -> Content:
        """`×0.046` where one gradient arrives; Δ while a seed is edited."""
        if self.view.against is not None and (delta := self.page.delta_sent(one)):
            return delta
        if len(came) != 1 or not came[0] or one.tensor == NO_TENSOR:
            return Content()
        ratio = self.tape.norm(one.tensor) / came[0]
        return Content.styled(numbers.gain(ratio), WARNING if ratio != ratio else MUTED)

    def target(self, one: Contribution) -> list[tuple[str, str]]:
        """The module that goes on, where one does; else as for a single node."""
        origin = self.graph.origin(self.graph.target[one.edge])
        name = "" if origin is None else shorter(origin.module)
        return [("→ ", MUTED), (name, TEXT)] if name else self.page.target(one.edge)


def across(tape: Tape, first: int, last: int) -> Outside:
    """The edges between a group of steps and the rest; found once for each tape."""
    known = _known.setdefault(tape, {})
    if (first, last) not in known:
        known[first, last] = _search(tape, first, last)
    return known[first, last]


def _search(tape: Tape, first: int, last: int) -> Outside:
    graph, step_of = tape.graph, tape.step_by_node
    slots: dict[tuple[int, int], None] = {}
    sent: list[int] = []
    leaves: dict[tuple[int, int], list[int]] = {}
    seeded = [tape.seed_slot(seed.root) for seed in tape.seeds]
    for step in _ends(first, last):
        node = tape.node_at(step)
        if graph.leaf_at(node) is not None:
            continue
        for edge in graph.in_edges(node):
            if not first <= step_of[graph.source[edge]] <= last:
                slots[node, graph.input_nr[edge]] = None
        slots.update((slot, None) for slot in seeded if slot[0] == node)
        for index in tape.sent_range(step):
            edge = tape.contribution_edge[index]
            target = graph.target[edge]
            if graph.leaf_at(target) is not None:
                leaves.setdefault((target, graph.input_nr[edge]), []).append(index)
            elif not first <= step_of[target] <= last:
                sent.append(index)
    return Outside(list(slots), sent, leaves)


def _ends(first: int, last: int) -> Iterable[int]:
    first = max(1, first)
    if last - first < 2 * LOOKED_AT:
        return range(first, last + 1)
    return chain(range(first, first + LOOKED_AT), range(last - LOOKED_AT + 1, last + 1))
