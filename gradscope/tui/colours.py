"""The few colours there are. None carries a meaning alone: a glyph or a word stands beside each."""

from __future__ import annotations

from rich.style import Style

MUTED = "#8a93a6"
TEXT = "#e0e0e0"
ACCENT = "#7fd1ff"
SEED = "#d2a8ff"
LEAF = "#8fd694"
WARNING = "#ffb454"
ERROR = "#ff7b72"
BAR = "#5b9bd5"
SELECTED = "#24405c"
"""background of the selected row"""

plain = Style()
bold = Style(bold=True)
muted = Style(color=MUTED)
text = Style(color=TEXT)
strong = Style(color=TEXT, bold=True)
accent = Style(color=ACCENT)
strong_accent = Style(color=ACCENT, bold=True)
seed = Style(color=SEED)
leaf = Style(color=LEAF)
strong_leaf = Style(color=LEAF, bold=True)
warning = Style(color=WARNING)
strong_warning = Style(color=WARNING, bold=True)
error = Style(color=ERROR)
bar = Style(color=BAR)
