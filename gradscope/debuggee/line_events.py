"""What the events of running lines tell of the nodes made: between two of them autograd's number moves on by those of one line.

Each event says where the code stands from now on. When the next one comes, the numbers counted since belong to that place. Lines
that make nothing are switched off after a while, so that a loop over plain Python data runs as fast as without us; a line is
switched off only when nothing that it names could be, or hold, a tensor. What is made while such lines may be running is given
to no line (see `resting`).

The handlers take what `sys.monitoring` gives (`disable` is its DISABLE) and know nothing of torch: any counter will do.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

from gradscope.debuggee.resting import Line, Resting
from gradscope.debuggee.spans import Spans
from gradscope.debuggee.traced_code import is_persons, is_traced

_IDLE = 32
"""Events in a row that made nothing, before those that come next are counted."""
_TIRED = 100
"""Events at one place that were counted, before it is looked at whether the place can be switched off."""

PlaceOf = Callable[[FrameType, int], int]
"""the number of a place: a frame, and where in it: a line, or `~instruction` of a call just done"""


Called = Callable[[Any, Any, FrameType], bool]
"""told of a call that is about to be made: the function, its first argument, the frame. False: that function is of no interest"""


class LineEvents:
    """The handlers, and the place where the code stands."""

    __slots__ = (
        "_at",
        "_called",
        "_code",
        "_counts",
        "_idle",
        "_known",
        "_last",
        "_lines",
        "_number",
        "_off",
        "_on",
        "_persons",
        "_place_of",
        "_resting",
        "_run",
        "_runs",
        "_runs_above",
        "_spans",
        "_switch",
        "_thread",
        "_unseen",
        "_watched",
        "_whose",
        "disable",
    )  # fmt: skip

    def __init__(
        self,
        number: Callable[[], int],
        place_of: PlaceOf,
        spans: Spans,
        lines: Line,
        switch: Callable[[CodeType, bool], None],
        restart: Callable[[], None],
        called: Called | None = None,
    ) -> None:
        """
        Args:
            number: how many nodes this thread has made.
            place_of: the number of the place that made a stretch.
            spans: where the stretches are noted.
            lines: which lines can make nodes.
            switch: turns the events of a code object on, also those that were disabled, or off.
            restart: turns on again whatever was disabled.
            called: told of calls.
        """
        self._number = number
        self._place_of = place_of
        self._spans = spans
        self._lines = lines
        self._switch = switch
        self._called = called
        self._on = False
        self._thread = get_ident()
        self._last = 0
        self._code: CodeType | None = None
        self._at = 0
        self._persons = False
        """whether that is the person's code: what a library's lines make belongs to the run of the person's line above"""
        self._run = 0
        """the number of the run of the person's line, unique to it; 0 where its start was not seen"""
        self._runs = 0
        self._runs_above: dict[int, int] = {}
        """by the id of a frame that runs, the run that was when it started"""
        self._known: dict[int, int] = {}
        """places of the frame where the code stands, until it stands in another"""
        self._idle = 0
        self._counts: dict[tuple[int, int], int] = {}
        self._watched: dict[int, weakref.ref[CodeType]] = {}
        self._whose: dict[int, bool] = {}
        """by the id of code that is watched, whether it is the person's"""
        self._resting = Resting(lines, switch, restart)
        self._off, self._unseen = self._resting.off, self._resting.unseen
        self.disable: Any = None

    def begin(self, frame: FrameType | None) -> None:
        """From now on events are taken. The code stands in this frame or above."""
        at = frame
        while at is not None:
            if is_traced(at.f_code):
                self._watch(at.f_code)
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

    def forget(self) -> None:
        """Turn the events of all code off."""
        for code in [reference() for reference in self._watched.values()]:
            if code is not None:
                self._switch(code, False)
        self._watched.clear()
        self._whose.clear()
        self._resting.clear()

    def line(self, code: CodeType, line: int) -> Any:
        """A line is about to run."""
        if not self._on or get_ident() != self._thread:
            return None
        number = self._number()
        if number != self._last:
            place = self._known.get(self._at)
            if place is None or code is not self._code or self._unseen:
                self._tell(number, sys._getframe(1))
            else:  # the same line of the same frame once more, as in a loop
                self._spans.add(self._last, number, place, self._run)
                self._last = number
                self._idle = 0
        else:
            if self._lines.never_makes(code, line):
                return self.disable
            if id(code) in self._off and self._resting.stays_off(code, line, _frame_of(code, sys._getframe(1))):
                return self.disable
            self._idle += 1
            tired = self._idle > _IDLE and self._is_tired(code, line)
            if tired and self._resting.goes_off(code, line, _frame_of(code, sys._getframe(1))):
                return self.disable
        if code is not self._code:
            self._known.clear()
            self._code, self._persons = code, self._whose[id(code)]
        self._at = line
        if self._unseen:
            self._resting.prepare(code, line, _frame_of(code, sys._getframe(1)))
        if self._persons:
            self._run = self._runs = self._runs + 1
        return None

    def call(self, code: CodeType, instruction: int, function: object, first: object) -> Any:
        """Something is about to be called."""
        if not self._on or get_ident() != self._thread:
            return None
        if self._called is None or not self._called(function, first, sys._getframe(1)):
            return self.disable
        return None

    def enter(self, code: CodeType, instruction: int) -> Any:
        """A function starts, or a generator goes on."""
        if id(code) not in self._watched and (not is_traced(code) or not self._watch(code)):
            return self.disable
        if not self._on or get_ident() != self._thread:
            return None
        frame = sys._getframe(1)
        if frame.f_code is not code:
            frame = _frame_of(code, frame)
        number = self._number()
        if number != self._last:
            self._tell(number, frame.f_back)
        elif id(code) in self._resting.left and self._resting.stays_off(code, 0, frame):
            return self.disable
        self._known.clear()
        self._code, self._persons = code, self._whose[id(code)]
        self._at = ~frame.f_lasti
        if self._unseen:
            self._resting.prepare(code, self._at, frame)
        self._runs_above[id(frame)] = self._run
        if self._persons:
            self._run = self._runs = self._runs + 1
        return None

    def thrown(self, code: CodeType, instruction: int, error: object) -> None:
        """A generator goes on with an exception thrown into it. No such event can be switched off."""
        if id(code) in self._watched:
            self.enter(code, instruction)

    def unwound(self, code: CodeType, instruction: int, error: object) -> None:
        """A function ends by an exception. No such event can be switched off."""
        if id(code) in self._watched:
            self.leave(code, instruction, error)

    def leave(self, code: CodeType, instruction: int, value: object) -> None:
        """A function returns or yields: what comes next is of the line that called it."""
        if not self._on or get_ident() != self._thread:
            return
        frame = sys._getframe(1)
        if frame.f_code is not code:
            frame = _frame_of(code, frame)
        number = self._number()
        if number != self._last:
            self._tell(number, frame)
        else:
            self._idle += 1
            if self._idle > _IDLE and self._is_tired(code, 0):
                self._resting.goes_off(code, 0, frame)
        self._stand_above(frame.f_back)
        self._run = self._runs_above.pop(id(frame), 0)

    def _watch(self, code: CodeType) -> bool:
        number = id(code)
        if number not in self._watched:
            self._watched[number] = weakref.ref(code, lambda _: self._forget(number))
            self._whose[number] = is_persons(code)
            self._switch(code, True)
        return number not in self._resting.left

    def _forget(self, number: int) -> None:
        """The code is gone; its id may be given to another."""
        self._watched.pop(number, None)
        self._whose.pop(number, None)
        self._resting.forget(number)

    def _tell(self, number: int, frame: FrameType | None) -> None:
        """What was made since the last event, by the place where the code stood, in this frame or above it."""
        start, self._last = self._last, number
        self._idle = 0
        self._resting.made(self._code, self._at)
        if self._unseen:
            self._resting.doubt()
            return
        while frame is not None and frame.f_code is not self._code:
            frame = frame.f_back
        if frame is not None:  # else it is gone unseen, and whose they are is not known
            place = self._known[self._at] = self._place_of(frame, self._at)
            self._spans.add(start, number, place, self._run)

    def _stand_above(self, frame: FrameType | None) -> None:
        self._known.clear()
        watched = self._watched
        while frame is not None and id(frame.f_code) not in watched:
            frame = frame.f_back
        if frame is None:
            self._code, self._persons = None, False
            return
        self._code, self._at = frame.f_code, ~frame.f_lasti
        self._persons = self._whose[id(frame.f_code)]
        if self._unseen:
            self._resting.prepare(self._code, self._at, frame)

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
