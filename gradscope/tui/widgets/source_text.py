"""What the Source pane has of a file: its lines, or where its text is not here the statements that are known of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradscope.model.source_lines import SourceLines
from gradscope.model.statement_lines import StatementLines
from gradscope.model.tape import Tape

if TYPE_CHECKING:
    from gradscope.session.view import View

REMARK = 0
"""in place of a line number: no line of the file"""


class SourceText:
    """Rows of the pane, each with the number of its line."""

    def __init__(self, file: str, lines: Sequence[str] | None, tape: Tape | None = None, call: tuple[int, str] = (0, "")) -> None:
        self.file = file
        self.lines: Sequence[str] = lines or ()
        self.missing = bool(file) and not lines
        self._known: list[tuple[int, str]] = _known(file, tape, call) if self.missing else []

    def __len__(self) -> int:
        return len(self._known) if self.missing else len(self.lines)

    def line(self, row: int) -> int:
        """The line in a row; REMARK for none."""
        return self._known[row][0] if self.missing else row + 1

    def text(self, row: int) -> str:
        return self._known[row][1] if self.missing else self.lines[row]

    def row(self, line: int) -> int:
        """The row of a line; -1 where it is not here."""
        if not self.missing:
            return line - 1 if 0 < line <= len(self.lines) else -1
        return next((row for row, (number, _) in enumerate(self._known) if number == line), -1)

    def around(self, line: int) -> tuple[int, int]:
        """First and last line of the statement that a line belongs to."""
        return _statements(self.file, self.lines).around(line)


_parsed: dict[str, tuple[Sequence[str], StatementLines]] = {}
"""by file: the text that was parsed, and its statements; the pass goes to and fro between files"""


def _statements(file: str, lines: Sequence[str]) -> StatementLines:
    text, statements = _parsed.get(file, ((), None))
    if statements is None or text is not lines:
        statements = StatementLines(lines)
        _parsed[file] = lines, statements
    return statements


def _known(file: str, tape: Tape | None, call: tuple[int, str]) -> list[tuple[int, str]]:
    """The statements that made nodes, and the line and code of the backward call where it is in this file."""
    lines = SourceLines.of(tape.graph, tape) if tape is not None else None
    known = {line: lines.code(file, line) for line in lines.lines(file)} if lines is not None else {}
    if call[0]:
        known.setdefault(*call)
    rows = [(REMARK, f"the text of {file} is not here")]
    if known:
        rows += [(REMARK, "what is known of it:"), *sorted(known.items())]
    return rows


def files(view: View) -> list[str]:
    """The files that the pass goes through, the one that made most nodes first; with that of the call."""
    made = SourceLines.of(view.tape.graph, view.tape).files if view.tape is not None else []
    call = view.stop.call.file if view.stop is not None else ""
    return list(dict.fromkeys([*made, *([call] if call else [])]))


def short_name(file: str, among: Sequence[str]) -> str:
    """`model.py`; `nets/model.py` where another of the files has the same name."""
    name = os.path.basename(file)
    alike = sum(os.path.basename(other) == name for other in among)
    return os.path.join(os.path.basename(os.path.dirname(file)), name) if alike > 1 else name


def script_file(view: View) -> str:
    """The script's own key in the sources, which name files in full where they can."""
    if view.script in view.sources:
        return view.script
    full = os.path.abspath(view.script)
    return full if full in view.sources else next(iter(view.sources), "")
