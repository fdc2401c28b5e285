"""The script's terminal: what its output looks like, and the output itself for the person's own terminal afterwards."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pyte import ByteStream
    from pyte.screens import Char

SCROLLBACK = 10_000
"""lines kept above the screen"""

BACKLOG = 1 << 18
"""bytes that wait to be interpreted; beyond, the oldest are skipped: pyte does half a megabyte a second"""

LOG = 4 << 20
"""bytes of output kept for the person's own terminal"""

_CHUNK = 1 << 12

_MARKED = "marked"
"""a colour that no script can ask for: it goes through pyte with the characters that an exploring pass printed"""


@dataclass(frozen=True, slots=True)
class Style:
    """How a piece of a line is written. Colours are pyte's: `default`, a name, or six hexadecimal digits."""

    fg: str = "default"
    bg: str = "default"
    bold: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False
    reverse: bool = False
    marked: bool = False
    """written by an exploring pass, not by the script's own run"""


Line = tuple[tuple[str, Style], ...]
"""pieces of one style each, without the blanks at the end"""


class Log:
    """The newest bytes of a stream, cut at the start of a line."""

    def __init__(self, limit: int = LOG) -> None:
        self.limit = limit
        self.omitted = 0
        """bytes that are gone"""
        self._chunks: deque[bytes] = deque()
        self._size = 0

    def append(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        while self._size > self.limit and len(self._chunks) > 1:
            self._drop(len(self._chunks.popleft()))
        if self._size > self.limit:
            kept = self._chunks.pop()[-self.limit :]
            self._drop(self._size - len(kept))
            self._chunks.append(kept)

    def write(self, stream: BinaryIO) -> None:
        """Write what is kept, and say so when there was more."""
        data = b"".join(self._chunks)
        if self.omitted:
            cut = data.find(b"\n") + 1
            stream.write(f"… {self.omitted + cut:,} bytes of earlier output are left out\r\n".encode())
            data = data[cut:]
        stream.write(data)

    def _drop(self, size: int) -> None:
        self.omitted += size
        self._size -= size


class Terminal:
    """A screen with scrollback, fed with what the script writes to its pty.

    `feed` is cheap; `catch_up` interprets what has come, for a bounded time, so that a script that prints megabytes never holds
    up the person's keys.
    """

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        from pyte import ByteStream

        from gradscope.session.screen import Screen

        self.log = Log()
        self.reply: Callable[[bytes], None] = lambda data: None
        """answers that the script's terminal gives by itself (cursor position): to be written to the pty"""
        self.version = 0
        """changes when the picture does"""
        self.dropped = 0
        """lines that are no longer kept: line 0 is the one after these"""
        self._history: deque[Line] = deque(maxlen=SCROLLBACK)
        self._backlog = bytearray()
        self._screen = Screen(columns, rows, lambda: self._keep(0), lambda data: self.reply(data))
        self._new_stream: Callable[[], ByteStream] = lambda: ByteStream(self._screen)
        self._stream = self._new_stream()

    # ------------------------------------------------------------ in

    def feed(self, data: bytes) -> None:
        """Take what the script wrote."""
        self.log.append(data)
        self._backlog += data
        if len(self._backlog) > BACKLOG:
            cut = self._backlog.find(b"\n", len(self._backlog) - BACKLOG // 2) + 1 or len(self._backlog) - BACKLOG // 2
            del self._backlog[:cut]
            self._backlog[:0] = f"\x1b[0m\r\n… {cut:,} bytes were too fast to show\r\n".encode()

    def catch_up(self, seconds: float = 0.02) -> bool:
        """Interpret what has come, for about so long; True when there is more to do."""
        until = time.monotonic() + seconds
        while self._backlog and time.monotonic() < until:
            chunk = bytes(self._backlog[:_CHUNK])
            del self._backlog[:_CHUNK]
            self._interpret(chunk)
        return bool(self._backlog)

    def mark(self, text: str) -> None:
        """Show what an exploring pass printed: on lines of its own, marked, and not in the log."""
        while self.catch_up(1.0):
            pass
        cursor = self._screen.cursor
        before, cursor.attrs = cursor.attrs, cursor.attrs._replace(fg=_MARKED)
        start = "\r\n" if cursor.x else ""
        self._interpret((start + "".join(f"{line}\r\n" for line in text.splitlines())).encode())
        cursor.attrs = before

    def resize(self, rows: int, columns: int) -> None:
        """Give the screen another size; lines that no longer fit go up into the scrollback, none is lost."""
        for _ in range(max(0, self._used_rows - rows)):
            self._keep(0)
            self._screen.drop_top()
        if rows < self._screen.lines:
            self._screen.drop_bottom(rows)
        self._screen.resize(rows, columns)
        self.version += 1

    # ------------------------------------------------------------ out

    def __len__(self) -> int:
        """Lines there are to show: the scrollback, and the screen down to the last line that was written to."""
        return len(self._history) + self._used_rows

    @property
    def settled(self) -> int:
        """Lines, with those that are no longer kept, that have left the screen: they do not change any more."""
        return self.dropped + len(self._history)

    def line(self, number: int) -> Line:
        """One line, 0 the oldest kept."""
        if number < len(self._history):
            return self._history[number]
        return self._pieces(number - len(self._history))

    @property
    def cursor(self) -> tuple[int, int]:
        """(line, column) of the script's cursor, the line as in `line`."""
        return len(self._history) + self._screen.cursor.y, self._screen.cursor.x

    @property
    def text(self) -> str:
        """Everything as plain text."""
        lines = ("".join(piece for piece, _ in self.line(number)) for number in range(len(self)))
        return "\n".join(lines)

    # ------------------------------------------------------------ inside

    def _interpret(self, chunk: bytes) -> None:
        self.version += 1
        try:
            self._stream.feed(chunk)
        except Exception:  # pyte trips over some rare sequences; a script may write any bytes, the rest must still be shown
            self._stream = self._new_stream()

    def _keep(self, row: int) -> None:
        self.dropped += len(self._history) == SCROLLBACK
        self._history.append(self._pieces(row))

    @property
    def _used_rows(self) -> int:
        written = (y for y, line in self._screen.buffer.items() if any(char.data.strip() for char in line.values()))
        return max(self._screen.cursor.y + bool(self._screen.cursor.x), max(written, default=-1) + 1)

    def _pieces(self, row: int) -> Line:
        line = self._screen.buffer.get(row)
        if not line:
            return ()
        chars = [line.get(x, self._screen.default_char) for x in range(max(line) + 1)]
        while chars and chars[-1].data == " " and chars[-1].bg == "default" and not chars[-1].reverse:
            chars.pop()
        return tuple(("".join(char.data for char in run), style) for style, run in groupby(chars, _style))


def _style(char: Char) -> Style:
    marked = char.fg == _MARKED
    fg = "default" if marked else char.fg
    return Style(fg, char.bg, char.bold, char.italics, char.underscore, char.strikethrough, char.reverse, marked)
