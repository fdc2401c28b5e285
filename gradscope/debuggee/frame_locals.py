"""Read the variables of a running frame without leaving a trace.

Before Python 3.13 `frame.f_locals` of a function copies the variables into a dict that stays with the frame. That keeps tensors
alive which the person deletes later, and changes a dict that the person got from `locals()` before. So the dict is put back as
it was. From 3.13 on `f_locals` is a view and nothing of this is needed.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from types import FrameType
from typing import Any

_POINTER = ctypes.sizeof(ctypes.c_void_p)
_VIEW = sys.version_info >= (3, 13)


def variables(frame: FrameType) -> dict[str, Any]:
    """A copy of the frame's variables: names to values, in the order of the code."""
    if _VIEW or not frame.f_code.co_flags & inspect.CO_OPTIMIZED or sys.implementation.name != "cpython":
        return dict(frame.f_locals)
    if sys.gettrace() is not None:
        return dict(frame.f_locals)  # a debugger reads and writes that dict itself
    earlier = _snapshot(frame)
    before = None if earlier is None else dict(earlier)
    snapshot = frame.f_locals
    found = dict(snapshot)
    snapshot.clear()
    if before is not None:
        snapshot.update(before)
    return found


def _snapshot(frame: FrameType) -> dict[str, Any] | None:
    """The dict that an earlier `locals()` left with the frame, if there is one."""
    header = object.__basicsize__
    if sys.version_info >= (3, 11):  # PyFrameObject: header, f_back, f_frame
        inner = ctypes.c_void_p.from_address(id(frame) + header + _POINTER).value
        if inner is None:
            return None
        # _PyInterpreterFrame, 3.11: func, globals, builtins, locals; 3.12: code, previous, func, globals, builtins, locals
        place = inner + (3 if sys.version_info < (3, 12) else 5) * _POINTER
    else:  # PyFrameObject: header, ob_size, f_back, f_code, f_builtins, f_globals, f_locals
        place = id(frame) + header + 5 * _POINTER
    pointer = ctypes.c_void_p.from_address(place).value
    if not pointer:
        return None
    snapshot = ctypes.cast(pointer, ctypes.py_object).value
    return snapshot if type(snapshot) is dict else None
