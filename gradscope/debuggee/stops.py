"""Which backward calls stop the script."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from gradscope.debuggee.source_text import Statement, parse, statement_at

_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+)")


@dataclass(frozen=True, slots=True)
class Place:
    """FILE:LINE as a person gives it."""

    file: str
    line: int

    @classmethod
    def parse(cls, text: str) -> Place | None:
        found = _PLACE.fullmatch(text)
        return None if found is None else cls(found["file"], int(found["line"]))

    def is_in(self, file: str) -> bool:
        """`train.py` and `src/train.py` mean a file of that name in whatever folder, unless the path leads to one."""
        wanted = os.path.abspath(self.file)
        if os.path.exists(wanted):
            return file == wanted or os.path.realpath(file) == os.path.realpath(wanted)
        return file.endswith("/" + self.file)

    def statement(self, file: str) -> Statement:
        """The statement to stop at in `file`, which is this place's."""
        module = parse(file)
        found = None if module is None else statement_at(module, self.line)
        return found or Statement(self.line, self.line, False)


class Stops:
    """Decides for each backward call. A stop uses up what it was asked for."""

    def __init__(self, stop_at: str) -> None:
        self.place: Place | None = None
        """the line that is waited for"""
        self._number: int | None = None
        """the call that stops, 0 for any"""
        self.errors = stop_at != "never"
        """an exception that ends the script stops it"""
        self.set(stop_at)

    def set(self, stop_at: str) -> None:
        """Take `first`, `next`, `never`, `break`, a call's number or FILE:LINE."""
        self.place = Place.parse(stop_at)
        if stop_at in ("first", "next"):
            self._number = 0
        elif stop_at.isdecimal():
            self._number = int(stop_at)
        else:
            self._number = None

    def soon(self) -> None:
        """Stop at the next call, whatever was asked before."""
        self._number = 0

    def at(self, call: int) -> bool:
        """Does the backward call of this number stop?"""
        return self._number is not None and self._number in (0, call)

    def reached(self, call: int) -> bool:
        """Is this the call that was waited for, or a later one?"""
        return self.place is None and (self._number is None or call >= self._number)

    @property
    def wanted(self) -> bool:
        """A person waits for a stop."""
        return self._number is not None or self.place is not None
