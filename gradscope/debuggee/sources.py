"""The text of the files that a stop speaks of, sent once each."""

from __future__ import annotations

import linecache
from collections.abc import Iterable

from gradscope.debuggee.link import Link
from gradscope.debuggee.source_text import read
from gradscope.protocol.messages import Source

_BIGGEST = 4 << 20
"""characters"""


class Sources:
    """Remembers what the session has."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._sent: set[str] = set()

    def send(self, files: Iterable[str]) -> None:
        """Send those that have not been sent. A file that cannot be read is left out: the screen says so itself."""
        for file in files:
            if file and file not in self._sent:
                self._sent.add(file)
                text = source(file)
                if text is not None and len(text) <= _BIGGEST:
                    self._link.send(Source(file, text))


def source(file: str) -> str | None:
    """The text of a file; also of one that exists only in Python's line cache, as notebooks and `exec` make them."""
    text = read(file)
    if text is None and file in linecache.cache:
        text = "".join(linecache.getlines(file))
    return text
