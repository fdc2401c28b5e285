"""The tab of the script's terminal: its output with its colours, wrapped where the pane is narrower, and its input."""

from __future__ import annotations

from collections.abc import Hashable

from rich.color import ColorParseError
from rich.style import Style
from textual import events
from textual.strip import Strip

from gradscope.session import terminal
from gradscope.session.terminal import Terminal
from gradscope.session.view import State, View
from gradscope.tui import colours
from gradscope.tui.messages import InputTyped
from gradscope.tui.pane import Pane
from gradscope.tui.widgets.line import Line
from gradscope.tui.widgets.virtual_list import VirtualList
from gradscope.tui.widgets.wrapping import MARKED, Wrapping

KEYS = {
    "enter": b"\r",
    "tab": b"\t",
    "shift+tab": b"\x1b[Z",
    "backspace": b"\x7f",
    "delete": b"\x1b[3~",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "insert": b"\x1b[2~",
}
"""what a terminal sends for keys that are no characters; ctrl+letter is made"""

TALKING = {State.STARTING, State.RUNNING, State.STOPPED}
"""states in which there is a script to type to"""

_NAMES = {"brown": "yellow", "brightbrown": "bright_yellow"}
"""pyte's names of colours that rich calls otherwise"""


class Output(VirtualList, can_focus=True):
    """Follows the newest line while it is in sight. Has the focus only while the person types to the script."""

    def __init__(self, id: str | None = "output") -> None:
        super().__init__(id)
        self.terminal: Terminal | None = None
        self._version = -1
        self._rows = Wrapping()
        self._state = State.STARTING

    def attach(self, terminal: Terminal) -> None:
        """Draw this terminal from now on."""
        self.terminal, self._version = terminal, -1
        self.follow()

    def show(self, view: View) -> None:
        """Draw this state."""
        self._state = view.state
        self.follow()

    def follow(self) -> None:
        """Draw what came since; cheap when nothing did."""
        if self.terminal is None or self.terminal.version == self._version or not self.size.width:
            return
        at_end = self.first_row + self.page >= self.count
        self._version = self.terminal.version
        self.set_count(self._wrap(self.terminal))
        self.redraw()
        if at_end:
            self.scroll_end(animate=False, force=True)

    def _wrap(self, terminal: Terminal) -> int:
        """Wrap at the width that is drawn: the scroll bar, where there is one, covers the last cells. Gives the count of rows."""
        width, height = self.size
        bar = self.styles.scrollbar_size_vertical
        for room in (width, width - bar) if len(terminal) <= height else (width - bar,):
            self._rows.update(terminal, max(1, room))
            count = max(len(self._rows), self._rows.cursor(terminal)[0] + 1 if self.has_focus else 0)
            if count <= height:
                break
        return count

    def move(self, rows: int) -> None:
        """Scroll."""
        self.scroll_relative(y=rows, animate=False)

    @property
    def can_type(self) -> bool:
        return self.terminal is not None and self._state in TALKING

    # ------------------------------------------------------------ keys

    def on_key(self, event: events.Key) -> None:
        """Everything goes to the script, except Esc, which leaves, and Ctrl-C, which is gradscope's."""
        if event.key == "ctrl+c":
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            panes = (node for node in self.ancestors if isinstance(node, Pane))
            self.screen.set_focus(next(panes, None))
            return
        if data := typed(event):
            self.post_message(InputTyped(data))

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.post_message(InputTyped(event.text.replace("\n", "\r").encode()))

    def on_focus(self) -> None:
        self._version = -1
        self.follow()
        self.scroll_end(animate=False, force=True)

    def on_blur(self) -> None:
        self._version = -1
        self.follow()

    # ------------------------------------------------------------ drawing

    def on_resize(self) -> None:
        self._version = -1
        self.follow()

    def variant(self, row: int) -> Hashable:
        return self.has_focus and self.terminal is not None and self._rows.cursor(self.terminal)[0] == row

    def draw(self, row: int, width: int) -> Strip:
        if self.terminal is None:
            return Strip.blank(width)
        line = Line()
        if row < len(self._rows):
            for text, style in self._rows.row(row, self.terminal):
                line.add(text, colours.strong_warning if style == MARKED else rich_style(style))
        strip = line.strip(width)
        at, column = self._rows.cursor(self.terminal)
        if self.has_focus and at == row and column < width:
            before, cursor, after = strip.divide([column, column + 1, width])
            return Strip.join([before, cursor.apply_style(Style(reverse=True)), after])
        return strip


def typed(event: events.Key) -> bytes:
    """What a terminal sends for a key."""
    if event.key in KEYS:
        return KEYS[event.key]
    if event.key.startswith("ctrl+") and len(event.key) == 6 and event.key[5].isalpha():
        return bytes([ord(event.key[5].lower()) - 96])
    return event.character.encode() if event.character else b""


def rich_style(style: terminal.Style) -> Style:
    """A terminal's style as rich has it; unknown colours are left out."""
    made = Style(
        bold=style.bold or None,
        italic=style.italic or style.marked or None,
        underline=style.underline or None,
        strike=style.strike or None,
        reverse=style.reverse or None,
        dim=style.marked or None,
    )
    for name, colour in (("color", style.fg), ("bgcolor", style.bg)):
        if colour == "default":
            continue
        try:
            made += Style.parse(("on " if name == "bgcolor" else "") + colour_name(colour))
        except (ColorParseError, ValueError):
            continue
    return made


def colour_name(colour: str) -> str:
    """pyte: `red`, `brightred`, `brown`, `ff8700`; rich: `red`, `bright_red`, `yellow`, `#ff8700`."""
    if len(colour) == 6 and all(digit in "0123456789abcdefABCDEF" for digit in colour):
        return f"#{colour}"
    if colour in _NAMES:
        return _NAMES[colour]
    return f"bright_{colour[6:]}" if colour.startswith("bright") else colour
