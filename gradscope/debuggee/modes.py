"""The script's modes (TorchDispatchMode, TorchFunctionMode, the default device) see nothing of what gradscope computes.

A mode that counts or logs operations would count ours, and a default device would move our tensors. So modes are off the stack of
the thread while we work, and on it again while the engine runs the script's own Python in an exploring pass.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _python_dispatch as dispatch

_c: Any = torch._C
_dispatch: Any = dispatch


class _Thread(threading.local):
    def __init__(self) -> None:
        self.functions: list[Any] = []
        """function modes that are off just now, the innermost last"""
        self.dispatch: list[Any] = []
        """dispatch modes likewise"""


_off = _Thread()


@contextmanager
def modes_off() -> Iterator[None]:
    """No mode of the script's on this thread. Where there is none, this costs next to nothing."""
    if not _c._len_torch_function_stack() and not _any_dispatch():
        yield
        return
    functions, outer = _pop_functions(), (_off.functions, _off.dispatch)
    _off.functions, _off.dispatch = outer[0] + functions, outer[1] + _dispatch._get_current_dispatch_mode_stack()
    try:
        with _dispatch._disable_current_modes():
            yield
    finally:
        _push_functions(functions)
        _off.functions, _off.dispatch = outer


@contextmanager
def modes_on() -> Iterator[None]:
    """Inside `modes_off`: the function modes are there again, as Python that the engine calls needs them."""
    functions, _off.functions = _off.functions, []
    _push_functions(functions)
    try:
        yield
    finally:
        for _ in functions:
            _c._pop_torch_function_stack()
        _off.functions = functions


def dispatch_mode() -> str:
    """The class of a dispatch mode of the script's that is in force, or that is off because we work; empty without one."""
    active = [*_off.dispatch, *_dispatch._get_current_dispatch_mode_stack()]
    return next((type(mode).__name__ for mode in reversed(active)), "")


def _any_dispatch() -> bool:
    return bool(_c._len_torch_dispatch_stack()) or bool(_dispatch._get_current_dispatch_mode_stack())


def _pop_functions() -> list[Any]:
    popped = [_c._pop_torch_function_stack() for _ in range(_c._len_torch_function_stack())]
    return popped[::-1]


def _push_functions(modes: list[Any]) -> None:
    for mode in modes:
        _c._push_on_torch_function_stack(mode)
