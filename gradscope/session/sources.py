"""The text of the files that origins and calls speak of, read once."""

from __future__ import annotations

import tokenize
from collections.abc import Callable, Iterable, Mapping


class Sources:
    """Reads local files; what is no file (`<string>`, an interactive cell) is asked of the debuggee."""

    def __init__(self, ask: Callable[[str], bool]) -> None:
        self.lines: dict[str, list[str]] = {}
        """replaced by a new dict when it changes, so that a pane can tell"""
        self._ask = ask
        """False when nobody can be asked now"""
        self._asked: set[str] = set()

    def add(self, texts: Mapping[str, str]) -> None:
        if texts:
            self.lines = {**self.lines, **{file: text.splitlines() for file, text in texts.items()}}

    def want(self, files: Iterable[str]) -> None:
        """Read what is not here yet."""
        for file in files:
            if not file or file in self.lines or file in self._asked:
                continue
            try:
                with tokenize.open(file) as source:
                    self.add({file: source.read()})
            except (OSError, SyntaxError, UnicodeDecodeError):
                if self._ask(file):
                    self._asked.add(file)

    def text(self, file: str) -> str | None:
        lines = self.lines.get(file)
        return None if lines is None else "\n".join(lines) + "\n"
