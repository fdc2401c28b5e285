"""Where functions of the script are written: hooks, and backwards of custom Functions."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Iterator
from types import CodeType
from typing import Any

import torch

from gradscope.debuggee import person_code
from gradscope.model.places import CodePlace

_CARRIERS = ("fn", "func", "hook", "user_hook")
"""What torch calls the script's function in the closures and objects that it wraps round one."""
_DEEPEST = 8


def own_function(function: Any) -> Any:
    """The script's function inside what torch, or functools, has put round it."""
    for _ in range(_DEEPEST):
        inner = _inside(function)
        if inner is None:
            break
        function = inner
    return function


def module_hook(function: Any) -> Any:
    """The torch object behind what runs a module's full backward hooks at a node; None for any other function."""
    owner = closed_over(function, "self")
    return owner if isinstance(owner, torch.utils.hooks.BackwardHook) else None


def own_functions(function: Any) -> list[Any]:
    """The same, of a module's hooks all that torch's one calls."""
    module = module_hook(function)
    if module is None:
        return [own_function(function)]
    at_output = "setup_output_hook" in function.__qualname__
    own = [*module.user_pre_hooks] if at_output else []
    if not at_output or module.input_tensors_index is None:  # no input requires grad: then all run at the output
        own += module.user_hooks
    return [own_function(hook) for hook in own]


def name_of(function: Any) -> str:
    """`Model.forward.<lambda>`; for an object that can be called its class."""
    function = own_function(function)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).replace("<locals>.", "")


def place_of(function: Any) -> CodePlace | None:
    """The file and the lines; None for what is not written in Python."""
    function = own_function(function)
    code = _code(function) or (_code(type(function).__call__) if callable(function) else None)
    return None if code is None else _place(code, name_of(function))


def backward_of(kind: type) -> Any:
    """The function that computes the backward of a custom Function's nodes; None where there is none in Python."""
    forward = getattr(kind, "_forward_cls", None)
    if forward is None:
        return None
    base = torch.autograd.Function
    for name in ("vjp", "backward"):
        found = getattr(forward, name, None)
        if found is not None and found is not getattr(base, name, None):
            return own_function(found)
    return None


def closed_over(function: Any, name: str) -> Any:
    """What a variable of the enclosing function holds; None where there is none."""
    code = getattr(function, "__code__", None)
    if code is None or name not in code.co_freevars:
        return None
    try:
        return function.__closure__[code.co_freevars.index(name)].cell_contents
    except ValueError:  # empty
        return None


def _inside(function: Any) -> Any:
    if isinstance(function, functools.partial):
        return function.func
    code = _code(function)
    if code is None:
        owner = type(function)
        if owner.__module__.startswith("torch.") and callable(getattr(function, "hook", None)):
            return function.hook
        return None
    if person_code.kind(code.co_filename) != person_code.TORCH:
        return None
    wrapped = getattr(function, "__wrapped__", None)
    if callable(wrapped):
        return wrapped
    return next((found for name in _CARRIERS if callable(found := closed_over(function, name))), None)


def _code(function: Any) -> CodeType | None:
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _place(code: CodeType, name: str) -> CodePlace:
    file = code.co_filename
    if not file.startswith("<"):
        file = os.path.abspath(file)
    return CodePlace(file, code.co_firstlineno, name, _last_line(code))


def _last_line(code: CodeType) -> int:
    """By its source where that can be read, else the last line with code."""
    with_code = max(_lines(code), default=code.co_firstlineno)
    try:
        text, first = inspect.getsourcelines(code)
    except Exception:  # no file, or another one by now
        return with_code
    while text and not text[-1].strip():
        text.pop()
    return max(with_code, first + len(text) - 1)


def _lines(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines(constant)
