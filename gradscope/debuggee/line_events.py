"""What the events of running lines tell of the nodes made: between two of them autograd's number moves on by those of one line.

Each event says where the code stands from now on. When the next one comes, the numbers counted since belong to that place. Lines
that make nothing are switched off after a while, so that a loop over plain Python data runs as fast as without us; a line is
switched off only when nothing that it names could be, or hold, a tensor.

The handlers take what `sys.monitoring` gives (`disable` is its DISABLE) and know nothing of torch: any counter will do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, Protocol

from gradscope.debuggee.traced_code import is_traced

_IDLE = 32
"""Events in a row that made nothing, before those that come next are counted."""
_TIRED = 100
"""Events at one place that were counted, before it is looked at whether the place can be switched off."""

Made = Callable[[int, int, FrameType, int], None]
"""called with the numbers from-to, the frame that made them, and where in it: a line, or `~instruction` of the call just returned"""


class Switch(Protocol):
    """Who sends the events of a code object."""

    def watch(self, code: CodeType) -> bool:
        """Send its events, unless they are sent already. False for code that was left."""

    def leave(self, code: CodeType) -> None:
        """Send no events of it any more."""


class LineEvents:
    """The handlers, and the place where the code stands."""

    def __init__(self, number: Callable[[], int], made: Made, switch: Switch, may_make: Callable[[FrameType, int], bool]) -> None:
        """
        Args:
            number: how many nodes this thread has made.
            made: told of each stretch.
            switch: turns the events of a code object on and off.
            may_make: whether a line of a frame could make a node; with line 0 the whole code of it.
        """
        self._number = number
        self._made = made
        self._switch = switch
        self._may_make = may_make
        self._on = False
        self._thread = get_ident()
        self._last = 0
        self._code: CodeType | None = None
        self._at = 0
        self._idle = 0
        self._counts: dict[tuple[int, int], int] = {}
        self.disable: Any = None

    def begin(self, frame: FrameType | None) -> None:
        """From now on events are taken. The code stands in this frame or above."""
        at = frame
        while at is not None:
            if is_traced(at.f_code):
                self._switch.watch(at.f_code)
            at = at.f_back
        self._stand_above(frame)
        self._last = self._number()
        self._on = True

    def end(self, frame: FrameType) -> None:
        """Take no more events; what was made up to now is told."""
        self._on = False
        number = self._number()
        if number != self._last:
            self._tell(number, frame)

    def line(self, code: CodeType, line: int) -> Any:
        """A line is about to run."""
        if not self._on or get_ident() != self._thread:
            return None
        number = self._number()
        if number != self._last:
            self._tell(number, sys._getframe(1))
        else:
            self._idle += 1
            if self._idle > _IDLE and self._is_tired(code, line) and not self._may_make(_frame_of(code, sys._getframe(1)), line):
                return self.disable
        self._code = code
        self._at = line
        return None

    def enter(self, code: CodeType, instruction: int) -> Any:
        """A function starts, or a generator goes on."""
        if not is_traced(code) or not self._switch.watch(code):
            return self.disable
        if not self._on or get_ident() != self._thread:
            return None
        frame = _frame_of(code, sys._getframe(1))
        number = self._number()
        if number != self._last and frame.f_back is not None:
            self._tell(number, frame.f_back)
        self._code = code
        self._at = ~frame.f_lasti
        return None

    def thrown(self, code: CodeType, instruction: int, value: object) -> None:
        """A generator goes on with an exception thrown into it. No such event can be switched off."""
        self.enter(code, instruction)

    def leave(self, code: CodeType, instruction: int, value: object = None) -> Any:
        """A function returns, yields or ends by an exception: what comes next is of the line that called it."""
        if not self._on or get_ident() != self._thread or not is_traced(code):
            return None
        frame = _frame_of(code, sys._getframe(1))
        number = self._number()
        if number != self._last:
            self._tell(number, frame)
        else:
            self._idle += 1
            if self._idle > _IDLE and self._is_tired(code, 0) and not self._may_make(frame, 0):
                self._switch.leave(code)
        self._stand_above(frame.f_back)
        return None

    def _tell(self, number: int, frame: FrameType | None) -> None:
        """What was made since the last event, by the place where the code stood, in this frame or above it."""
        start, self._last = self._last, number
        self._idle = 0
        while frame is not None and frame.f_code is not self._code:
            frame = frame.f_back
        if frame is not None:  # else it is gone unseen, and whose they are is not known
            self._made(start, number, frame, self._at)

    def _stand_above(self, frame: FrameType | None) -> None:
        while frame is not None and not is_traced(frame.f_code):
            frame = frame.f_back
        if frame is None:
            self._code = None
        else:
            self._code, self._at = frame.f_code, ~frame.f_lasti

    def _is_tired(self, code: CodeType, line: int) -> bool:
        """Whether this place has often made nothing; if it cannot be switched off the question comes again ever more seldom."""
        key = id(code), line
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return count % _TIRED == 0 and (count // _TIRED).bit_count() == 1


def _frame_of(code: CodeType, frame: FrameType) -> FrameType:
    """The frame that an event is about: the one that runs the code."""
    at: FrameType | None = frame
    while at is not None and at.f_code is not code:
        at = at.f_back
    return at or frame
