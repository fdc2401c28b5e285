"""Tells the runs of a line apart, where no event says that a line runs: by how far the frame has come, each time it is seen.

Within one run of a statement Python's instructions go forward. A frame that is met before the instruction where it was met last,
or at the same one, has begun anew; only a call of a library that still goes on may be met at one instruction many times. Whether
it is still the same call, and still the same frame, is known by a mark that frames carry while they live.
"""

from __future__ import annotations

from types import FrameType
from typing import Any


class Mark:
    """What a frame carries in its `f_trace`, which Python looks at only while a debugger traces the frame.

    It holds no frame and goes with its frame. A debugger finds it false, thus no trace function, and puts its own there.
    """

    __slots__ = ("at", "call", "run")

    def __init__(self) -> None:
        self.at = -1
        """the instruction where the frame was met last"""
        self.call: Mark | None = None
        """the mark of the frame that was called there"""
        self.run = 0

    def __bool__(self) -> bool:
        return False

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        """Nothing, should anyone trace the frame."""


class Runs:
    """Numbers the runs, over all frames."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest = 0

    def number(self, frame: FrameType, called: FrameType | None) -> int:
        """The number of the run that a frame is in, or 0 where it cannot be told: a debugger traces it.

        Args:
            frame: the person's.
            called: the frame that it called and that still runs; None where it calls torch itself.
        """
        mark: Any = frame.f_trace
        if type(mark) is not Mark:
            if mark is not None:
                return 0
            frame.f_trace = mark = Mark()
        call: Any = None
        if called is not None:
            call = called.f_trace
            if type(call) is not Mark:
                if call is not None:
                    return 0
                called.f_trace = call = Mark()
        at = frame.f_lasti
        if at < mark.at or mark.at < 0 or (at == mark.at and (call is None or call is not mark.call)):
            self._latest = mark.run = self._latest + 1
        mark.at, mark.call = at, call
        run: int = mark.run
        return run
