"""Pane 1: the tape, one row a step, with its rails, norms and bars."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from typing import TYPE_CHECKING

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Static

from gradscope.model import playhead, rows
from gradscope.model.rows import Rows
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.tui import colours, numbers
from gradscope.tui.glyphs import CURSOR, FOLDED, NOTHING, PLAYHEAD, UNFOLDED
from gradscope.tui.messages import FoldToggled, RowOpened, RowSelected
from gradscope.tui.pane import Pane
from gradscope.tui.widgets.bars import Scale
from gradscope.tui.widgets.line import Line, cells, fit
from gradscope.tui.widgets.tape_columns import GUTTER, NORM, Columns, Content
from gradscope.tui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from gradscope.session.view import View

HINT = "n one node · c to the end · s edit the seed · ? all keys"
HINTED_STEPS = 10
FLAGGED = 256
"""a group of more steps shows no flags: looking at them all would be slow"""
SEED_CELLS = 6
UNDERLINED = Style(underline=True)
CHOSEN, CHOSEN_COLOURLESS = Style(bgcolor=colours.SELECTED), Style(reverse=True)

RAILS_AT_ONCE = 20_000
RAILS_SLICE = 0.008
"""seconds of drawing rails ahead at a time, where the list is longer than that"""


class TapePane(Pane):
    """The list of steps, and under it one hint while the person takes the first steps."""

    NUMBER = 1
    TITLE = "Tape"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._list = TapeList()
        self._hint = Static(f"  {HINT}", id="hint", markup=False)
        self._last = -1
        self._moves = 0

    def compose(self) -> ComposeResult:
        yield self._list
        yield self._hint

    def show(self, view: View) -> None:
        self._list.show(view)
        if view.playhead != self._last:
            self._moves += self._last >= 0
            self._last = view.playhead
        self._hint.display = view.tape is not None and view.state.value == "stopped" and self._moves < HINTED_STEPS
        self._place_hint()

    @property
    def page(self) -> int:
        """How many rows are in sight."""
        return self._list.page

    def selected_text(self) -> str:
        """The selected row, as it stands there."""
        return self._list.selected_text()

    def _place_hint(self) -> None:
        """Under the last row where the rows leave room, else at the bottom."""
        self.set_class(self._list.count + 3 <= self.size.height, "-roomy")

    def on_resize(self) -> None:
        self._place_hint()


class TapeList(VirtualList):
    """Draws rows of `View.rows` at the playhead."""

    HEADING = 1

    def __init__(self) -> None:
        super().__init__()
        self._view: View | None = None
        self._drawn: tuple[object, ...] = ()
        self._content: Content | None = None
        self._columns = Columns(4, 5, 14, 11, 4, 5, 1, 4, 0)
        self._scale = Scale([])
        self._rail_width = 5
        self._rails_ready = 0
        self._rails_timer: Timer | None = None
        self._marked: frozenset[int] = frozenset()
        self._breaks: frozenset[str] = frozenset()

    def show(self, view: View) -> None:
        old, self._view = self._view, view
        if view.rows is None or view.tape is None or view.graph is None:
            self._columns_for(0)
            self.set_count(0, below=len(_waiting(view)) + 1)
            self.redraw()
            return
        if old is None or old.rows is not view.rows or old.tape is not view.tape:
            self._take(view.rows, view.tape, view)
        self.set_count(len(view.rows))
        self._marked, self._breaks = frozenset(view.matches), frozenset(view.breaks)
        drawn = (view.rows, view.tape, view.against, view.playhead, view.matches, view.breaks, view.edited)
        if drawn != self._drawn:
            self._drawn = drawn
            self.redraw()
        elif old is not None and old.selection != view.selection:
            self.redraw_rows(old.selection, view.selection)
        self.show_row(view.selection)

    def on_resize(self) -> None:
        self._columns_for(self.size.width)
        self.redraw()
        if self._view is not None and self._view.rows is not None:
            self.show_row(self._view.selection)

    # ------------------------------------------------------------ a new pass, new folds

    def _take(self, rows: Rows, tape: Tape, view: View) -> None:
        graph = tape.graph
        self._content = Content.of(graph, tape, grouped=len(rows) <= tape.steps)
        self._scale = Scale(tape.tensors.norm)
        self._rail_width = 5
        self._rails_ready = len(rows) if len(rows) <= RAILS_AT_ONCE else 0
        self._columns_for(self.size.width)

    def _columns_for(self, width: int) -> None:
        if self._content is not None and self._view is not None and width:
            self._columns = Columns.fit(width, self._content, self._rail_width, self._view.against is not None)

    # ------------------------------------------------------------ lines

    def variant(self, row: int) -> Hashable:
        view = self._view
        return view is not None and row == view.selection

    def draw_heading(self, line: int, width: int) -> Strip:
        columns, view = self._columns, self._view
        if view is None or view.tape is None:
            return Strip.blank(width)
        text = Line().to(GUTTER).right("step", columns.step, colours.muted).add(" ")
        text.left("graph", columns.rail, colours.muted).add(" ")
        text.left("node" if columns.makes else "module / node", columns.node, colours.muted).add(" ")
        for name, cell in (("makes", columns.makes), ("line", columns.line), ("shape", columns.shape)):
            if cell:
                text.left(name, cell + 1, colours.muted)
        text.right("‖grad‖", NORM, colours.muted)
        if columns.delta:
            text.to(text.width + columns.flags)
            text.right(f"Δ pass {view.against.number if view.against else 1}", columns.delta, colours.muted)
        return text.strip(width)

    def draw_below(self, line: int, width: int) -> Strip:
        lines = _waiting(self._view) if self._view else []
        return Line().add(lines[line - 1] if 0 < line <= len(lines) else "", colours.muted).strip(width)

    def draw(self, row: int, width: int) -> Strip:
        view = self._view
        assert view is not None
        assert view.rows is not None
        assert view.tape is not None
        drawing = _Row(view, view.rows, view.tape, row)
        columns, selected = self._columns, row == view.selection
        line = Line()
        self._gutter(line, drawing, selected)
        strong = colours.bold if selected or drawing.here else colours.plain
        line.right(drawing.steps, columns.step, colours.text if drawing.here else colours.muted).add(" ")
        line.left(self._rail(view.rows, row, view.playhead), columns.rail, drawing.rail_style).add(" ")
        self._words(line, drawing, strong, row in self._marked)
        if columns.shape:
            line.left(drawing.shape, columns.shape, colours.muted).add(" ")
        self._numbers(line, drawing, strong)
        if not selected:
            return line.strip(width)
        return line.strip(width - 1, CHOSEN_COLOURLESS if self.app.no_color else CHOSEN).crop_extend(0, width, None)

    def _gutter(self, line: Line, drawing: _Row, selected: bool) -> None:
        line.add(PLAYHEAD if drawing.here else " ", colours.strong_accent)
        if selected and not drawing.here:
            line.add(CURSOR, colours.strong)
        else:
            line.add("◆" if drawing.breaks & self._breaks else " ", colours.warning)

    def _words(self, line: Line, drawing: _Row, strong: Style, marked: bool) -> None:
        columns = self._columns
        style = drawing.style + strong
        if marked:
            style += UNDERLINED
        indent, label = drawing.indent, drawing.label
        if columns.makes:
            line.add(indent).left(label, columns.node - len(indent), style).add(" ")
            line.left(drawing.makes, columns.makes, drawing.style + strong).add(" ")
            line.right(drawing.line, columns.line, colours.muted).add(" ")
            return
        aside = drawing.aside
        room = columns.node - len(indent) - (cells(aside) + 1 if aside else 0)
        if cells(label) > room:
            aside, room = "", columns.node - len(indent)
        line.add(indent).left(_shortened(label, room), room, style)
        if aside:
            line.add(" ").add(aside, colours.muted)
        line.add(" ")

    def _numbers(self, line: Line, drawing: _Row, strong: Style) -> None:
        columns = self._columns
        if drawing.norm is None:
            line.right(NOTHING if drawing.pending else "", NORM, colours.muted)
            return
        line.right(numbers.norm(drawing.norm), NORM, drawing.style + strong)
        line.right(drawing.flags[: columns.flags], columns.flags, colours.strong_warning)
        if columns.bar:
            line.left(self._scale.bar(drawing.norm, columns.bar), columns.bar, colours.bar)
        if columns.delta:
            line.right(drawing.delta, columns.delta, colours.warning)

    def selected_text(self) -> str:
        view = self._view
        if view is None or view.rows is None:
            return ""
        return " ".join(self.draw(view.selection, self.size.width).text.split())

    # ------------------------------------------------------------ rails

    def _rail(self, rows: Rows, row: int, step: int) -> str:
        """The cells of one row; only the row's own sign where the rails have not been drawn that far yet."""
        glyph = rows.glyph(row, step)
        if row >= self._rails_ready:
            self._draw_ahead()
            return glyph
        rail = rows.rail(row)
        text = rail.draw(glyph)
        if len(text) > self._rail_width:
            self._widen(len(text))
        width = self._columns.rail
        if len(text) > width and rail.column >= width - 1:
            return text[: width - 1] + glyph
        return text

    def _widen(self, width: int) -> None:
        """The rails' column grows with what has been in sight, and does not shrink again."""
        self._rail_width = width
        before = self._columns
        self._columns_for(self.size.width)
        if before != self._columns:
            self.call_later(self.redraw)

    def _draw_ahead(self) -> None:
        if self._rails_timer is None:
            self._rails_timer = self.set_interval(0.02, self._more_rails)

    def _more_rails(self) -> None:
        """Draw rails for some milliseconds; they can only be drawn from the top."""
        view, end = self._view, time.monotonic() + RAILS_SLICE
        rows = view.rows if view else None
        wanted = 0 if rows is None else min(len(rows), self.first_row + self.page + 1)
        while rows is not None and self._rails_ready < wanted and time.monotonic() < end:
            self._rails_ready = min(len(rows), self._rails_ready + 256)
            rows.rail(self._rails_ready - 1)
        if self._rails_ready >= wanted and self._rails_timer is not None:
            self._rails_timer.stop()
            self._rails_timer = None
            self.redraw()

    # ------------------------------------------------------------ mouse

    def clicked(self, row: int, column: int, event: events.Click) -> None:
        view = self._view
        if view is None or view.rows is None:
            return
        indent = GUTTER + self._columns.step + 1 + self._columns.rail + 1 + 2 * view.rows.depth(row)
        if view.rows.folded(row) is not None and indent <= column < indent + 2:
            self.post_message(FoldToggled(row))
        else:
            self.post_message(RowOpened(row) if event.chain == 2 else RowSelected(row))


