"""Sees tensors being wrapped in `Parameter`, which makes leaves of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def watch(torch: Any, made: Callable[[Any, Any, FrameType], None], seeing: Callable[[], bool]) -> Callable[[], None]:
    """Be told of each. Returns the way back.

    Args:
        torch: the module.
        made: told of the tensor, the Parameter, and the frame that called.
        seeing: whether to tell now.
    """
    kind: Any = type(torch.nn.Parameter)
    if "__call__" in vars(kind):  # a later torch may make them in its own way
        return lambda: None
    plain = torch.nn.Parameter
    make = type.__call__

    def __call__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        parameter = make(cls, *args, **kwargs)
        if cls is plain and seeing():
            data = args[0] if args else kwargs.get("data")
            if isinstance(data, torch.Tensor):
                made(data, parameter, sys._getframe(1))
        return parameter

    kind.__call__ = __call__
    return lambda: delattr(kind, "__call__")
