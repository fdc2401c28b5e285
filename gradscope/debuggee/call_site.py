"""The place in the person's code that called backward, and what stands there: the roots and seeds as written."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

from gradscope.debuggee import frame_locals, person_code, statements
from gradscope.debuggee.code_position import position


@dataclass(frozen=True, slots=True)
class CallSite:
    """Where a call was made: the innermost frame of the person's code (inside a trainer, the line that called the trainer)."""

    file: str
    line: int
    function: str
    code: str


@dataclass(frozen=True, slots=True)
class CallText:
    """The call as written. Empty strings where it cannot be told."""

    roots: tuple[str, ...]
    seeds: tuple[str, ...]
    inputs: tuple[str, ...]


def call_site(frame: FrameType | None) -> CallSite:
    """The site of a call made below this frame."""
    found = person_code.innermost(frame)
    if found is None:
        return CallSite("", 0, "", "")
    code = found.f_code
    line, span = position(code, found.f_lasti)
    text = statements.statement(code.co_filename, line, span[2] if span else None).code
    return CallSite(code.co_filename, line, getattr(code, "co_qualname", code.co_name), text)


def call_text(frame: FrameType | None, roots: int) -> CallText:
    """What the person wrote for each root and its seed, and for `inputs`."""
    found = person_code.innermost(frame)
    call = None if found is None else _backward_call(found)
    if found is None or call is None:
        return CallText(("",) * roots, ("",) * roots, ())
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    method = isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and not _is_module(call.func.value, found)
    if method and isinstance(call.func, ast.Attribute):
        if _holds_no_tensor(call.func.value, found):  # accelerator.backward(loss), self.manual_backward(loss)
            return CallText(_spread(_argument(call, named, 0, "loss", "tensors"), roots), ("",) * roots, ())
        return CallText(
            _spread(call.func.value, roots),
            _spread(_argument(call, named, 0, "gradient"), roots),
            _spread(_argument(call, named, 3, "inputs"), None),
        )
    is_grad = _called(call) == "grad"
    return CallText(
        _spread(_argument(call, named, 0, "outputs" if is_grad else "tensors"), roots),
        _spread(_argument(call, named, 2 if is_grad else 1, "grad_outputs" if is_grad else "grad_tensors"), roots),
        _spread(_argument(call, named, 1 if is_grad else 5, "inputs"), None),
    )


def _backward_call(frame: FrameType) -> ast.Call | None:
    """The call expression that is running in the frame, if it is one that goes backward."""
    line, span = position(frame.f_code, frame.f_lasti)
    for call in statements.calls_at(frame.f_code.co_filename, line, span):
        if _called(call) in ("backward", "grad", "manual_backward"):
            return call
    return None


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _argument(call: ast.Call, named: dict[str, ast.expr], place: int, *names: str) -> ast.expr | None:
    for name in names:
        if name in named:
            return named[name]
    if place < len(call.args) and not any(isinstance(argument, ast.Starred) for argument in call.args[: place + 1]):
        return call.args[place]
    return None


def _spread(written: ast.expr | None, count: int | None) -> tuple[str, ...]:
    """One text for each of so many tensors: the items of a literal list, or the name with an index."""
    if written is None or (isinstance(written, ast.Constant) and written.value is None):
        return ("",) * (count or 0)
    items = written.elts if isinstance(written, ast.List | ast.Tuple) else None
    if items is not None and count in (None, len(items)) and not any(isinstance(item, ast.Starred) for item in items):
        return tuple(ast.unparse(item) for item in items)
    text = ast.unparse(written)
    if count is None or count == 1:
        return (text,)
    return tuple(f"{text}[{number}]" for number in range(count))


def _value(written: ast.expr, frame: FrameType) -> tuple[bool, Any]:
    """What a plain name holds, without running anything."""
    if not isinstance(written, ast.Name):
        return False, None
    here = frame_locals.variables(frame)
    if written.id in here:
        return True, here[written.id]
    return written.id in frame.f_globals, frame.f_globals.get(written.id)


def _is_module(written: ast.expr, frame: FrameType) -> bool:
    """`torch.autograd` or an alias of it."""
    known, value = _value(written, frame)
    return isinstance(value, ModuleType) if known else ast.unparse(written) in ("torch.autograd", "autograd")


def _holds_no_tensor(written: ast.expr, frame: FrameType) -> bool:
    known, value = _value(written, frame)
    return known and not any(one.__name__ in ("Tensor", "TensorBase") for one in type(value).__mro__)