class _Row:
    """What one row says at the playhead; everything is looked up when asked for."""

    def __init__(self, view: View, rows: Rows, tape: Tape, row: int) -> None:
        self._view, self._rows, self._tape, self._row = view, rows, tape, row
        self._first, self._last = rows.first(row), rows.last(row)
        self._node = rows.node(row)
        self._kind = rows.kind(row)
        self._leaf = tape.graph.leaf_at(self._node) if self._node >= 0 else None
        self._tensor = self._tensor_in(tape)
        self.here = rows.row_of_step(view.playhead) == row
        self.pending = self._first > view.playhead

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
        if self._kind == rows.SEED or self.pending or self._last - self._first > FLAGGED:
            return ""
        letters = (self._tape.flags(step) for step in range(self._first, min(self._last, view.playhead) + 1))
        return "".join(dict.fromkeys("".join(letters)))

    @property
    def breaks(self) -> frozenset[str]:
        """The breakpoints that would be this row's."""
        origin = self._tape.graph.origin(self._node) if self._node >= 0 else None
        here = {f"step:{self._last}"}
        if origin is not None:
            here |= {f"{origin.file}:{origin.line}", f"{origin.file.rpartition('/')[2]}:{origin.line}"}
        return frozenset(here)

    @property
    def style(self) -> Style:
        if self._kind == rows.SEED:
            return colours.seed
        if self._leaf is not None:
            return colours.muted if self._tensor == NO_TENSOR else colours.leaf
        return colours.muted if self.pending else colours.text

    @property
    def rail_style(self) -> Style:
        return colours.muted if self.pending or self._kind == rows.SEED else colours.accent


