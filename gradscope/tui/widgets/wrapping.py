"""The rows that a terminal's lines take where the pane is narrower than the terminal."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from rich.segment import Segment

from gradscope.session.terminal import Style, Terminal
from gradscope.tui.widgets.line import cells

Pieces = Sequence[tuple[str, Style]]

Row = tuple[int, int]
"""(line, first cell of it); lines are counted from the first that the script ever wrote"""

MARK, MARKED = "pass ", Style(bold=True, marked=True)
"""stands before what an exploring pass printed, in a style of its own"""


class Wrapping:
    """Rows of all lines, kept up to date: lines in the scrollback are measured once."""

    def __init__(self) -> None:
        self._width = 1
        self._rows: list[Row] = []
        self._settled = 0
        """lines that had gone into the scrollback when they were last measured"""

    def update(self, terminal: Terminal, width: int) -> None:
        """Measure what is new."""
        if width != self._width or terminal.settled < self._settled:
            self._width, self._rows, self._settled = width, [], terminal.dropped
        del self._rows[bisect_left(self._rows, (self._settled, 0)) :]
        del self._rows[: bisect_left(self._rows, (terminal.dropped, 0))]
        for line in range(max(self._settled, terminal.dropped), terminal.dropped + len(terminal)):
            width_of_line = sum(cells(text) for text, _ in pieces(terminal, line))
            self._rows += [(line, start) for start in range(0, max(1, width_of_line), self._width)]
        self._settled = terminal.settled

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, number: int, terminal: Terminal) -> list[tuple[str, Style]]:
        """What stands in one row."""
        line, start = self._rows[number]
        cut, at = [], 0
        for text, style in pieces(terminal, line):
            end = at + cells(text)
            if end > start and at < start + self._width:
                _, inside = Segment(text).split_cells(max(0, start - at))
                inside, _ = inside.split_cells(start + self._width - max(at, start))
                cut.append((inside.text, style))
            at = end
        return cut

    def cursor(self, terminal: Terminal) -> Row:
        """Row and cell of the script's cursor."""
        line, column = terminal.cursor
        line += terminal.dropped
        row = max(0, bisect_right(self._rows, (line, column)) - 1)
        if self._rows and self._rows[row][0] == line:
            return row, min(column - self._rows[row][1], self._width - 1)
        return len(self._rows), 0


def pieces(terminal: Terminal, line: int) -> Pieces:
    """A line with the mark before what an exploring pass printed."""
    parts = terminal.line(line - terminal.dropped)
    return ((MARK, MARKED), *parts) if parts and parts[0][1].marked else parts
