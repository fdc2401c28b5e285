"""The Step tab of a folded group of steps: what comes in from outside, what goes out of it."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar
from weakref import WeakKeyDictionary

from textual.content import Content

from gradscope.model import playhead
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Contribution, Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.tui import numbers
from gradscope.tui.colours import MUTED, TEXT, WARNING
from gradscope.tui.widgets.near import Near, near
from gradscope.tui.widgets.step_tab import STRONG, StepPage, shorter

LOOKED_AT = 4_000
"""steps at either end of a group that are searched for edges to the outside"""

SHOWN = 12

PARTS_SHOWN = 4
"""contributions from outside to one slot that gets more from inside"""

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Outside:
    """How a group of steps hangs together with the rest of the pass."""

    arrivals: list[tuple[int, int]]
    """gradient slots (node, input_nr) that something from outside reaches, by step"""
    mixed: frozenset[tuple[int, int]]
    """those of them that the group itself sends to as well"""
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
        self.stretch()
        self.arrives()
        self.sends()
        if self.last - self.first >= 2 * LOOKED_AT:
            ledger.line((f"only {LOOKED_AT} steps at either end of {self.last - self.first + 1} were looked at", MUTED))

    def stretch(self) -> None:
        """A module that runs in several stretches of steps has a row for each."""
        rows, row = self.view.rows, self.view.selection
        if rows is not None and (stretch := rows.stretch(row)):
            self.page.ledger.words(
                f"steps {self.first}-{self.last} are stretch {stretch} of this module: each has a row of its own", MUTED
            )

    def arrives(self) -> None:
        arrivals = self.outside.arrivals
        for node, input_nr in arrivals[:SHOWN]:
            if self.tape.step_of(node) > self.view.playhead:
                continue
            came = near(self.tape, self.view.playhead, node, input_nr)
            what = "" if len(arrivals) == 1 else self.graph.short(node)
            label = Content.assemble(("arrives", STRONG), "  ", (what, MUTED))
            if (node, input_nr) in self.outside.mixed:
                self.parts(label, node, input_nr)
            else:
                self.page.tensor(label, self.tape.arrived(node, input_nr), self.origin(came), counts=len(arrivals) == 1)
        if len(arrivals) > SHOWN:
            self.page.ledger.line((f"… arrives at {len(arrivals) - SHOWN} more places", MUTED))

    def parts(self, label: Content, node: int, input_nr: int) -> None:
        """Where the group itself sends to the same slot: what comes from outside alone."""
        sent = [one for one in self.tape.to(node, input_nr) if one.source == UNKNOWN or not self.holds(one.source)]
        for one in sent[:PARTS_SHOWN]:
            self.page.tensor(label, one.tensor, Content.styled(f"from {self.source(one)}{self.page.at_step(one)}, a part", MUTED))
        if len(sent) > PARTS_SHOWN:
            self.page.ledger.line((f"… {len(sent) - PARTS_SHOWN} more from outside", MUTED))

    def origin(self, came: Near) -> Content:
        """`from lm_head View, step 3`; as for a single node where it is a sum, and while a seed is edited."""
        if came.done != 1 or self.view.against is not None:
            return self.page.origin(came)
        one = came.last[0]
        return Content.styled(f"from {self.source(one)}{self.page.at_step(one)}", MUTED)

    def source(self, one: Contribution) -> str:
        """What sent it, with its module."""
        origin = None if one.source == UNKNOWN else self.graph.origin(one.source)
        module = "" if origin is None or not origin.module else f"{shorter(origin.module)} "
        return module + self.page.source(one)

    def holds(self, node: int) -> bool:
        return self.first <= self.tape.step_of(node) <= self.last

    def sends(self) -> None:
        """What went on by now, then what leaves got; of more than there is room for the largest."""
        outside, tape = self.outside, self.tape
        pure = [tape.norm(tape.arrived(*slot)) for slot in outside.arrivals] if not outside.mixed else []
        sent = outside.sent[: self.by_now(outside.sent)]
        shown = self.largest(sent, lambda index: tape.contribution_tensor[index])
        for place, index in enumerate(shown):
            one = tape.contribution(index)
            self.page.tensor(self.label(place, self.target(one)), one.tensor, self.gain(one, pure))
        got = {slot: indices[: self.by_now(indices)] for slot, indices in outside.leaves.items() if self.by_now(indices)}
        leaves = self.largest(got, lambda slot: playhead.sum_so_far(tape, self.view.playhead, *slot))
        for place, slot in enumerate(leaves, len(shown)):
            self.leaf(place, slot, tape.contribution(got[slot][-1]), len(got[slot]))
        if more := len(sent) - len(shown) + len(got) - len(leaves):
            self.page.ledger.line((f"… {more} more, smaller", MUTED))
        if len(pure) > 1 and sent and self.view.playhead >= self.last:
            self.whole_gain(math.hypot(*pure), sent)

    def by_now(self, indices: list[int]) -> int:
        """How many of some contributions are there by now."""
        return bisect_right(indices, self.view.playhead, key=self.tape.contribution_step.__getitem__)

    def largest(self, items: Collection[T], tensor: Callable[[T], int]) -> list[T]:
        """As many as are shown, in their own order. NaN counts as the largest of all, since that is what one looks for."""

        def size(item: T) -> float:
            norm = -1.0 if tensor(item) == NO_TENSOR else self.tape.norm(tensor(item))
            return math.inf if math.isnan(norm) else norm

        kept = set(heapq.nlargest(SHOWN, items, key=size))
        return [item for item in items if item in kept]

    def whole_gain(self, arrived: float, sent: list[int]) -> None:
        """Of all that goes on to all that arrives, where several gradients do."""
        tensors = (self.tape.contribution_tensor[index] for index in sent)
        gone = math.hypot(*(self.tape.norm(tensor) for tensor in tensors if tensor != NO_TENSOR))
        if arrived and not math.isnan(arrived):
            self.page.ledger.line(
                ("gain     ", STRONG), numbers.gain(gone / arrived), ("   all that goes on, to all that arrives", MUTED)
            )

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
        """The module that goes on, where one does; the node itself where that is of a module around, or of none."""
        ends = self.graph.source[one.edge], self.graph.target[one.edge]
        here, there = (origin.module if origin is not None else "" for origin in map(self.graph.origin, ends))
        if not there or f"{here}.".startswith(f"{there}."):
            return self.page.target(one.edge)
        return [("→ ", MUTED), (shorter(there), TEXT)]


def across(tape: Tape, first: int, last: int) -> Outside:
    """The edges between a group of steps and the rest; found once for each tape."""
    known = _known.setdefault(tape, {})
    if (first, last) not in known:
        known[first, last] = _search(tape, first, last)
    return known[first, last]


def _search(tape: Tape, first: int, last: int) -> Outside:
    graph, step_of = tape.graph, tape.step_by_node
    slots: dict[tuple[int, int], None] = {}
    inner: dict[tuple[int, int], None] = {}
    sent: list[int] = []
    leaves: dict[tuple[int, int], list[int]] = {}
    seeded = [tape.seed_slot(seed.root) for seed in tape.seeds]
    for step in _ends(first, last):
        node = tape.node_at(step)
        if graph.leaf_at(node) is not None:
            continue
        for edge in graph.in_edges(node):
            into = inner if first <= step_of[graph.source[edge]] <= last else slots
            into[node, graph.input_nr[edge]] = None
        slots.update((slot, None) for slot in seeded if slot[0] == node)
        for index in tape.sent_range(step):
            edge = tape.contribution_edge[index]
            target = graph.target[edge]
            if graph.leaf_at(target) is not None:
                leaves.setdefault((target, graph.input_nr[edge]), []).append(index)
            elif not first <= step_of[target] <= last:
                sent.append(index)
    return Outside(list(slots), frozenset(slots.keys() & inner.keys()), sent, leaves)


def _ends(first: int, last: int) -> Iterable[int]:
    first = max(1, first)
    if last - first < 2 * LOOKED_AT:
        return range(first, last + 1)
    return chain(range(first, first + LOOKED_AT), range(last - LOOKED_AT + 1, last + 1))
