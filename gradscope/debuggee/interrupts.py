"""Ctrl-C while gradscope's own code runs on the script's thread.

A KeyboardInterrupt in the middle of a message would break the stream, one in the middle of a restored sandbox the promise. So it
is kept until a moment that can bear it, and then given to the script's own handler, as if it came then.
"""

from __future__ import annotations

import select
import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class _Woken(Exception):
    """Ends a wait from inside the signal handler."""


class Interrupts:
    """A context in which SIGINT is kept. May be entered again inside itself; does nothing on other threads than the main one."""

    def __init__(self) -> None:
        self._depth = 0
        self._handler: Any = None
        self._came: tuple[int, FrameType | None] | None = None
        self._waiting = False

    def __enter__(self) -> Interrupts:
        if _on_main_thread():
            if self._depth == 0:
                self._handler = signal.getsignal(signal.SIGINT)
                if callable(self._handler):
                    signal.signal(signal.SIGINT, self._keep)
            self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not _on_main_thread():
            return
        self._depth -= 1
        if self._depth == 0:
            if callable(self._handler):
                signal.signal(signal.SIGINT, self._handler)
            self.deliver()

    @property
    def pending(self) -> bool:
        """Somebody has pressed Ctrl-C: give up what takes long."""
        return self._came is not None and _on_main_thread()

    def deliver(self) -> None:
        """Let the script's own handler have what came. Most raise KeyboardInterrupt."""
        if self.pending:
            came, self._came = self._came, None
            assert came is not None
            self._handler(*came)

    def wait_readable(self, descriptor: int) -> None:
        """Wait for input; a Ctrl-C meanwhile is delivered at once."""
        while True:
            self.deliver()
            try:
                self._waiting = _on_main_thread()
                if self._came is None:
                    select.select([descriptor], [], [])
                    return
            except _Woken:
                continue
            finally:
                self._waiting = False

    def _keep(self, number: int, frame: FrameType | None) -> None:
        if self._came is not None and not self._waiting:
            self._came = None
            raise KeyboardInterrupt  # the second one: what we wait for does not end
        self._came = number, frame
        if self._waiting:
            raise _Woken


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
