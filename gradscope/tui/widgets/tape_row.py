"""What one row of the tape says at the playhead."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.style import Style

from gradscope.model import playhead, rows
from gradscope.model.rows import Rows
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.session.breaks import holds
from gradscope.tui import colours, numbers
from gradscope.tui.flagged import Flagged
from gradscope.tui.glyphs import FOLDED, UNFOLDED

if TYPE_CHECKING:
    from gradscope.session.view import Stop, View

FLAGGED = 256
"""a group of more steps shows only what was changed: looking at all its numbers would be slow"""

SEED_CELLS = 6


class TapeRow:
    """Everything is looked up when asked for."""

    def __init__(self, view: View, rows: Rows, tape: Tape, row: int) -> None:
        self._view, self._rows, self._tape, self._row = view, rows, tape, row
        self._first, self._last = rows.first(row), rows.last(row)
        self._node = rows.node(row)
        self._kind = rows.kind(row)
        self._leaf = tape.graph.leaf_at(self._node) if self._node >= 0 else None
        self._tensor = self._tensor_in(tape)
        self.here = rows.row_of_step(view.playhead) == row
        self.pending = rows.head(row) > view.playhead

    def _tensor_in(self, tape: Tape) -> int:
        """The tensor whose norm the row shows, in this pass or in the one compared with."""
        step = self._view.playhead
        if self._kind == rows.SEED:
            return tape.seeds[0].tensor if tape.seeds else NO_TENSOR
        if self._node >= 0:
            return playhead.shown(tape.graph, tape, step, self._node)
        return tape.arrived_at(self._first) if self._first <= step else NO_TENSOR

    @property
    def norm(self) -> float | None:
        if self._kind == rows.SEED:
            return math.hypot(*(self._tape.norm(seed.tensor) for seed in self._tape.seeds if seed.tensor != NO_TENSOR))
        return None if self._tensor == NO_TENSOR else self._tape.norm(self._tensor)

    @property
    def delta(self) -> str:
        other, here = self._view.against, self.norm
        if other is None or here is None:
            return ""
        tensor = self._tensor_in(other)
        if self._kind == rows.SEED:
            there = math.hypot(*(other.norm(seed.tensor) for seed in other.seeds if seed.tensor != NO_TENSOR))
        elif tensor == NO_TENSOR:
            return ""
        else:
            there = other.norm(tensor)
        change = here - there
        return f"+{numbers.norm(change)}" if change > 0 else numbers.norm(change)

    @property
    def steps(self) -> str:
        if self._kind == rows.SEED:
            return ""
        return str(self._last) if self._first == self._last else f"{self._first}-{self._last}"

    @property
    def indent(self) -> str:
        depth, folded = self._rows.depth(self._row), self._rows.folded(self._row)
        if folded is None:
            return "  " * (depth + 1) if depth else ""
        return "  " * depth + (FOLDED if folded else UNFOLDED) + " "

    @property
    def label(self) -> str:
        return self._rows.label(self._row)

    @property
    def makes(self) -> str:
        if self._kind == rows.SEED:
            return _seed_text(self._tape)
        if self._leaf is not None:
            return "{} of {} in".format(*self._gathered())
        return self._tape.graph.makes(self._node) if self._node >= 0 else ""

    @property
    def line(self) -> str:
        if self._kind == rows.SEED:
            return f":{self._view.stop.call.line}" if self._view.stop and self._view.stop.call.line else ""
        origin = self._tape.graph.origin(self._node) if self._node >= 0 else None
        return f":{origin.line}" if origin and origin.line else ""

    @property
    def aside(self) -> str:
        """What stands at the right of the node's column where there is no column of its own for it."""
        if self._kind == rows.SEED:
            return ""
        return "{}/{} in".format(*self._gathered()) if self._leaf is not None else self.line

    def _gathered(self) -> tuple[int, int]:
        assert self._leaf is not None
        leaf = self._tape.graph.leaves[self._leaf]
        return playhead.count_so_far(self._tape.graph, self._tape, self._view.playhead, leaf.node, leaf.input_nr)

    @property
    def shape(self) -> str:
        if self._tensor != NO_TENSOR:
            return numbers.shape(self._tape.tensors.shape(self._tensor))
        shape = self._tape.graph.shape(self._node if self._node >= 0 else self._tape.node_at(max(1, self._first)))
        return "" if shape is None else numbers.shape(shape)

    @property
    def flags(self) -> str:
        view = self._view
        if self._kind == rows.SEED or self.pending:
            return ""
        if self._last - self._first > FLAGGED:
            return self._tape.changes_between(self._first, min(self._last, view.playhead))
        letters = (self._tape.flags(step) for step in range(self._first, min(self._last, view.playhead) + 1))
        return "".join(dict.fromkeys("".join(letters)))

    @property
    def finding(self) -> str:
        """`E` or `W` where a finding speaks of a step in this row, also before it has run: findings are of the whole pass."""
        if self._kind == rows.SEED or self._rows.folded(self._row) is False:
            return ""
        return Flagged.of(self._view.findings, self._tape).steps(self._first, self._last)

    @property
    def stops(self) -> bool:
        """Whether `c` stops in this row."""
        return self._rows.folded(self._row) is not False and holds(self._view.met, self._first, self._last)

    @property
    def style(self) -> Style:
        if self._kind == rows.SEED:
            return colours.seed
        if self._rows.raised(self._row):
            return colours.error
        if self._leaf is not None:
            return colours.muted if self._tensor == NO_TENSOR else colours.leaf
        return colours.muted if self.pending else colours.text

    @property
    def rail_style(self) -> Style:
        if self._rows.raised(self._row):
            return colours.error
        return colours.muted if self.pending or self._kind == rows.SEED else colours.accent


