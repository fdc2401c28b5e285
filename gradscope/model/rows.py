"""The visible rows of the tape: the seed, then steps in engine order, folded groups of steps in between."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.rails import Rail, Rails
from gradscope.model.tape import Tape

SEED, STEP, MODULE, REPEATED, LEAVES = "seed", "step", "module", "repeated", "leaves"


@dataclass(frozen=True, slots=True)
class Folds:
    """Which groups are closed. Immutable: each change gives new folds."""

    closed: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def default(cls, graph: BackwardGraph, tape: Tape, screen_rows: int = 40) -> Folds:
        """Open up to 200 nodes; above that folded to the depth that fits two screens."""
        return cls()

    def open(self, key: str) -> Folds:
        return Folds(self.closed - {key})

    def close(self, key: str) -> Folds:
        return Folds(self.closed | {key})

    def toggle(self, key: str) -> Folds:
        return self.open(key) if key in self.closed else self.close(key)

    def like(self, other: Folds) -> Folds:
        """These folds for another call's graph, as far as it has the same groups."""
        return other


class Rows:
    """Row 0 is the seed (step 0). The rows that are no headings cover the steps 1 … n without gap or overlap."""

    def __init__(self, graph: BackwardGraph, tape: Tape, folds: Folds) -> None:
        self.graph = graph
        self.folds = folds
        self._tape = tape
        self._last = array("i", range(tape.steps + 1))

    @classmethod
    def build(cls, graph: BackwardGraph, tape: Tape, folds: Folds) -> Rows:
        return cls(graph, tape, folds)

    def __len__(self) -> int:
        return len(self._last)

    def kind(self, row: int) -> str:
        return STEP if row else SEED

    def first(self, row: int) -> int:
        return self._last[row - 1] + 1 if row else 0

    def last(self, row: int) -> int:
        """`n` onto a row moves the playhead here."""
        return self._last[row]

    def node(self, row: int) -> int:
        """The node that a row speaks of; UNKNOWN (-1) for the seed and for groups."""
        return self._tape.node_at(self._last[row]) if row else -1

    def depth(self, row: int) -> int:
        return 0

    def key(self, row: int) -> str | None:
        """Names the group that folding at this row closes or opens; None where there is none."""
        return None

    def folded(self, row: int) -> bool | None:
        """True for a closed group, False for the heading of an open one, None for the rest."""
        return None

    def label(self, row: int) -> str:
        """`SinBackward0`, `x  (leaf)`, `h.5 Block`, `seed of J`."""
        if not row:
            names = dict.fromkeys(root.name for root in self.graph.roots)
            return f"seed of {', '.join(names)}" if names else "seed"
        return self.graph.label(self.node(row))

    def row_of_step(self, step: int) -> int:
        """The row (no heading) that covers a step."""
        return bisect_left(self._last, step)

    def rail(self, row: int) -> Rail:
        return self._rails.rail(row)

    def glyph(self, row: int, playhead: int) -> str:
        """▽ seed, ◇ leaf, ● run (or begun, for a group), ○ not yet."""
        if not row:
            return "▽"
        node = self.node(row)
        if node >= 0 and self.graph.leaf_at(node) is not None:
            return "◇"
        return "●" if self.first(row) <= playhead else "○"

    @cached_property
    def _rails(self) -> Rails:
        return Rails(len(self), self._targets)

    def _targets(self, row: int) -> list[int]:
        graph, step_of = self.graph, self._tape.step_by_node
        if row:
            steps = [step_of[graph.target[edge]] for edge in graph.out_edges(self._tape.step_node[self._last[row] - 1])]
        else:
            steps = [step_of[node] for node in self._seeded()]
        return list(dict.fromkeys(step for step in steps if step))

    def _seeded(self) -> Iterator[int]:
        for seed in self._tape.seeds:
            node, _ = self._tape.seed_slot(seed.root)
            if node >= 0:
                yield node
