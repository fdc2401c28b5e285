"""Functions of ours that torch.compile must not look into: script frames under it call them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import CodeType
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

_dynamo: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)


def _no_callback(_: None) -> None:
    return None


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """As `torch.compiler.disable` does, without importing the compiler (which takes a second)."""
    set_callback = getattr(_dynamo, "set_eval_frame", _no_callback)

    @wraps(function)
    def aside(*args: P.args, **kwargs: P.kwargs) -> R:
        before = set_callback(None)
        try:
            return function(*args, **kwargs)
        finally:
            set_callback(before)

    skip(aside.__code__)  # type: ignore[attr-defined]  # `wraps` gives a function
    return aside


def skip(code: CodeType) -> None:
    """Tell the compiler, which may be imported later, never to look at frames of this code."""
    if hasattr(_dynamo, "set_code_exec_strategy"):
        skip = _dynamo._FrameAction.SKIP
        _dynamo.set_code_exec_strategy(code, _dynamo._FrameExecStrategy(skip, skip))
    elif hasattr(_dynamo, "skip_code"):
        _dynamo.skip_code(code)
