"""Pane 2: the backward pass walks the person's own code in reverse."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.strip import Strip

from gradscope.model.tape import Tape
from gradscope.tui import colours
from gradscope.tui.glyphs import CURSOR, PLAYHEAD, RUN, SEED
from gradscope.tui.messages import NodeWanted
from gradscope.tui.pane import Pane
from gradscope.tui.widgets.line import Line, cells, fit
from gradscope.tui.widgets.source_marks import Mark, calls, mark, marked_lines, node_of
from gradscope.tui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from gradscope.session.view import View

TAB = 4
MARK_ROOM = 14
"""cells kept at the right for marks, where the code is long"""
FIXED = 6
"""cells besides the line number's digits and the code"""


class Place(NamedTuple):
    file: str
    line: int


NOWHERE = Place("", 0)


class SourcePane(Pane):
    """One file at a time: the one that the selection comes from."""

    NUMBER = 2
    TITLE = "Source"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._list = SourceList()

    def compose(self) -> ComposeResult:
        yield self._list

    def show(self, view: View) -> None:
        self._list.show(view)
        file = self._list.file
        self.set_title(f"Source  {os.path.basename(file)}" if file else "Source")


class SourceList(VirtualList):
    """The lines of a file with what the pass has done to each."""

    MARGIN = 3

    def __init__(self) -> None:
        super().__init__()
        self.file = ""
        self._lines: list[str] = []
        self._playhead = 0
        self._tape: Tape | None = None
        self._calls: Mapping[int, Mark] = {}
        self._here = self._selected = self._call = NOWHERE
        self._without_call = False
        """the script was stopped at a line, or at its end: `_call` is no backward call"""
        self._column = 0
        """where the marks stand, counted from the code's left edge"""
        self._drawn: tuple[object, ...] = ()

    def show(self, view: View) -> None:
        self._tape = view.tape
        self._place(view)
        lines = view.sources.get(self.file, [])
        drawn = (self.file, id(lines), view.tape, self._call, view.playhead, self._here, self._selected)
        if drawn == self._drawn:
            return
        before, self._drawn = self._drawn, drawn
        self._playhead, self._lines = view.playhead, lines
        if before[:4] != drawn[:4]:
            self._take(lines, view)
        elif before[:6] != drawn[:6]:
            self.redraw()
        else:
            self.redraw_rows(before[6].line - 1, self._selected.line - 1)  # type: ignore[attr-defined]
        if self._selected.file == self.file and self._selected.line:
            self.show_row(self._selected.line - 1)

    def _take(self, lines: list[str], view: View) -> None:
        """Another file, or another pass."""
        self._calls = calls(lines) if view.tape is None else {}
        self._column = self._marks_column()
        self.set_count(len(lines))
        self.redraw()

    def variant(self, row: int) -> Hashable:
        return self._selected == Place(self.file, row + 1)

    def on_resize(self) -> None:
        self._column = self._marks_column()
        self.redraw()
        if self._selected.file == self.file and self._selected.line:
            self.show_row(self._selected.line - 1)

    # ------------------------------------------------------------ where

    def _place(self, view: View) -> None:
        """Find the lines of playhead, selection and call, and the file to show."""
        call = view.stop.call if view.stop is not None else None
        self._call = Place(call.file, call.line) if call is not None else Place(*view.where)
        self._without_call = call is not None and call.kind == "none"
        if view.tape is None or view.rows is None:
            self._here, self._selected = NOWHERE, self._call
            self.file = self._call.file if self._call.file in view.sources else _script(view)
            return
        self._here = self._of_row(view, view.rows.row_of_step(view.playhead)) or NOWHERE
        self._selected = self._of_row(view, view.selection) or NOWHERE
        self.file = self._selected.file or self._here.file or self.file or self._call.file

    def _of_row(self, view: View, row: int) -> Place | None:
        """The line that a row comes from; None where that is not known."""
        if row == 0:
            return self._call
        assert view.rows is not None
        assert view.tape is not None
        node = view.rows.node(row)
        if node < 0:
            node = view.tape.node_at(min(max(1, view.playhead), view.rows.last(row)) if view.rows.last(row) > 0 else 1)
        origin = view.tape.graph.origin(node)
        return Place(origin.file, origin.line) if origin is not None and origin.line else None

    def _marks_column(self) -> int:
        """Marks stand in one column, right of the longest line that has one."""
        marked = set(self._calls)
        if self._tape is not None:
            marked.update(line for line in marked_lines(self._tape, self.file) if self._mark(Place(self.file, line), here=False))
        if self._call.file == self.file:
            marked.add(self._call.line)
        lengths = [cells(self._lines[line - 1].expandtabs(TAB)) for line in marked if 0 < line <= len(self._lines)]
        room = self.size.width - FIXED - self._digits - MARK_ROOM
        return max(8, min(max(lengths, default=0), room))

    @property
    def _digits(self) -> int:
        return max(2, len(str(len(self._lines))))

    # ------------------------------------------------------------ lines

    def draw(self, row: int, width: int) -> Strip:
        number, place = row + 1, Place(self.file, row + 1)
        here, selected = place == self._here and self._tape is not None, place == self._selected
        line = Line().add(PLAYHEAD if here else CURSOR if selected else " ", colours.strong_accent).add(" ")
        line.right(str(number), self._digits, colours.strong_accent if here else colours.muted).add("  ")
        text = self._lines[row].expandtabs(TAB)
        comment = text.lstrip().startswith("#")
        style = colours.muted if comment else colours.strong if here else colours.text
        beside = self._mark(place, here)
        if beside is None:
            return line.left(text, width - line.width, style).strip(width)
        line.add(fit(text, self._column) if cells(text) > self._column else text.ljust(self._column), style).add(" ")
        shade = colours.accent if beside.sign == RUN else colours.seed if beside.sign == SEED else colours.muted
        return line.add(f"{beside.sign} {beside.text}", shade).strip(width)

    def _mark(self, place: Place, here: bool) -> Mark | None:
        if place == self._call and self._call.line:
            if self._without_call:
                return Mark(" ", "the script stands here")
            return Mark(SEED, "seed") if self._tape is not None else Mark(SEED, "backward call")
        if self._tape is not None:
            return mark(self._tape, place.file, place.line, self._playhead, here)
        return self._calls.get(place.line)

    def clicked(self, row: int, column: int, event: events.Click) -> None:
        node = node_of(self._tape, self.file, row + 1, self._playhead) if self._tape is not None else None
        if node is not None:
            self.post_message(NodeWanted(node, run=event.chain == 2))


def _script(view: View) -> str:
    """The script's own key in the sources, which name files in full where they can."""
    if view.script in view.sources:
        return view.script
    full = os.path.abspath(view.script)
    return full if full in view.sources else next(iter(view.sources), "")
