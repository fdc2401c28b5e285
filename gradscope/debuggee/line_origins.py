"""Origins by line events, on Python 3.12 and newer: no call of torch's is touched, so its fast paths and compiler run as ever."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from gradscope.debuggee import library_frames
from gradscope.debuggee.code_position import position
from gradscope.debuggee.line_events import LineEvents
from gradscope.debuggee.occurrences import Line, unsure_by_line
from gradscope.debuggee.origin_table import Origins
from gradscope.debuggee.tensor_free import Lines


class LineOrigins(Origins):
    """Exact to the line. The expression is told where the source leaves no doubt; the function called is not known."""

    def __init__(self, torch: Any, tool: Any) -> None:
        """
        Args:
            torch: the module.
            tool: gives the events (`monitoring.Tool`).
        """
        super().__init__(torch)
        number = torch.autograd._get_sequence_nr
        self._events = LineEvents(number, self._place_of, self.spans, Lines(torch), tool.switch, tool.restart, self._called)
        tool.begin(self._events)
        self.undo.append(tool.end)

    def span(self) -> Callable[[], None]:
        """Nothing to do: what is made while a line runs belongs to it."""
        return lambda: None

    def _start(self) -> None:
        self._events.begin(sys._getframe(1))

    def _stop(self) -> None:
        self._events.end(sys._getframe(1))

    def _unsure(self, line: Line) -> bool:
        return unsure_by_line(line)

    def _called(self, function: Any, first: Any, frame: FrameType) -> bool:
        """See `line_events.Called`."""
        return self.boundaries.called(function, first, frame) or self.grad_mode.called(function, first, frame)

    def _place_of(self, frame: FrameType, at: int) -> int:
        """See `line_events.PlaceOf`."""
        chosen, module, below, _ = self._where(frame)
        key = (id(chosen.f_code), chosen is frame or chosen.f_lasti, id(module), at, below)
        known = self.places.by_key.get(key)
        return self._intern(key, frame, chosen, module, at) if known is None else known

    def _intern(self, key: tuple[Any, ...], frame: FrameType, chosen: FrameType, module: Any, at: int) -> int:
        if chosen is frame:
            line, after = (at, -1) if at > 0 else (position(frame.f_code, ~at)[0], ~at)
            return self.places.intern(key, frame, module, line=line, after=after)
        *outer, (code, _) = library_frames.between(frame, chosen)
        return self.places.intern(key, chosen, module, below=(*outer, (code, ~at)))
