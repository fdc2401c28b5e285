"""Where gradients were switched off and left off: `set_grad_enabled(False)`, `no_grad`, inference mode."""

from __future__ import annotations

from collections.abc import Mapping
from types import BuiltinFunctionType, FrameType
from typing import Any

from gradscope.debuggee.watching import PlaceOf, Watcher


class GradMode:
    """That of the main thread, over one run.

    The function mode sees each switch but that of inference mode. Line events (Python 3.12+) see the calls `set_grad_enabled(…)`,
    `no_grad()` and `inference_mode()`, not when a block begins or ends: there the last such call is the answer while gradients
    are off.
    """

    def __init__(self, torch: Any, place_of: PlaceOf) -> None:
        self._torch = torch
        self._place_of = place_of
        self._off: int | None = None
        self._inference: int | None = None
        self._switches = {torch.set_grad_enabled, torch.no_grad, torch.inference_mode, torch._C._set_grad_enabled}

    @property
    def off(self) -> int | None:
        """The number of the place, for `Places.origin`; None while gradients are on, and where nobody saw it."""
        torch = self._torch
        if torch.is_inference_mode_enabled() and self._inference is not None:
            return self._inference
        return None if torch.is_grad_enabled() else self._off

    def watchers(self) -> dict[Any, Watcher]:
        """Whom to tell of which functions."""
        return {self._torch._C._set_grad_enabled: self._switched}

    def called(self, function: Any, first: Any, frame: FrameType) -> bool:
        """A function is about to be called: note it if it switches gradients off. False if it is none that ever does."""
        if not isinstance(function, type | BuiltinFunctionType) or function not in self._switches:
            return False
        torch = self._torch
        if function is torch.inference_mode:
            if first is not False:
                self._inference = self._place_of(frame, function)
        elif function is torch.no_grad or first is False:
            if self._off is None or torch.is_grad_enabled():
                self._off = self._place_of(frame, function)
        elif first is True:
            self._off = None
        return True

    def _switched(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, result: Any, frame: FrameType, number: int
    ) -> None:
        on = args[0] if args else None
        if on:
            self._off = None
        elif self._off is None:
            self._off = self._place_of(frame, function)