def _seed_text(tape: Tape) -> str:
    """The seed's values where they are few, else how it was given."""
    if len(tape.seeds) != 1:
        return f"{len(tape.seeds)} roots"
    seed = tape.seeds[0]
    values = tape.tensors.values(seed.tensor) if seed.tensor != NO_TENSOR else None
    if values is not None and len(values) <= SEED_CELLS:
        return " ".join(numbers.short(value) for value in values)
    return seed.expression


def _failed_at(stop: Stop) -> list[str]:
    return ["your script failed here", "", *stop.detail.splitlines()]


def _waiting_at(stop: Stop) -> list[str]:
    if stop.reason == "error":
        alive = [f"Enter picks a root among the live tensors ({len(stop.live)})"] if stop.live else []
        return [*_failed_at(stop), "", *alive, "r lets it end as python ends it"]
    if stop.live:
        return ["pick a root among the live tensors"]
    if stop.reason == "seed":
        return ["this call has no seed", "", *stop.detail.splitlines(), "s gives it one"]
    if stop.reason in ("end", "line", "no-graph"):
        return ["nothing to record here", "", *stop.detail.splitlines()]
    return ["recording…"]


def waiting(view: View) -> list[str]:
    """What stands in place of the rows while there are none."""
    if view.stop is not None and view.stop.refusal:
        return ["nothing could be recorded here", "", *view.stop.refusal.splitlines()]
    if view.busy is not None:
        return [f"{view.busy.what}…"]
    if view.waiting:
        return ["the script waits for input: o shows its terminal, and what you type goes there (Esc leaves)"]
    if view.stop is not None and view.state.value == "stopped":
        return _waiting_at(view.stop)
    if view.stop is not None and view.stop.reason == "error":
        return _failed_at(view.stop)
    return {
        "starting": ["the script starts; it stops at its first backward call"],
        "running": [f"the script runs: {view.calls:,} backward call{'' if view.calls == 1 else 's'} so far"],
        "crashed": ["the script crashed before anything was recorded"],
        "ended": ["the script ended without a backward call to look at"],
        "snapshot": ["this snapshot holds no recorded pass"],
    }.get(view.state.value, [])
