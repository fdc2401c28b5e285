"""Keeps what the script's last function held, for a script that ends without a backward call.

When `main()` returns, its tensors go. Whoever holds a frame holds its locals, so the frames of the functions that the script's
last statement calls are kept until the first backward call, or until the end. Nothing that runs inside them is slowed down.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType

from gradscope.debuggee.source_text import Tail, parse, tails_of


class LastFrames:
    """Waits for the functions that the script's last statement calls."""

    def __init__(self) -> None:
        self.main: FrameType | None = None
        """of the script itself"""
        self.frames: list[FrameType] = []
        self._tails: list[Tail] = []
        self._stop_watching: Callable[[], None] = lambda: None

    def watch(self) -> None:
        """Begin, from somewhere below the script's own frame."""
        self.main = main = _main_frame()
        module = None if main is None else parse(main.f_code.co_filename)
        if module is not None:
            self._tails = tails_of(module)
        names = frozenset(name for tail in self._tails for name in tail.functions)
        if names:
            self._stop_watching = _watch_calls(self._called, names)

    def release(self) -> None:
        """Let go of everything: a backward call was met."""
        self._stop_watching()
        self._stop_watching = lambda: None
        self.frames.clear()
        self.main = None

    def _called(self, frame: FrameType) -> None:
        code, main = frame.f_code, self.main
        if main is None or code.co_filename != main.f_code.co_filename:
            return
        name, line = code.co_name, main.f_lineno
        for tail in self._tails:
            if tail.line <= line <= tail.last and name in tail.functions:
                self.frames.append(frame)
                if tail.outermost in ("", name):
                    self._stop_watching()


def _main_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            return frame
        frame = frame.f_back
    return None


if sys.version_info >= (3, 12):
    from sys import monitoring

    _TOOL = 3
    """a number that no kind of tool has by convention"""

    def _watch_calls(called: Callable[[FrameType], None], names: frozenset[str]) -> Callable[[], None]:
        def started(code: CodeType, offset: int) -> object:
            if code.co_name not in names:
                return monitoring.DISABLE  # each function is looked at once
            called(sys._getframe(1))
            return None

        if monitoring.get_tool(_TOOL) is None:
            monitoring.use_tool_id(_TOOL, "gradscope last frames")
        monitoring.register_callback(_TOOL, monitoring.events.PY_START, started)
        monitoring.set_events(_TOOL, monitoring.events.PY_START)
        return lambda: monitoring.set_events(_TOOL, 0)

else:

    def _watch_calls(called: Callable[[FrameType], None], names: frozenset[str]) -> Callable[[], None]:
        def trace(frame: FrameType, event: str, argument: object) -> None:
            if frame.f_code.co_name in names:
                called(frame)

        def stop() -> None:
            if sys.gettrace() is trace:
                sys.settrace(None)

        if sys.gettrace() is None:
            sys.settrace(trace)
        return stop
