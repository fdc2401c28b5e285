"""The frames of libraries between the person's line and torch's own code: which are worth showing, and what is told of each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import CodeType, FrameType

from gradscope.debuggee import person_code
from gradscope.debuggee.code_position import function_of, position
from gradscope.model.places import CodePlace

_PLUMBING = {
    "nn/modules/module.py",
    "nn/parallel/distributed.py",
    "_jit_internal.py",
    "_compile.py",
    "overrides.py",
    "autograd/function.py",
    "utils/_contextlib.py",
    "utils/hooks.py",
    "_functorch/utils.py",
}
"""Files of torch's that every call runs through: they say nothing about this one."""


def between(inner: FrameType, outer: FrameType | None) -> tuple[tuple[CodeType, int], ...]:
    """Code and instruction of the frames from `inner` up to `outer`, without it, outermost first."""
    found = []
    at: FrameType | None = inner
    while at is not None and at is not outer:
        if person_code.kind(at.f_code.co_filename) != person_code.OURS:
            found.append((at.f_code, at.f_lasti))
        at = at.f_back
    return tuple(reversed(found))


def told(frames: Iterable[tuple[CodeType, int]]) -> tuple[CodePlace, ...]:
    """The frames that a person may want to see: not Python's own library, nor what every call of torch runs through."""
    places = []
    for code, where in frames:
        if _is_telling(code.co_filename):
            line = ~where if where < 0 else position(code, where)[0]
            places.append(CodePlace(code.co_filename, line, function_of(code)))
    return tuple(places)


def _is_telling(file: str) -> bool:
    kind = person_code.kind(file)
    if kind == person_code.LIBRARY:
        return not person_code.is_pythons_own(file)
    return kind == person_code.TORCH and _in_torch(file) not in _PLUMBING


def _in_torch(file: str) -> str:
    torch_file = getattr(sys.modules.get("torch"), "__file__", None) or ""
    return os.path.relpath(file, os.path.dirname(torch_file)).replace(os.sep, "/")
