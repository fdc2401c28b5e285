"""Lines whose events are switched off run unseen: what is made meanwhile must not be given to the line that was seen last.

Nothing tells how often such lines run, but their first run is told: their events are turned on again before a line that makes
nodes, and the first event that comes of them says that from now on they may be running, until they are turned on once more. While
one may be running, nobody knows whose the nodes are that appear: they are given to no line. A line that is found with a tensor is
never switched off again, nor is one of those that may have made nodes unseen, nor one whose events are turned on too often.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from time import perf_counter
from types import CodeType, FrameType
from typing import Protocol

_SOON = 0.002
"""Seconds: code whose events would be turned on again sooner than this keeps them, which then costs less."""
_YOUNG = 8
"""Times that a line which has made nothing so far is asked whether it may make a node."""
_WHOLE = 0
"""in the place of a line: all of the code"""


class Line(Protocol):
    """Whether a line can make a node."""

    def may_make(self, frame: FrameType, line: int) -> bool:
        """As things stand in the frame; with line 0 the whole code."""

    def never_makes(self, code: CodeType, line: int) -> bool:
        """Whatever its variables hold."""


class Resting:
    """The lines that are switched off, and of which code they may be running."""

    __slots__ = ("_armed", "_asked", "_awake", "_codes", "_lines", "_makers", "_restart", "_switch", "left", "off", "unseen")

    def __init__(self, lines: Line, switch: Callable[[CodeType, bool], None], restart: Callable[[], None]) -> None:
        """
        Args:
            lines: which lines can make nodes.
            switch: turns the events of a code object on, also those that were disabled, or off.
            restart: turns on again whatever was disabled.
        """
        self._lines = lines
        self._switch = switch
        self._restart = restart
        self.off: dict[int, set[int]] = {}
        """by the id of a code object, its lines that are switched off"""
        self.left: set[int] = set()
        """the ids of code that is switched off as a whole"""
        self.unseen: set[int] = set()
        """the ids of code that has lines switched off which may be running"""
        self._codes: dict[int, weakref.ref[CodeType]] = {}
        self._awake: set[int] = set()
        self._makers: set[tuple[int, int]] = set()
        self._asked: dict[tuple[int, int], int] = {}
        self._armed: dict[int, float] = {}

    def goes_off(self, code: CodeType, line: int, frame: FrameType) -> bool:
        """Whether a line that has often made nothing is switched off from now on; line 0 is the whole code."""
        number = id(code)
        if number in self._awake or self._lines.may_make(frame, line):
            return False
        self.off.setdefault(number, set()).add(line)
        self._codes[number] = weakref.ref(code)
        if line == _WHOLE:
            self.left.add(number)
        self._run_unseen(code)
        return True

    def stays_off(self, code: CodeType, line: int, frame: FrameType) -> bool:
        """Whether a line that is about to run is one that was switched off, and is so again."""
        number = id(code)
        if number in self.left:
            line = _WHOLE
        elif line not in self.off[number]:
            return False
        if self._lines.may_make(frame, line):
            self._wake(number)
            return False
        self._run_unseen(code)
        return True

    def made(self, code: CodeType | None, at: int) -> None:
        """A line, or what comes after an instruction of it, has made nodes."""
        self._makers.add((id(code), at))

    def prepare(self, code: CodeType, at: int, frame: FrameType) -> None:
        """Code stands at a line and some may be running unseen. If the line makes nodes, know from now on when it does.

        Args:
            code: which it is.
            at: the line, or `~instruction`.
            frame: that runs it.
        """
        key = id(code), at
        if key not in self._makers:
            asked = self._asked.get(key, 0)
            if asked >= _YOUNG:
                return
            self._asked[key] = asked + 1
            if not self._lines.may_make(frame, at if at > 0 else frame.f_lineno):
                return
        now = perf_counter()
        for number in list(self.unseen):
            if now - self._armed.get(number, 0.0) < _SOON:
                self._wake(number)
            else:
                self._armed[number] = now
                self._turn_on(number)
        self.unseen.clear()

    def doubt(self) -> None:
        """Nodes have appeared that code running unseen may have made: let it be seen for good."""
        for number in list(self.unseen):
            self._wake(number)
        self.unseen.clear()

    def forget(self, number: int) -> None:
        """The code with this id is gone; the id may be given to another."""
        self.off.pop(number, None)
        self.left.discard(number)
        self._awake.discard(number)
        self._armed.pop(number, None)

    def clear(self) -> None:
        """No events come any more."""
        self.off.clear()
        self.left.clear()
        self.unseen.clear()

    def _run_unseen(self, code: CodeType) -> None:
        self.unseen.add(id(code))
        if id(code) in self.left:
            self._switch(code, False)

    def _wake(self, number: int) -> None:
        """Its events are on again and stay so."""
        self._awake.add(number)
        self.unseen.discard(number)
        self.off.pop(number, None)
        self._turn_on(number)
        if number in self.left:
            self.left.discard(number)
            self._restart()  # the event of its start, too, which is disabled where all code sends it

    def _turn_on(self, number: int) -> None:
        reference = self._codes.get(number)
        code = None if reference is None else reference()
        if code is not None:
            self._switch(code, True)
