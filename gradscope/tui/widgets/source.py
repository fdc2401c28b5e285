"""Pane 2: the backward pass walks the person's own code in reverse."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.strip import Strip

from gradscope.model.source_lines import SourceLines
from gradscope.model.tape import Tape
from gradscope.tui import colours
from gradscope.tui.flagged import Flagged
from gradscope.tui.glyphs import CURSOR, PLAYHEAD, RUN, SEED
from gradscope.tui.messages import NodeWanted, RowSelected, Said, StepWanted
from gradscope.tui.pane import MOVES, Pane
from gradscope.tui.widgets.line import Line, cells, fit
from gradscope.tui.widgets.source_marks import Mark, calls, mark, marked_lines, node_of
from gradscope.tui.widgets.source_text import REMARK, SourceText, files, script_file, short_name
from gradscope.tui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from gradscope.findings.finding import Finding
    from gradscope.session.view import View

TAB = 4
MARK_ROOM = 14
"""cells kept at the right for marks, where the code is long"""
FIXED = 6
"""cells besides the line number's digits and the code"""
ORIGIN_SOUGHT = 200
"""steps of a folded row that are looked at for one whose line is known"""


NO_NODE = "no node of this line runs in this pass"
NO_PASS = "no pass is recorded here"


class Place(NamedTuple):
    file: str
    line: int


NOWHERE = Place("", 0)


class SourcePane(Pane):
    """One file at a time: the one that the selection comes from, or another one that the person turned to."""

    NUMBER = 2
    TITLE = "Source"

    BINDINGS: ClassVar = [
        *MOVES,
        Binding("right,l", "other_node(1)", show=False),
        Binding("left,h", "other_node(-1)", show=False),
        Binding("enter", "open", show=False),
    ]

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._list = SourceList()
        self._files: list[str] = []

    def compose(self) -> ComposeResult:
        yield self._list

    def show(self, view: View) -> None:
        self._list.show(view)
        self._files = files(view)
        self._write_title()

    @property
    def place(self) -> tuple[str, int] | None:
        """File and line under the cursor: what an editor is to open."""
        place = self._list.cursor
        return (place.file, place.line) if place.line else None

    def tab(self, direction: int) -> None:
        """Turn to the next or the previous file that the pass goes through."""
        if len(self._files) > 1:
            at = self._files.index(self._list.file) if self._list.file in self._files else -min(direction, 0)
            self._list.turn_to(self._files[(at + direction) % len(self._files)])
            self._write_title()
        else:
            self.post_message(Said("the pass goes through this file alone" if self._files else NO_PASS))

    def action_move(self, lines: int) -> None:
        self._list.move(lines)

    def action_page(self, pages: int) -> None:
        self._list.move(pages * self._list.page)

    def action_edge(self, direction: int) -> None:
        self._list.move(direction * self._list.count)

    def action_other_node(self, direction: int) -> None:
        self._list.other_node(direction)

    def action_open(self) -> None:
        self._list.open()

    def _write_title(self) -> None:
        file = self._list.file
        number = (
            f"   {self._files.index(file) + 1} of {len(self._files)} files [ ]"
            if file in self._files[:-1] or file in self._files[1:]
            else ""
        )
        self.set_title(f"Source  {short_name(file, self._files)}{number}" if file else "Source")


