"""The tensors that a line of the person's works with, by its text and its frame's variables. Nothing of the person's runs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from gradscope.debuggee import frame_locals, statements
from gradscope.debuggee.holdings import is_module
from gradscope.debuggee.statements import Span

_ITEMS = 200
"""how far into a container, or the parameters of a module"""
_MISSING = object()
_GRADIENTS = ("grad", "data")
"""attributes that make another tensor of one: what is at fault is the one that has them"""


class Written(NamedTuple):
    """A tensor as the line has it."""

    name: str
    role: str
    """`target` or `argument`"""
    tensor: Any


class Line:
    """A line at which a frame stands, or stood when it was left by an exception."""

    def __init__(self, frame: FrameType, line: int, span: Span | None) -> None:
        self._frame = frame
        file = frame.f_code.co_filename
        self.statement = statements.statement(file, line, span[2] if span else None)
        part = _part(self.statement.node, span)
        stored = isinstance(getattr(part, "ctx", None), ast.Store)  # then the whole statement is what failed
        self._part = self.statement.node if part is None or stored else part
        self._variables: Mapping[str, Any] | None = None

    @property
    def raises(self) -> bool:
        """It is a raise or an assert statement."""
        return isinstance(self.statement.node, ast.Raise | ast.Assert)

    @property
    def expression(self) -> str:
        """The part of the statement that was running, where Python tells; else the statement."""
        if self._part is None or self._part is self.statement.node:
            return self.statement.code
        return ast.unparse(self._part)

    @property
    def receiver(self) -> str:
        """What it writes into, or calls a method of: `(w * 2)`."""
        target = None if self._part is None else _target(self._part)
        return "" if target is None else ast.unparse(target)

    def tensors(self) -> list[Written]:
        """Each once, the target first."""
        if self._part is None:
            return []
        target = _target(self._part)
        found: dict[int, Written] = {}
        for node, role in [(target, "target"), (self._part, "argument")]:
            for name, tensor in self._inside(node) if node is not None else ():
                found.setdefault(id(tensor), Written(name, role, tensor))
        return list(found.values())

    # ------------------------------------------------------------ inside

    def _inside(self, node: ast.AST) -> Iterator[tuple[str, Any]]:
        """The tensors of an expression, by the longest names that lead to one."""
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            value = self._value(node)
            if value is not _MISSING:
                yield from _tensors(ast.unparse(_carrier(node)), value)
                return
        if isinstance(node, ast.stmt) and isinstance(getattr(node, "body", None), list):
            return  # of a compound statement only the header runs here
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.Lambda | ast.FunctionDef | ast.ClassDef):
                yield from self._inside(child)

    def _value(self, node: ast.expr) -> Any:
        """What a name, or a chain of attributes and items, holds."""
        if isinstance(node, ast.Name):
            return self._names().get(node.id, _MISSING)
        if isinstance(node, ast.Attribute):
            return _attribute(self._value(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            return _item(self._value(node.value), self._key(node.slice))
        return _MISSING

    def _key(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        return self._value(node) if isinstance(node, ast.Name) else _MISSING

    def _names(self) -> Mapping[str, Any]:
        if self._variables is None:
            self._variables = {**self._frame.f_globals, **frame_locals.variables(self._frame)}
        return self._variables


def _part(node: ast.stmt | None, span: Span | None) -> ast.AST | None:
    """The expression of a statement with this span."""
    if node is None or span is None:
        return None
    return next(
        (part for part in ast.walk(node) if isinstance(part, ast.expr | ast.stmt) and statements.span_of(part) == span), None
    )


def _target(node: ast.AST) -> ast.expr | None:
    """What it writes into, or calls a method of."""
    match node:
        case ast.AugAssign():
            return node.target
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute() as only]):
            return only.value
        case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
            return node.value
        case ast.Call(func=ast.Attribute(value=receiver)):
            return receiver
        case ast.Expr(value=inner):
            return _target(inner)
    return None


def _carrier(node: ast.expr) -> ast.expr:
    """`w` of `w.grad` and `w.data`."""
    while isinstance(node, ast.Attribute) and node.attr in _GRADIENTS:
        node = node.value
    return node


def _attribute(value: Any, name: str) -> Any:
    """What an object holds itself under a name; of a tensor that has a gradient the tensor itself."""
    if value is _MISSING:
        return _MISSING
    if isinstance(value, sys.modules["torch"].Tensor):
        return value if name in _GRADIENTS else _MISSING
    if isinstance(value, ModuleType):
        return vars(value).get(name, _MISSING)
    held = getattr(value, "__dict__", {})
    if is_module(value):
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in held.get(registry, {}):
                return held[registry][name]
    return held.get(name, _MISSING)


def _item(value: Any, key: Any) -> Any:
    """An item of a plain container; of a tensor, whatever the index, the tensor itself."""
    if isinstance(value, sys.modules["torch"].Tensor):
        return value
    if type(value) in (list, tuple, dict) and key is not _MISSING and not isinstance(key, slice):
        try:
            return value[key]
        except (LookupError, TypeError):
            pass
    return _MISSING


def _tensors(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that are meant by a value: itself, its items."""
    tensor_type = sys.modules["torch"].Tensor
    if isinstance(value, tensor_type):
        yield name, value
    elif type(value) in (list, tuple):
        yield from ((f"{name}[{place}]", item) for place, item in enumerate(value[:_ITEMS]) if isinstance(item, tensor_type))
    elif type(value) is dict:
        yield from ((f"{name}[{key!r}]", item) for key, item in islice(value.items(), _ITEMS) if isinstance(item, tensor_type))
