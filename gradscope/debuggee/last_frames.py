"""Keeps what the script's last function held, for a script that ends without a backward call.

When `main()` returns, its tensors go. Whoever holds a frame holds its locals, so the frames of the functions that the script's
last statement calls are kept until the first backward call, or until the end. Nothing that runs inside them is slowed down.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType

from gradscope.debuggee.source_text import Tail, parse, tail_of


class LastFrames:
    """Waits for the functions that the script's last statement calls."""

    def __init__(self) -> None:
        self.main: FrameType | None = None
        """of the script itself"""
        self.frames: list[FrameType] = []
        self._tail = Tail(frozenset(), frozenset())
        self._stop_watching: Callable[[], None] = lambda: None

    def watch(self) -> None:
        """Begin, from somewhere below the script's own frame."""
        self.main = main = _main_frame()
        module = None if main is None else parse(main.f_code.co_filename)
        if main is None or module is None:
            return
        self._tail = tail_of(module)
        if self._tail.names:
            self._stop_watching = _watch_calls(self._called, self._may_be)

    def release(self) -> None:
        """Let go of everything: a backward call was met."""
        self._stop_watching()
        self._stop_watching = lambda: None
        self.frames.clear()
        self.main = None

    def _may_be(self, code: CodeType) -> bool:
        """Can a call of this code be one of those? Asked for every function that starts, so it must be quick."""
        return code.co_name in self._tail.names and self.main is not None and code.co_filename == self.main.f_code.co_filename

    def _called(self, frame: FrameType) -> None:
        if self.main is not None and self.main.f_lineno in self._tail.lines:
            self.frames.append(frame)
            if {kept.f_code.co_name for kept in self.frames} == self._tail.names & _functions_of(self.main):
                self._stop_watching()


def _main_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            return frame
        frame = frame.f_back
    return None


def _functions_of(main: FrameType) -> set[str]:
    return {name for name, value in main.f_globals.items() if callable(value) and getattr(value, "__module__", "") == "__main__"}


if sys.version_info >= (3, 12):
    from sys import monitoring

    _TOOL = 3
    """a number that no kind of tool has by convention"""

    def _watch_calls(called: Callable[[FrameType], None], may_be: Callable[[CodeType], bool]) -> Callable[[], None]:
        def started(code: CodeType, offset: int) -> object:
            if not may_be(code):
                return monitoring.DISABLE  # each function is looked at once
            called(sys._getframe(1))
            return None

        if monitoring.get_tool(_TOOL) is None:
            monitoring.use_tool_id(_TOOL, "gradscope last frames")
        monitoring.register_callback(_TOOL, monitoring.events.PY_START, started)
        monitoring.set_events(_TOOL, monitoring.events.PY_START)
        return lambda: monitoring.set_events(_TOOL, 0)

else:

    def _watch_calls(called: Callable[[FrameType], None], may_be: Callable[[CodeType], bool]) -> Callable[[], None]:
        def trace(frame: FrameType, event: str, argument: object) -> None:
            if may_be(frame.f_code):
                called(frame)

        def stop() -> None:
            if sys.gettrace() is trace:
                sys.settrace(None)

        if sys.gettrace() is None:
            sys.settrace(trace)
        return stop