class SourceList(VirtualList):
    """The lines of a file with what the pass has done to each.

    The cursor is on the selection's line, until the person moves it here. Then it stays where they put it as long as the
    selection is one that this brought about.
    """

    MARGIN = 3

    def __init__(self) -> None:
        super().__init__()
        self.file = ""
        self.cursor = NOWHERE
        self._view: View | None = None
        self._text = SourceText("", None)
        self._calls: Mapping[int, Mark] = {}
        self._here = self._call = NOWHERE
        self._chosen: int | None = None
        """the selected node, where the row is a single one's"""
        self._asked: set[int] = set()
        """rows whose selection leaves the cursor where it is"""
        self._led: Finding | None = None
        """the finding that one was led to last"""
        self._without_call = False
        """the script was stopped at a line, or at its end: `_call` is no backward call"""
        self._column = 0
        """where the marks stand, counted from the code's left edge"""
        self._drawn: tuple[object, ...] = ()

    # ------------------------------------------------------------ what to show

    def show(self, view: View) -> None:
        before, self._view = self._view, view
        if before is None or before.rows is not view.rows or view.selection not in self._asked:
            self._asked.clear()
        self._place(view)
        self._go_to_finding(view)
        self._draw_anew(view)

    def _go_to_finding(self, view: View) -> None:
        """The cursor goes to the line of a finding that one was led to and that has no node."""
        finding = view.findings[view.finding] if view.finding >= 0 else None
        led, self._led = finding is not self._led, finding
        if finding is None or not led or finding.node >= 0 or finding.file not in view.sources:
            return
        self.file, self.cursor = finding.file, Place(finding.file, finding.line)
        self._asked.add(view.selection)

    def _draw_anew(self, view: View) -> None:
        lines = view.sources.get(self.file)
        drawn = (
            *(self.file, id(lines), view.tape, self._call),
            *(view.playhead, self._here, self._chosen, self.cursor, view.findings),
        )
        if drawn == self._drawn:
            return
        before, self._drawn = self._drawn, drawn
        if before[:4] != drawn[:4]:
            call = view.stop.call if view.stop is not None and self._call.file == self.file else None
            self._text = SourceText(self.file, lines, view.tape, (call.line, call.code) if call is not None else (0, ""))
            self._calls = calls(self._text.lines) if view.tape is None else {}
            self._column = self._marks_column()
            self.set_count(len(self._text))
            self.redraw()
        elif before[:7] != drawn[:7] or before[8:] != drawn[8:]:
            self.redraw()
        else:
            for place in (before[7], self.cursor):
                first, last = self._text.around(place.line)  # type: ignore[attr-defined]
                self.redraw_rows(*map(self._text.row, range(first, last + 1)))
        self._show_cursor()

    def on_resize(self) -> None:
        self._column = self._marks_column()
        self.redraw()
        self._show_cursor()

    def _show_cursor(self) -> None:
        row = self._text.row(self.cursor.line) if self.cursor.file == self.file else -1
        if row >= 0:
            self.show_row(row)

    def variant(self, row: int) -> Hashable:
        line = self._text.line(row)
        first, last = self._text.around(self.cursor.line) if self.cursor.file == self.file else (0, 0)
        return self.cursor == Place(self.file, line), first <= line <= last

    # ------------------------------------------------------------ where

    def _place(self, view: View) -> None:
        """Find the lines of playhead, selection and call, and the file to show."""
        call = view.stop.call if view.stop is not None else None
        self._call = Place(call.file, call.line) if call is not None else Place(*view.where)
        self._without_call = call is not None and call.kind == "none"
        self._chosen = None
        if view.tape is None or view.rows is None:
            self._here, self.cursor = NOWHERE, self._call
            self.file = self._call.file if self._call.file in view.sources else script_file(view)
            return
        self._here = self._of_row(view, view.rows.row_of_step(view.playhead)) or NOWHERE
        self._chosen = node if (node := view.rows.node(view.selection)) >= 0 else None
        if not self._asked:
            self.cursor = self._of_row(view, view.selection) or NOWHERE
            self.file = self.cursor.file or self._here.file or self.file or self._call.file

    def _of_row(self, view: View, row: int) -> Place | None:
        """The line that a row comes from; of a group the step run last, or its last one; None where that is not known."""
        if row == 0:
            return self._call
        assert view.rows is not None
        assert view.tape is not None
        first, last, node = view.rows.first(row), view.rows.last(row), view.rows.node(row)
        if last <= 0:
            return self._call
        at = last if view.playhead < first else min(view.playhead, last)
        nodes = [node] if node >= 0 else map(view.tape.node_at, range(at, max(first, at - ORIGIN_SOUGHT) - 1, -1))
        origins = map(view.tape.graph.origin, nodes)
        return next((Place(origin.file, origin.line) for origin in origins if origin is not None and origin.line), None)

    # ------------------------------------------------------------ the cursor

    def turn_to(self, file: str) -> None:
        """Show another file, the cursor on the line of it that ran last."""
        view = self._view
        if view is None or view.tape is None:
            return
        lines = SourceLines.of(view.tape.graph, view.tape)
        ran = max(lines.lines(file), key=lambda line: _last_run(lines, file, line, view.playhead), default=0)
        self.file = file
        self._put(Place(file, ran or (self._call.line if self._call.file == file else 0)), view)

    def move(self, lines: int) -> None:
        """Move the cursor; the selection goes along to the row of what the line made."""
        view, count = self._view, len(self._text)
        if view is None or not count:
            return
        at = self._text.row(self.cursor.line) if self.cursor.file == self.file else -1
        row = min(max(0, at + lines if at >= 0 else self.first_row), count - 1)
        while row < count - 1 and self._text.line(row) == REMARK:
            row += 1
        place = Place(self.file, self._text.line(row))
        node = self._node(place)
        if node is not None and view.tape is not None and view.rows is not None and (step := view.tape.step_of(node)):
            self._asked.add(view.rows.row_of_step(step))
            self.post_message(RowSelected(view.rows.row_of_step(step)))
        self._put(place, view)

    def _put(self, place: Place, view: View) -> None:
        self._asked.add(view.selection)
        self.cursor = place
        self._draw_anew(view)

    def other_node(self, direction: int) -> None:
        """Select the next or the previous of the nodes that the cursor's line made, in the order in which they run."""
        view = self._view
        if view is None or view.tape is None:
            self.post_message(Said(NO_PASS))
            return
        steps = SourceLines.of(view.tape.graph, view.tape).steps(*self.cursor)
        node = self._node(self.cursor)
        at = 0 if node is None else view.tape.step_of(node)
        place = bisect_right(steps, at) if direction > 0 else bisect_left(steps, at) - 1
        if 0 <= place < len(steps):
            self.post_message(NodeWanted(view.tape.node_at(steps[place])))
        elif not steps:
            self.post_message(Said(NO_NODE))
        elif len(steps) == 1:
            self.post_message(Said("the only node of this line"))
        else:
            self.post_message(Said(f"the {'last' if direction > 0 else 'first'} of this line's {len(steps):,} nodes"))

    def open(self) -> None:
        """The playhead jumps to what the cursor's line made."""
        view, node = self._view, self._node(self.cursor)
        if node is not None:
            self.post_message(NodeWanted(node, run=True))
        elif self.cursor == self._call and view is not None and view.tape is not None and not self._without_call:
            self.post_message(StepWanted(0))
        else:
            self.post_message(Said(NO_PASS if view is None or view.tape is None else NO_NODE))

    def _node(self, place: Place) -> int | None:
        """The node that a line stands for: the selected one, else the one that ran last, else the first that will."""
        view = self._view
        if view is None or view.tape is None:
            return None
        if self._chosen is not None and self._line_of(self._chosen) == place:
            return self._chosen
        return node_of(view.tape, place.file, place.line, view.playhead)

    def _line_of(self, node: int) -> Place:
        assert self._view is not None
        assert self._view.tape is not None
        origin = self._view.tape.graph.origin(node)
        return NOWHERE if origin is None else Place(origin.file, origin.line)

    def clicked(self, row: int, column: int, event: events.Click) -> None:
        view, place = self._view, Place(self.file, self._text.line(row))
        node = node_of(view.tape, *place, view.playhead) if view is not None and view.tape is not None else None
        if node is not None:
            self.post_message(NodeWanted(node, run=event.chain == 2))
        elif view is not None and place.line != REMARK:
            self._put(place, view)

    # ------------------------------------------------------------ lines

    def draw(self, row: int, width: int) -> Strip:
        number = self._text.line(row)
        if number == REMARK:
            return Line().to(FIXED).add(self._text.text(row), colours.warning if not row else colours.muted).strip(width)
        place = Place(self.file, number)
        here, selected = place == self._here and self._tape is not None, place == self.cursor
        line = self._gutter(place, here, selected)
        line.right(str(number), self._digits, colours.strong_accent if here else colours.muted).add("  ")
        text = self._text.text(row).expandtabs(TAB)
        comment = text.lstrip().startswith("#")
        style = colours.muted if comment else colours.strong if here else colours.text
        beside = self._mark(place, here, selected)
        if beside is None:
            return line.left(text, width - line.width, style).strip(width)
        line.add(fit(text, self._column) if cells(text) > self._column else text.ljust(self._column), style).add(" ")
        shade = colours.accent if beside.sign == RUN else colours.seed if beside.sign == SEED else colours.muted
        return line.add(f"{beside.sign} {beside.text(width - line.width - 3)}", shade).strip(width)

    def _gutter(self, place: Place, here: bool, selected: bool) -> Line:
        """`▶` and `›` at the very lines, `│` at the other lines of their statements."""
        flag, line = self._flag(place), Line()
        if here or selected:
            line.add(PLAYHEAD if here else CURSOR, colours.strong_accent)
            return line.add(flag, colours.strong_warning) if flag else line.add(" ")
        for cursor, style in ((self._here, colours.accent), (self.cursor, colours.muted)):
            if cursor.file == self.file and cursor.line:
                first, last = self._text.around(cursor.line)
                if first <= place.line <= last:
                    return line.add("│", style).add(flag, colours.strong_warning) if flag else line.add("│ ", style)
        return line.add(" ").add(flag, colours.strong_warning) if flag else line.add("  ")

    def _flag(self, place: Place) -> str:
        """`E` or `W` at a line that a finding names."""
        return Flagged.of(self._view.findings, self._tape).line(*place) if self._view is not None else ""

    def _mark(self, place: Place, here: bool, selected: bool = False) -> Mark | None:
        view, tape = self._view, self._tape
        if place == self._call and self._call.line:
            if self._without_call:
                failed = self._view is not None and self._view.stop is not None and self._view.stop.reason == "error"
                return Mark(" ", ("the script failed here" if failed else "the script stands here",), short="here")
            return Mark(
                SEED, ("seed" if tape is not None else "backward call",), short="seed" if tape is not None else "backward"
            )
        if tape is None or view is None:
            return self._calls.get(place.line)
        chosen = self._chosen if selected and self._chosen is not None and self._line_of(self._chosen) == place else None
        return mark(tape, place.file, place.line, view.playhead, here, chosen)

    def _marks_column(self) -> int:
        """Marks stand in one column, right of the longest line that has one."""
        marked = set(self._calls)
        if self._tape is not None:
            marked.update(line for line in marked_lines(self._tape, self.file) if self._mark(Place(self.file, line), here=False))
        if self._call.file == self.file:
            marked.add(self._call.line)
        rows = filter(lambda row: row >= 0, map(self._text.row, marked))
        longest = max((cells(self._text.text(row).expandtabs(TAB)) for row in rows), default=0)
        return max(8, min(longest, self.size.width - FIXED - self._digits - MARK_ROOM))

    @property
    def _tape(self) -> Tape | None:
        return self._view.tape if self._view is not None else None

    @property
    def _digits(self) -> int:
        return max(2, len(str(self._text.line(len(self._text) - 1)))) if len(self._text) else 2


def _last_run(lines: SourceLines, file: str, line: int, playhead: int) -> tuple[int, int]:
    """For the line of a file that ran last; before any has, the one that runs first."""
    steps = lines.steps(file, line)
    done = bisect_right(steps, playhead)
    return (steps[done - 1], 0) if done else (0, -steps[0] if steps else -(1 << 62))
