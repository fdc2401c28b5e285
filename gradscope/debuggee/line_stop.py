"""Stops at a line of one file, at no cost for the code of others where Python can do that (3.12 on)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from gradscope.debuggee.stops import Place

if TYPE_CHECKING:
    from _typeshed import TraceFunction

OnLine = Callable[[FrameType], None]


def arm(place: Place, reached: OnLine) -> Callable[[], None]:
    """Call `reached` with the frame each time the place is about to run; returns what disarms it."""
    trap: LineTrap = _Monitoring(place, reached) if sys.version_info >= (3, 12) else _Tracing(place, reached)
    trap.arm()
    return trap.disarm


class LineTrap:
    """What both ways share: which code and which line is meant."""

    def __init__(self, place: Place, reached: OnLine) -> None:
        self._place, self._reached = place, reached
        self._lines: dict[str, int] = {}
        """file -> line to stop at; 0 where the file is another one"""

    def line_in(self, file: str) -> int:
        """The line to stop at in this file, 0 for none."""
        line = self._lines.get(file)
        if line is None:
            line = self._lines[file] = self._place.statement(file).line if self._place.is_in(file) else 0
        return line

    def arm(self) -> None:
        raise NotImplementedError

    def disarm(self) -> None:
        raise NotImplementedError


class _Tracing(LineTrap):
    """Python 3.10 and 3.11: a trace function, which costs each call of Python code something while it is armed."""

    _armed = False

    def arm(self) -> None:
        self._armed = True
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if self.line_in(frame.f_code.co_filename):
                frame.f_trace = self._trace_line
            frame = frame.f_back
        sys.settrace(self._trace_call)

    def disarm(self) -> None:
        self._armed = False
        if sys.gettrace() == self._trace_call:
            sys.settrace(None)

    def _trace_call(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        return self._trace_line if self.line_in(frame.f_code.co_filename) else None

    def _trace_line(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        if event == "line" and frame.f_lineno == self.line_in(frame.f_code.co_filename):
            self._reached(frame)
        return self._trace_line if self._armed else None  # None leaves the frame to whoever was armed meanwhile


if sys.version_info >= (3, 12):
    from sys import monitoring

    _TOOL = 4
    """a number that no kind of tool has by convention"""

    class _Monitoring(LineTrap):
        """Python 3.12 on: each code object is looked at once, and only those of the file send line events."""

        def __init__(self, place: Place, reached: OnLine) -> None:
            super().__init__(place, reached)
            self._codes: list[CodeType] = []

        def arm(self) -> None:
            if monitoring.get_tool(_TOOL) is None:
                monitoring.use_tool_id(_TOOL, "gradscope line stop")
            monitoring.register_callback(_TOOL, monitoring.events.PY_START, self._started)
            monitoring.register_callback(_TOOL, monitoring.events.LINE, self._line)
            monitoring.set_events(_TOOL, monitoring.events.PY_START)
            monitoring.restart_events()
            for frame in sys._current_frames().values():
                walked: FrameType | None = frame
                while walked is not None:
                    self._started(walked.f_code, 0)
                    walked = walked.f_back

        def disarm(self) -> None:
            monitoring.set_events(_TOOL, 0)
            for code in self._codes:
                monitoring.set_local_events(_TOOL, code, 0)
            self._codes.clear()

        def _started(self, code: CodeType, offset: int) -> object:
            if self.line_in(code.co_filename):
                monitoring.set_local_events(_TOOL, code, monitoring.events.LINE)
                self._codes.append(code)
            return monitoring.DISABLE

        def _line(self, code: CodeType, line: int) -> object:
            if line != self.line_in(code.co_filename):
                return monitoring.DISABLE
            self._reached(sys._getframe(1))
            return None

else:
    _Monitoring = _Tracing
