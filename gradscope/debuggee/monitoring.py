"""Line events of `sys.monitoring` (Python 3.12+), under a tool number of our own."""

from __future__ import annotations

import atexit
import sys
import weakref
from types import CodeType
from typing import Any

from gradscope.debuggee.line_events import LineEvents

_NUMBERS = (4, 3)
"""The tool numbers that Python gives to nobody: 0 is for debuggers, 1 for coverage, 2 for profilers, 5 for optimizers."""


class Tool:
    """Sends the events of watched code to the handlers."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._watched: dict[int, weakref.ref[CodeType]] = {}
        self._left: set[int] = set()
        events = self._monitoring.events
        self._everywhere = events.PY_START | events.PY_UNWIND | events.PY_THROW
        self._in_watched = events.LINE | events.PY_RETURN | events.PY_YIELD | events.PY_RESUME

    def begin(self, handlers: LineEvents) -> None:
        """Take the number and send events from now on.

        Raises:
            ValueError: the number is taken.
        """
        events = self._monitoring.events
        self._monitoring.use_tool_id(self._number, "gradscope")
        handlers.disable = self._monitoring.DISABLE
        for event in (events.PY_START, events.PY_RESUME):
            self._monitoring.register_callback(self._number, event, handlers.enter)
        for event in (events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND):
            self._monitoring.register_callback(self._number, event, handlers.leave)
        self._monitoring.register_callback(self._number, events.PY_THROW, handlers.thrown)
        self._monitoring.register_callback(self._number, events.LINE, handlers.line)
        self._monitoring.set_events(self._number, self._everywhere)
        atexit.register(self.end)  # when modules are torn down no handler can run

    def watch(self, code: CodeType) -> bool:
        """Send its events, unless they are sent already. False for code that was left."""
        number = id(code)
        if number not in self._watched:
            self._watched[number] = weakref.ref(code, lambda _: self._forget(number))
            self._monitoring.set_local_events(self._number, code, self._in_watched)
        return number not in self._left

    def leave(self, code: CodeType) -> None:
        """Send no events of it any more."""
        self._left.add(id(code))
        self._monitoring.set_local_events(self._number, code, 0)

    def _forget(self, number: int) -> None:
        """The code is gone; its id may be given to another."""
        self._watched.pop(number, None)
        self._left.discard(number)

    def end(self) -> None:
        """Give the number back."""
        atexit.unregister(self.end)
        events = self._monitoring.events
        self._monitoring.set_events(self._number, 0)
        for reference in list(self._watched.values()):
            code = reference()
            if code is not None:
                self._monitoring.set_local_events(self._number, code, 0)
        self._watched.clear()
        self._left.clear()
        for event in (events.PY_START, events.PY_RESUME, events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND, events.PY_THROW):
            self._monitoring.register_callback(self._number, event, None)
        self._monitoring.register_callback(self._number, events.LINE, None)
        self._monitoring.free_tool_id(self._number)


def free_tool() -> Tool | None:
    """A tool whose number nobody has taken; None where there is none, as before Python 3.12."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return None
    return next((Tool(number) for number in _NUMBERS if monitoring.get_tool(number) is None), None)
