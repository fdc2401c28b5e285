"""The two ways to see origins, for tests: the function mode, and line events, which a trace function sends before Python 3.12."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

import torch

from gradscope.debuggee import origins as origins_module
from gradscope.debuggee.line_events import LineEvents
from gradscope.debuggee.monitoring import free_tool
from gradscope.debuggee.origins import Origins

WAYS = ("mode", "lines")


def install(way: str) -> Origins:
    """Begin to note origins in one of the ways."""
    if way == "mode":
        return origins_module.install_mode(torch)
    return origins_module.install_lines(torch, free_tool() or Traced())


def nodes(tensor: torch.Tensor) -> list[torch.autograd.graph.Node]:
    """Every node of a graph with a number of its own, in any order."""
    waiting, seen = [tensor.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [target for target, _ in node.next_functions]
    return [node for node in seen if "AccumulateGrad" not in node.name()]


class Traced:
    """Sends what `monitoring.Tool` sends, from `sys.settrace`."""

    def begin(self, handlers: LineEvents) -> None:
        self._handlers = handlers
        self._watched: set[CodeType] = set()
        self._off: dict[CodeType, set[int]] = {}
        self._never_entered: set[CodeType] = set()
        self._before = sys.gettrace()
        self._frames: list[FrameType] = []
        handlers.disable = self
        sys.settrace(self._trace)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            frame.f_trace = self._trace
            self._frames.append(frame)
            frame = frame.f_back

    def switch(self, code: CodeType, on: bool) -> None:
        (self._watched.add if on else self._watched.discard)(code)
        self._off.pop(code, None)

    def restart(self) -> None:
        self._off.clear()
        self._never_entered.clear()

    def end(self) -> None:
        sys.settrace(self._before)
        for frame in self._frames:
            frame.f_trace = None
        self._frames.clear()

    def _trace(self, frame: FrameType, event: str, value: object) -> Any:
        code = frame.f_code
        if event == "call":
            if code not in self._never_entered and self._handlers.enter(code, frame.f_lasti) is self:
                self._never_entered.add(code)
            return self._trace if code in self._watched else None
        if code not in self._watched:
            return None
        if event == "line" and frame.f_lasti not in self._off.get(code, ()):
            if self._handlers.line(code, frame.f_lineno) is self:
                self._off.setdefault(code, set()).add(frame.f_lasti)
        elif event == "return":
            self._handlers.leave(code, frame.f_lasti, value)
        return self._trace
