"""Pane 1: the tape, one row a step, with its rails, norms and bars."""

from __future__ import annotations

import re
import time
from collections.abc import Hashable
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Static

from gradscope.model.rows import Rows
from gradscope.model.tape import ZERO, Tape
from gradscope.tui import colours, numbers
from gradscope.tui.glyphs import BREAK, CURSOR, NOTHING, PLAYHEAD
from gradscope.tui.messages import FoldToggled, RowOpened, RowSelected
from gradscope.tui.pane import Pane
from gradscope.tui.widgets.bars import Scale
from gradscope.tui.widgets.line import Line, cells, fit
from gradscope.tui.widgets.tape_columns import GUTTER, NORM, SCROLLBAR, Columns, Content
from gradscope.tui.widgets.tape_row import TapeRow, waiting
from gradscope.tui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from gradscope.session.view import View

HINT = "n one node · c to the end · s edit the seed · ? all keys"
HINT_HAS_RUN = HINT.replace("s edit the seed · ", "")
HINTED_STEPS = 10
_COUNTS = re.compile(r"( \+\d+)?( \+\d+ views?)?$")
"""at the end of a label: how many leaves and hidden nodes its row stands for"""
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
        self._has_run = False

    def compose(self) -> ComposeResult:
        yield self._list
        yield self._hint

    def show(self, view: View) -> None:
        self._list.show(view)
        hidden = view.rows.hidden if view.rows is not None else 0
        self.set_title(f"Tape  {hidden} view-like nodes hidden: P" if hidden else "Tape")
        if view.playhead != self._last:
            self._moves += self._last >= 0
            self._last = view.playhead
        hinted = view.tape is not None and view.state.value == "stopped" and self._moves < HINTED_STEPS
        self._hint.display = hinted
        if hinted and view.has_run != self._has_run:
            self._has_run = view.has_run
            self._hint.update(f"  {HINT_HAS_RUN if view.has_run else HINT}")
        self.set_class(hinted, "-hinted")
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

    def show(self, view: View) -> None:
        old, self._view = self._view, view
        if view.rows is None or view.tape is None or view.graph is None:
            self._columns_for(0)
            self.set_count(0, below=len(self._said(view)) + 1)
            self.redraw()
            return
        if old is None or old.rows is not view.rows or old.tape is not view.tape:
            self._take(view.rows, view.tape, view)
        self.set_count(len(view.rows))
        drawn = (view.rows, view.tape, view.against, view.playhead, view.matches, view.met, view.edited)
        if drawn != self._drawn:
            self._drawn = drawn
            self.redraw()
        elif old is not None and old.selection != view.selection:
            self.redraw_rows(old.selection, view.selection)
        self.show_row(view.selection)

    def on_resize(self) -> None:
        self._columns_for(self.size.width)
        if self._view is not None and self._view.rows is None:
            self.set_count(0, below=len(self._said(self._view)) + 1)
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

    def _said(self, view: View) -> list[str]:
        """What stands in place of the rows, wrapped."""
        room = max(20, self.size.width - SCROLLBAR)
        return [part for line in waiting(view) for part in wrap(line, room) or [""]]

    def draw_below(self, line: int, width: int) -> Strip:
        lines = self._said(self._view) if self._view else []
        return Line().add(lines[line - 1] if 0 < line <= len(lines) else "", colours.muted).strip(width)

    def draw(self, row: int, width: int) -> Strip:
        view = self._view
        assert view is not None
        assert view.rows is not None
        assert view.tape is not None
        drawing = TapeRow(view, view.rows, view.tape, row)
        columns, selected = self._columns, row == view.selection
        line = Line()
        self._gutter(line, drawing, selected)
        strong = colours.bold if selected or drawing.here else colours.plain
        line.right(drawing.steps, columns.step, colours.text if drawing.here else colours.muted).add(" ")
        line.left(self._rail(view.rows, row, view.playhead), columns.rail, drawing.rail_style).add(" ")
        self._words(line, drawing, strong, row in view.matches)
        if columns.shape:
            line.left(drawing.shape, columns.shape, colours.muted).add(" ")
        self._numbers(line, drawing, strong)
        if not selected:
            return line.strip(width)
        return line.strip(width - 1, CHOSEN_COLOURLESS if self.app.no_color else CHOSEN).crop_extend(0, width, None)

    def _gutter(self, line: Line, drawing: TapeRow, selected: bool) -> None:
        both = selected and drawing.stops and not drawing.here
        line.add(PLAYHEAD if drawing.here else CURSOR if both else " ", colours.strong if both else colours.strong_accent)
        if selected and not drawing.here and not both:
            line.add(CURSOR, colours.strong)
        else:
            line.add(BREAK if drawing.stops else " ", colours.warning)

    def _words(self, line: Line, drawing: TapeRow, strong: Style, marked: bool) -> None:
        columns = self._columns
        style = drawing.style + strong
        if marked:
            style += UNDERLINED
        indent, label = drawing.indent, drawing.label
        if columns.makes:
            line.add(indent, drawing.style).left(label, columns.node - len(indent), style).add(" ")
            line.left(drawing.makes, columns.makes, drawing.style + strong).add(" ")
            line.right(drawing.line, columns.line, colours.muted).add(" ")
            return
        aside = drawing.aside
        room = columns.node - len(indent) - (cells(aside) + 1 if aside else 0)
        if cells(label) > room:
            aside, room = "", columns.node - len(indent)
        line.add(indent, drawing.style).left(_shortened(label, room), room, style)
        if aside:
            line.add(" ").add(aside, colours.muted)
        line.add(" ")

    def _numbers(self, line: Line, drawing: TapeRow, strong: Style) -> None:
        columns = self._columns
        if drawing.norm is None:
            line.right(NOTHING if drawing.pending else "", NORM, colours.muted)
            if drawing.finding:
                line.right(drawing.finding, columns.flags, colours.strong_warning)
            return
        norm, flags = numbers.norm(drawing.norm), drawing.flags
        zero = norm == ZERO and flags.startswith(ZERO)  # the number says it, in the mark's colour
        line.right(norm, NORM, colours.strong_warning if zero else drawing.style + strong)
        marks = drawing.finding + flags.removeprefix(ZERO if zero else "")
        line.right(marks[: columns.flags], columns.flags, colours.strong_warning)
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


def _shortened(label: str, room: int) -> str:
    """A label that is too long keeps its counts: `c_proj Lin… +2`, `Split… +6 views`."""
    counts = _COUNTS.search(label)
    if cells(label) <= room or counts is None or room < cells(counts[0]) + 4:
        return label
    return fit(label[: counts.start()], room - len(counts[0])) + counts[0]
