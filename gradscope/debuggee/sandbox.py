"""Saves what an exploring pass could disturb, and puts it back, also after an exception."""

from __future__ import annotations

import io
import random
import sys
from types import TracebackType
from typing import Any

import torch

from gradscope.debuggee.capture import Captured


class Sandbox:
    """A context round one exploring pass."""

    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        self.notes: list[str] = []
        self.printed = ""
        self._streams: tuple[Any, Any] | None = None

    def __enter__(self) -> Sandbox:
        self._generator = torch.default_generator.get_state()
        self._random = random.getstate() if self.captured.foreign else None
        if self.captured.foreign:
            self._streams = sys.stdout, sys.stderr
            sys.stdout = sys.stderr = self._capture = io.StringIO()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        torch.default_generator.set_state(self._generator)
        if self._random is not None:
            random.setstate(self._random)
        if self._streams is not None:
            sys.stdout, sys.stderr = self._streams
            self.printed = self._capture.getvalue()
