"""One line of the screen, built cell by cell."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gradscope.tui import colours

ELLIPSIS = "…"


class Line:
    """Builds one line cell by cell; each piece ends at a column, so that columns stand whatever is in them."""

    __slots__ = ("_segments", "width")

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self.width = 0

    def add(self, text: str, style: Style = colours.text) -> Line:
        """Append text."""
        if text:
            self._segments.append(Segment(text, style))
            self.width += cells(text)
        return self

    def left(self, text: str, width: int, style: Style = colours.text) -> Line:
        """Append text in a column of this width, cut with an ellipsis."""
        return self.add(fit(text, width), style)

    def right(self, text: str, width: int, style: Style = colours.text) -> Line:
        """Append text at the right of a column of this width."""
        return self.add(" " * (width - cells(text)) + fit(text, min(width, cells(text))), style)

    def to(self, column: int) -> Line:
        """Blanks up to a column."""
        return self.add(" " * (column - self.width)) if column > self.width else self

    def strip(self, width: int, background: Style | None = None) -> Strip:
        """The finished line, of exactly this width."""
        strip = Strip(self._segments, self.width).crop_extend(0, width, None)
        return strip.apply_style(background) if background else strip


def cells(text: str) -> int:
    """How many cells the text takes."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int) -> str:
    """The text in exactly this many cells: padded, or cut with an ellipsis."""
    length = cells(text)
    if length <= width:
        return text + " " * (width - length)
    if width <= 0:
        return ""
    cut, _ = Segment(text).split_cells(width - 1)
    return cut.text + ELLIPSIS