def _shortened(label: str, room: int) -> str:
    """A label that is too long keeps its number of leaves: `c_proj Lin… +2`."""
    head, plus, count = label.rpartition(" +")
    if cells(label) <= room or not plus or not count.isdecimal() or room < 8:
        return label
    return f"{fit(head, room - len(count) - 2)} +{count}"


def _seed_text(tape: Tape) -> str:
    """The seed's values where they are few, else how it was given."""
    if len(tape.seeds) != 1:
        return f"{len(tape.seeds)} roots"
    seed = tape.seeds[0]
    values = tape.tensors.values(seed.tensor) if seed.tensor != NO_TENSOR else None
    if values is not None and len(values) <= SEED_CELLS:
        return " ".join(numbers.short(value) for value in values)
    return seed.expression


def _waiting(view: View) -> list[str]:
    """What stands in place of the rows while there are none."""
    if view.stop is not None and view.stop.refusal:
        return ["nothing could be recorded here", "", *view.stop.refusal.splitlines()]
    if view.busy is not None:
        return [f"{view.busy.what}…"]
    if view.stop is not None and view.state.value == "stopped":
        return ["recording…"] if not view.stop.live else ["pick a root among the live tensors"]
    return {
        "starting": ["the script starts; it stops at its first backward call"],
        "running": [f"the script runs: {view.calls:,} backward call{'' if view.calls == 1 else 's'} so far"],
        "crashed": ["the script crashed before anything was recorded"],
        "ended": ["the script ended without a backward call to look at"],
        "snapshot": ["this snapshot holds no recorded pass"],
    }.get(view.state.value, [])
