"""Line events of `sys.monitoring` (Python 3.12+), under a tool number of our own."""

from __future__ import annotations

import atexit
import sys
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
        self._handlers: LineEvents | None = None
        events = self._monitoring.events
        self._everywhere = events.PY_START | events.PY_UNWIND | events.PY_THROW
        self._in_watched = events.LINE | events.PY_RETURN | events.PY_YIELD | events.PY_RESUME | events.CALL

    def begin(self, handlers: LineEvents) -> None:
        """Take the number and send events from now on.

        Raises:
            ValueError: the number is taken.
        """
        events = self._monitoring.events
        self._monitoring.use_tool_id(self._number, "gradscope")
        self._handlers = handlers
        handlers.disable = self._monitoring.DISABLE
        for event in (events.PY_START, events.PY_RESUME):
            self._monitoring.register_callback(self._number, event, handlers.enter)
        for event in (events.PY_RETURN, events.PY_YIELD):
            self._monitoring.register_callback(self._number, event, handlers.leave)
        self._monitoring.register_callback(self._number, events.PY_UNWIND, handlers.unwound)
        self._monitoring.register_callback(self._number, events.PY_THROW, handlers.thrown)
        self._monitoring.register_callback(self._number, events.LINE, handlers.line)
        self._monitoring.register_callback(self._number, events.CALL, handlers.call)
        self._monitoring.set_events(self._number, self._everywhere)
        atexit.register(self.end)  # when modules are torn down no handler can run

    def switch(self, code: CodeType, on: bool) -> None:
        """Send the events of a code object, also those that were disabled, or stop to."""
        self._monitoring.set_local_events(self._number, code, 0)
        if on:
            self._monitoring.set_local_events(self._number, code, self._in_watched)

    def restart(self) -> None:
        """Send whatever was disabled."""
        self._monitoring.restart_events()

    def end(self) -> None:
        """Give the number back."""
        atexit.unregister(self.end)
        events = self._monitoring.events
        self._monitoring.set_events(self._number, 0)
        if self._handlers is not None:
            self._handlers.forget()
        for event in (events.PY_START, events.PY_RESUME, events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND, events.PY_THROW):
            self._monitoring.register_callback(self._number, event, None)
        self._monitoring.register_callback(self._number, events.LINE, None)
        self._monitoring.register_callback(self._number, events.CALL, None)
        self._monitoring.free_tool_id(self._number)


def free_tool() -> Tool | None:
    """A tool whose number nobody has taken; None where there is none, as before Python 3.12."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return None
    return next((Tool(number) for number in _NUMBERS if monitoring.get_tool(number) is None), None)
