"""The visible rows of the tape: the seed, then steps in engine order, with folded groups of steps between them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.folds import Folds
from gradscope.model.modules import CALL, MODULE, REPEATED, ROUND, Group, Item, Outline, Span
from gradscope.model.places import UNKNOWN
from gradscope.model.plumbing import hidden_steps
from gradscope.model.rails import Rail, Rails
from gradscope.model.tape import Tape

__all__ = ["CALL", "LEAVES", "MODULE", "REPEATED", "ROUND", "SEED", "STEP", "Folds", "Rows"]

SEED, STEP, LEAVES = "seed", "step", "leaves"


class Rows:
    """Row 0 is the seed (step 0). The rows that are no headings cover the steps 1 … n without gap or overlap.

    A heading stands above the rows of an open group. It covers the same steps as they, and no step key leads to it.

    Where view-like nodes are hidden, their steps belong to the row above them, or to the one below where above is none to join.
    """

    def __init__(self, graph: BackwardGraph, tape: Tape, folds: Folds) -> None:
        self.graph = graph
        self.folds = folds
        self._tape = tape
        self._outline = Outline.of(graph, tape) if folds != Folds() else None
        self._plumbing = hidden_steps(graph, tape) if folds.plumbing else None
        self._first = array("i", [0])
        self._last = array("i", [0])
        self._depth = bytearray(1)
        self._groups: dict[int, Group] = {}
        """by row, of closed groups and headings"""
        self._labels: dict[int, str] = {}
        """by row, of series of which only some members are shown together"""
        self._headings: set[int] = set()
        self._heads: dict[int, int] = {}
        """by row: the step of the node that it speaks of, where that is not its first"""
        self._joined: dict[int, int] = {}
        """by row: how many hidden steps it has taken in"""
        self._floor = 1
        """rows above this one belong to a group that ends before it: nothing may join them"""
        if not folds.outline and not folds.changed:
            self._span(Span(1, tape.steps), 0)
        else:
            assert self._outline is not None
            self._emit(self._outline.top, 0)

    @classmethod
    def build(cls, graph: BackwardGraph, tape: Tape, folds: Folds) -> Rows:
        return cls(graph, tape, folds)

    def __len__(self) -> int:
        return len(self._last)

    @property
    def groups(self) -> Collection[int]:
        """Rows that stand for groups: closed ones and headings."""
        return self._groups.keys()

    def kind(self, row: int) -> str:
        """SEED, STEP, MODULE, CALL (what one call of the forward made), REPEATED, ROUND (of a loop), or LEAVES."""
        if not row:
            return SEED
        group = self._groups.get(row)
        if group is not None:
            return group.kind
        return LEAVES if self._last[row] > self.head(row) and self.graph.is_accumulate(self.node(row)) else STEP

    def first(self, row: int) -> int:
        return self._first[row]

    def last(self, row: int) -> int:
        """`n` onto a row moves the playhead here."""
        return self._last[row]

    def node(self, row: int) -> int:
        """The node that a row speaks of; UNKNOWN (-1) for the seed and for groups."""
        return self._tape.node_at(self.head(row)) if row and row not in self._groups else UNKNOWN

    def head(self, row: int) -> int:
        """The step of that node: a row's first, unless hidden ones stand before it."""
        return self._heads.get(row, self._first[row])

    def joined(self, row: int) -> int:
        """How many hidden view-like nodes a row has taken in."""
        return self._joined.get(row, 0)

    @property
    def hidden(self) -> int:
        """How many view-like nodes are hidden in rows that stand for other nodes or groups."""
        return sum(self._joined.values())

    def depth(self, row: int) -> int:
        return self._depth[row]

    def key(self, row: int) -> str | None:
        """Names the group that folding at this row opens or closes: its own, for a single step the open group around it."""
        if not row:
            return None
        group = self._groups.get(row)
        return group.key if group else self.outer_key(row)

    def outer_key(self, row: int) -> str | None:
        """Names the innermost open group around a row; None when there is none."""
        if not row:
            return None
        outline = self._outline or Outline.of(self.graph, self._tape)
        own, found = self._groups.get(row), None
        for group in outline.around(self._first[row]):
            if own is not None and (group.key == own.key or group.last < self._last[row] or group.first > self._first[row]):
                break
            if not self.folds.closed(group.key) and (self.folds.outline or group.kind == MODULE):
                found = group.key
        return found

    def folded(self, row: int) -> bool | None:
        """True for a closed group, False for the heading of an open one, None for the rest."""
        return None if row not in self._groups else row not in self._headings

    def stretch(self, row: int) -> str:
        """`2 of 3` for a module that runs in several stretches of steps; empty for the rest."""
        group = self._groups.get(row)
        return "" if group is None or row in self._labels else group.stretch

    def label(self, row: int) -> str:
        """`SinBackward0`, `x  (leaf)`, `mlp MLP +4` (with so many leaves), `h.4…h.0 Block ×5`, `seed of J`."""
        if not row:
            names = dict.fromkeys(root.name for root in self.graph.roots)
            return f"seed of {', '.join(names)}" if names else "seed"
        group = self._groups.get(row)
        if group is None:
            text = self.graph.label(self.node(row))
        elif row in self._labels:
            text = self._labels[row]
        else:
            text = group.label
        leaves, joined = self.leaf_count(row), self.joined(row)
        text = f"{text} +{leaves}" if leaves and row not in self._headings else text
        return f"{text} +{joined} view{'s' * (joined > 1)}" if joined else text

    def leaf_count(self, row: int) -> int:
        """How many leaves a row stands for, beside what its label names."""
        first, last = self._first[row], self._last[row]
        if last == first or not row:
            return 0
        assert self._outline is not None
        heads = self._outline.heads
        itself = row in self._heads and self.graph.is_accumulate(self.node(row))
        return last - first + 1 - (bisect_right(heads, last) - bisect_left(heads, first)) - itself

    def row_of_step(self, step: int) -> int:
        """The row (no heading) that covers a step."""
        if not self._headings:
            return bisect_left(self._last, step)
        lasts, rows = self._covering
        return rows[bisect_left(lasts, step)]

    def glyph(self, row: int, playhead: int) -> str:
        """▽ seed, ◇ leaf, ● run (for a group: begun), ○ not yet, ✗ raised: what ended the pass, wherever the playhead stands."""
        if not row:
            return "▽"
        if self.raised(row):
            return "✗"
        node = self.node(row)
        if node >= 0 and self.graph.leaf_at(node) is not None:
            return "◇"
        return "●" if self.head(row) <= playhead else "○"

    def raised(self, row: int) -> bool:
        """A row, no heading, in which the node is that ended the pass by raising."""
        return self._first[row] <= self._tape.failed_step <= self._last[row] and row not in self._headings and row > 0

    def rail(self, row: int) -> Rail:
        """The row's lines toward later rows. A heading stands in the lane of the first row below it."""
        if not self._headings:
            return self._rails.rail(row)
        place = self._place[row]
        return self._rails.lane_before(place) if row in self._headings else self._rails.rail(place)

    def targets(self, row: int) -> list[int]:
        """The later rows that what a row sends goes to, each once; none of a heading, whose rows send it."""
        if row in self._headings:
            return []
        if not self._headings:
            return list(self._place_targets(row))
        return [self._covering[1][place] for place in self._place_targets(self._place[row])]

    @property
    def covering(self) -> Sequence[int]:
        """The rows that are no headings."""
        return self._covering[1] if self._headings else range(len(self))

    # ------------------------------------------------------------ how rows are made

    def _emit(self, items: Iterable[Item], depth: int) -> None:
        assert self._outline is not None
        for item in items:
            if isinstance(item, Span):
                self._span(item, depth)
            elif item.kind == REPEATED:
                self._series(item, depth)
            elif not self.folds.outline and item.kind != MODULE:
                self._emit(self._outline.inside(item), depth)
            elif self.folds.closed(item.key):
                if item.kind == CALL and self._all_hidden(item):
                    self._span(Span(item.first, item.last), depth)
                else:
                    self._row(item.first, item.last, depth, item)
            else:
                if self.folds.outline:
                    self._headings.add(self._row(item.first, item.last, depth, item))
                self._floor = len(self._last)
                self._emit(self._outline.inside(item), depth + self.folds.outline)
                self._floor = len(self._last)

    def _series(self, series: Group, depth: int) -> None:
        """Neighbouring closed members are one row."""
        assert self._outline is not None
        outline = self._outline
        if not self.folds.outline or not self.folds.closed(series.key):
            self._emit(outline.inside(series), depth)
            return
        start = 0
        for place in [*outline.opened_members(series, self.folds.closed, self.folds.changed), series.rounds]:
            if place == start + 1:
                self._emit([outline.member(series, start)], depth)
            elif place > start:
                bounds = outline.member(series, start).first, outline.member(series, place - 1).last
                self._labels[self._row(*bounds, depth, series)] = outline.series_label(series, start, place)
            if place < series.rounds:
                self._emit([outline.member(series, place)], depth)
            start = place + 1

    def _all_hidden(self, group: Group) -> bool:
        assert self._outline is not None
        marks, heads = self._plumbing, self._outline.heads
        low, high = bisect_left(heads, group.first), bisect_right(heads, group.last)
        return marks is not None and all(marks[head] for head in heads[low:high])

    def _span(self, span: Span, depth: int) -> None:
        """The rows of a span: a head with its leaves each, or a step each."""
        firsts = self._firsts(span)
        ends = [*firsts[1:], span.last + 1] if len(firsts) else []
        if self._plumbing is None:
            self._rows(firsts, ends, depth)
        else:
            self._without_plumbing(firsts, ends, bytes(map(self._plumbing.__getitem__, firsts)), depth)

    def _firsts(self, span: Span) -> Sequence[int]:
        if not self.folds.leaves:
            return range(span.first, span.last + 1)
        assert self._outline is not None
        heads = self._outline.heads
        return heads[bisect_left(heads, span.first) : bisect_right(heads, span.last)]

    def _without_plumbing(self, firsts: Sequence[int], ends: Sequence[int], hidden: bytes, depth: int) -> None:
        """Hidden steps join the row before them, else the one after, else are a row of their own."""
        place = 0
        while place < len(firsts):
            start = hidden.find(1, place)
            start = len(firsts) if start < 0 else start
            self._rows(firsts[place:start], ends[place:start], depth)
            if start == len(firsts):
                return
            seen = hidden.find(0, start)
            place = len(firsts) if seen < 0 else seen
            if self._may_join(depth):
                row = len(self) - 1
                self._last[row] = ends[place - 1] - 1
                self._joined[row] = self.joined(row) + place - start
            else:
                head = start if seen < 0 else seen
                place = head + 1 if seen >= 0 else place
                self._rows([firsts[start]], [ends[place - 1]], depth)
                row = len(self) - 1
                self._heads[row], self._joined[row] = firsts[head], place - start - 1

    def _may_join(self, depth: int) -> bool:
        """Whether the row made last can take in a hidden step: one of the same level that is no heading and no leaf."""
        row = len(self) - 1
        if row < self._floor or row in self._headings or self._depth[row] != min(depth, 255):
            return False
        return row in self._groups or not self.graph.is_accumulate(self.node(row))

    def _rows(self, firsts: Sequence[int], ends: Sequence[int], depth: int) -> None:
        """Rows of steps, each up to before the step where it ends."""
        self._first.extend(firsts)
        self._last.extend(end - 1 for end in ends)
        self._depth.extend(bytes([min(depth, 255)]) * len(firsts))

    def _row(self, first: int, last: int, depth: int, group: Group) -> int:
        row = len(self._last)
        self._first.append(first)
        self._last.append(last)
        self._depth.append(min(depth, 255))
        self._groups[row] = group
        return row

    # ------------------------------------------------------------ rails

    @cached_property
    def _covering(self) -> tuple[array[int], array[int]]:
        """The rows that are no headings, by the last step of each."""
        rows = array("i", (row for row in range(len(self)) if row not in self._headings))
        return array("i", map(self._last.__getitem__, rows)), rows

    @cached_property
    def _place(self) -> array[int]:
        """By row: how many rows that are no headings stand before it."""
        places, place = array("i"), 0
        for row in range(len(self)):
            places.append(place)
            place += row not in self._headings
        return places

    @cached_property
    def _rails(self) -> Rails:
        return Rails(len(self._covering[1]) if self._headings else len(self), self._place_targets)

    @cached_property
    def _place_targets(self) -> Callable[[int], Sequence[int]]:
        """For a row's place among those that are no headings: the places, all later, that its gradients go to."""
        lasts = self._covering[0] if self._headings else self._last
        firsts = array("i", map(self._first.__getitem__, self._covering[1])) if self._headings else self._first
        flow, start = _flow(self._tape), self._tape.sent_start
        hidden = _is_leaf(self.graph, self._tape) if self.folds.leaves else None

        def of_step(place: int) -> Sequence[int]:
            later = [step for step in flow[start[place] : start[place + 1]] if step > place]
            return list(dict.fromkeys(later)) if len(later) > 1 else later

        def of_stretch(place: int) -> Sequence[int]:
            last = lasts[place]
            later = dict.fromkeys(step for step in flow[start[firsts[place]] : start[last + 1]] if step > last)
            return list(dict.fromkeys(bisect_left(lasts, step) for step in later if hidden is None or not hidden[step]))

        return of_step if len(lasts) == self._tape.steps + 1 and hidden is None else of_stretch


def _flow(tape: Tape) -> array[int]:
    """By contribution: the step of the node that it goes to; 0 when that does not run in this pass."""
    if "flow" not in tape.derived:
        step_of, target = tape.step_by_node, tape.graph.target
        flow = array("i", [0]) * len(tape)
        for index, edge in enumerate(tape.contribution_edge):
            node = target[edge] if edge >= 0 else tape.seed_slot(-1 - edge)[0]
            flow[index] = step_of[node] if node >= 0 else 0
        tape.derived["flow"] = flow
    found: array[int] = tape.derived["flow"]
    return found


def _is_leaf(graph: BackwardGraph, tape: Tape) -> bytearray:
    """By step: 1 for the leaves that are no rows of their own."""
    marks = bytearray(b"\1") * (tape.steps + 1)
    for head in Outline.of(graph, tape).heads:
        marks[head] = 0
    return marks
