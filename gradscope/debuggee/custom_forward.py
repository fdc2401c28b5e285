"""Whether a call of torch runs inside the forward of a custom Function, where gradients are off and nothing is cut by it."""

from __future__ import annotations

from dataclasses import dataclass
from types import FrameType
from typing import Any

from gradscope.debuggee.frame_locals import variables

_SEARCHED = 100
"""frames upward"""


@dataclass(frozen=True, slots=True)
class CustomForward:
    """The outermost one that is at work."""

    cuts: bool
    """It is a reentrant checkpoint none of whose inputs requires a gradient: its output has no graph."""
    function: Any
    """the Function"""
    caller: FrameType
    """that called it"""


def surrounding(torch: Any, frame: FrameType | None) -> CustomForward | None:
    """The custom forward that this frame runs in; None outside any."""
    apply = getattr(vars(torch.autograd.Function)["apply"], "__func__", None)
    code = getattr(apply, "__code__", None)
    found = None
    for _ in range(_SEARCHED):
        if frame is None:
            break
        above = frame.f_back
        if above is not None and frame.f_code is code:
            local = variables(frame)
            function = local.get("cls")
            found = CustomForward(_is_hollow_checkpoint(torch, function, local.get("args", ())), function, above)
        frame = above
    return found


def _is_hollow_checkpoint(torch: Any, function: Any, args: tuple[Any, ...]) -> bool:
    if getattr(function, "__module__", "") != "torch.utils.checkpoint":
        return False
    return not any(isinstance(one, torch.Tensor) and one.requires_grad for one in args)
