"""The signs on the screen, and their ASCII stand-ins.

Everything is drawn with the signs below. `--ascii` puts one filter between the widgets and the terminal that swaps each for one
ASCII character, so no widget has to know of it; that covers scroll bars and borders too.
"""

from __future__ import annotations

import locale

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

PLAYHEAD = "▶"
CURSOR = "›"
"""The selected row, where the playhead stands elsewhere."""
NOW = "◀"
RUN, PENDING, LEAF, SEED = "●", "○", "◇", "▽"
FOLDED, UNFOLDED = "▸", "▾"
NOTHING = "·"
"""A value that is not there yet."""
BAR, HALF_BAR = "━", "╸"
CHECK, CROSS = "✓", "✗"
ELLIPSIS = "…"
BREAK = "◆"
WATCHED = "◉"

_PAIRS = {
    **{"▶": ">", "›": "*", "◀": "<", "●": "@", "○": "o", "◇": "#", "▽": "v", "▸": "+", "▾": "-", "◆": "B", "◉": "W"},
    **{"·": ".", "━": "=", "╸": "-", "✓": "Y", "✗": "X", "…": "~", "‖": "|", "∂": "d", "Δ": "D", "×": "x", "→": ">", "←": "<"},
    **{"↑": "^", "↓": "!", "⟂": "T", "─": "-", "│": "|", "╮": "\\", "╯": "/", "╭": "/", "╰": "\\", "┤": "+", "├": "+", "┼": "+"},
    **{"┬": "+", "┴": "+", "┌": "+", "┐": "+", "└": "+", "┘": "+", "≤": "<", "≥": ">", "≈": "~", "≠": "!", "−": "-", "–": "-"},
    **{"—": "-", "’": "'", "‘": "'", "“": '"', "”": '"', "∞": "8", "Σ": "S", "√": "V", "∇": "V", "ε": "e", "π": "p"},
    **{"²": "2", "³": "3", "ᵀ": "T", "ᴴ": "H"},
    **{"▁": "_", "▂": "_", "▃": ".", "▄": ".", "▅": ":", "▆": ":", "▇": "#", "█": "#", "▏": "|", "▎": "|", "▍": "|", "▌": "|"},
    **{"▔": "-", "▕": "|", "▐": "|", "▀": "^", "░": ".", "▒": ":", "▓": "#", "╺": "-", "╴": "-", "╶": "-", "┃": "|", "║": "|"},
    **{"┏": "#", "┓": "#", "┗": "#", "┛": "#", "┻": "#", "┳": "#"},
}
_TABLE = {ord(sign): ascii_sign for sign, ascii_sign in _PAIRS.items()}


def to_ascii(text: str) -> str:
    """Each cell of the text as one ASCII character; what has no stand-in becomes `?`."""
    if text.isascii():
        return text
    swapped = text.translate(_TABLE)
    return swapped if swapped.isascii() else "".join(c if c.isascii() else "?" * cell_len(c) for c in swapped)


def wants_ascii() -> bool:
    """Whether the terminal's locale cannot show the signs; of the locale itself, which Python's UTF-8 mode passes over."""
    return locale.nl_langinfo(locale.CODESET).lower().replace("-", "") != "utf8"


class AsciiFilter(LineFilter):
    """Swaps every sign of every line on its way to the terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [segment if segment.text.isascii() else Segment(to_ascii(segment.text), segment.style) for segment in segments]
