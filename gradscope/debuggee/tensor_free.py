"""Whether a line of code could make a node: whether anything that it names is, or holds, a tensor, or is a way to one.

Only `__dict__`s and plain containers are read; none of the person's code runs. In doubt the answer is that it could.
"""

from __future__ import annotations

import dis
import sys
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from gradscope.debuggee import frame_locals, person_code
from gradscope.debuggee.traced_code import is_traced

_DEPTH = 3
_ITEMS = 8
"""items of a container that stand for all of them"""
_MOST = 200
"""objects looked at for one answer"""
_HARMLESS = {"numpy", "regex"}
"""libraries that make no nodes"""
_LOADS = ("LOAD_FAST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "STORE_FAST", "LOAD_FROM_DICT_OR")


class Lines:
    """Answers for one torch."""

    def __init__(self, torch: Any) -> None:
        self._tensors = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer, torch.autograd.Function, torch.Storage)
        self._steps: dict[int, _Steps] = {}

    def may_make(self, frame: FrameType, line: int) -> bool:
        """Whether a line of the frame's code could make a node; with line 0 the whole code, as long as this frame runs it."""
        names = self._steps_of(frame.f_code).names
        wanted = names.get(line, set()) if line else set().union(*names.values())
        variables = frame_locals.variables(frame)
        left = [_MOST]
        for name in wanted:
            value = variables.get(name, frame.f_globals.get(name))
            if value is not None and self._may(value, 0, left):
                return True
        return False

    def never_makes(self, code: CodeType, line: int) -> bool:
        """Whether no instruction of the line could make a node, whatever its variables hold."""
        steps = self._steps.get(id(code)) or self._steps_of(code)
        return line not in steps.makers

    def _may(self, value: Any, depth: int, left: list[int]) -> bool:
        """Whether a value is, holds or leads to a tensor."""
        made = type(value)
        left[0] -= 1
        if left[0] < 0 or issubclass(made, self._tensors):
            return True
        if made in _PLAIN:
            return False
        if issubclass(made, type):
            return issubclass(value, self._tensors) or _is_torchs(getattr(value, "__module__", ""))
        if made is ModuleType:
            return _makes_nodes(value.__name__)
        if made is FunctionType:
            return not is_traced(value.__code__) and _makes_nodes(str(value.__module__))
        if made is BuiltinFunctionType or made is MethodType:
            bound = getattr(value, "__self__", None)
            return _is_torchs(str(getattr(value, "__module__", ""))) or (bound is not None and self._may(bound, depth + 1, left))
        if depth >= _DEPTH:
            return made not in (dict, list, tuple, set, frozenset, deque)
        return self._may_inside(value, made, depth, left)

    def _may_inside(self, value: Any, made: type, depth: int, left: list[int]) -> bool:
        if issubclass(made, dict):
            inside = list(islice(dict.values(value), _ITEMS))
        elif issubclass(made, list | tuple | set | frozenset | deque):
            inside = list(islice(value, _ITEMS)) if made in _CONTAINERS else []
        elif _is_standard(made):
            return False
        else:
            attributes = _attributes(value)
            if attributes is None:
                return made.__module__.partition(".")[0] not in _HARMLESS
            inside = list(attributes.values())
        return any(self._may(item, depth + 1, left) for item in inside)

    def _steps_of(self, code: CodeType) -> _Steps:
        number = id(code)
        known = self._steps.get(number)
        if known is None:
            known = self._steps[number] = _read(code, lambda _: self._steps.pop(number, None))
        return known


@dataclass(slots=True)
class _Steps:
    """What the lines of a code object do."""

    code: weakref.ref[CodeType]
    names: dict[int, set[str]]
    """line -> the variables that it reads or writes"""
    makers: set[int]
    """the lines that have an instruction which could make a node"""


def _read(code: CodeType, gone: Callable[[object], object]) -> _Steps:
    steps = _Steps(weakref.ref(code, gone), {}, set())
    line = code.co_firstlineno
    starts = {start: line for start, _, line in code.co_lines() if line is not None}
    in_torch = person_code.kind(code.co_filename) == person_code.TORCH
    harmless = 0
    for instruction in dis.get_instructions(code):
        line = starts.get(instruction.offset, line)
        name = instruction.opname
        if name.startswith(_LOADS):
            found = instruction.argval
            steps.names.setdefault(line, set()).update([found] if isinstance(found, str) else found)
            harmless += in_torch and found in _ASKS
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            if instruction.argval in _MAKING_ATTRIBUTES:
                steps.makers.add(line)
        elif name.startswith("CALL") and harmless:
            harmless -= 1
        elif name.startswith(_MAKING):
            steps.makers.add(line)
    return steps


_MAKING = (
    *("CALL", "BINARY_", "INPLACE_", "STORE_SUBSCR", "STORE_SLICE", "UNARY_NEG", "UNARY_INV", "COMPARE_OP", "UNPACK_"),
    *("GET_ITER", "GET_YIELD", "GET_AWAITABLE", "SEND", "FOR_ITER", "END_FOR", "LIST_EXTEND", "SET_UPDATE", "DICT_"),
    *("BEFORE_", "LOAD_SPECIAL", "IS_OP", "CONTAINS_OP", "IMPORT_", "MATCH_"),
)
"""Instructions that torch's C++ could make a node in."""
_MAKING_ATTRIBUTES = {"T", "mT", "H", "mH", "real", "imag", "grad", "data"}
_ASKS = {"has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "isinstance", "len"}
"""What torch's own functions ask first: no nodes come of it."""
_CONTAINERS = {list, tuple, set, frozenset, deque}
_PLAIN = {int, float, complex, bool, str, bytes, bytearray, type(None), range, slice, type(...)}


def _is_torchs(module: str) -> bool:
    return module.partition(".")[0] == "torch"


def _makes_nodes(module: str) -> bool:
    """Whether a library could make nodes on its own account."""
    root = module.partition(".")[0]
    if root in _HARMLESS or root in sys.stdlib_module_names:
        return False
    found = sys.modules.get(module)
    file = getattr(found, "__file__", None)
    return not (file and file.endswith(".py") and is_traced(compile("", file, "exec")))  # the person's own: its lines are watched


def _is_standard(made: type) -> bool:
    """A class of Python's own: files, patterns, counters, iterators."""
    return made.__module__.partition(".")[0] in sys.stdlib_module_names


def _attributes(value: Any) -> dict[str, Any] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None
