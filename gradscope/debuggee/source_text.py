"""What the text of a script says about its lines, found without running it."""

from __future__ import annotations

import ast
import tokenize
from dataclasses import dataclass

_STARTS_BACKWARD = {"backward", "grad"}
"""`loss.backward()`, `accelerator.backward(loss)`, `autograd.grad(…)`: calls by these names may be backward calls."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A place to stop at."""

    line: int
    """where it starts"""
    last: int
    calls_backward: bool


@dataclass(frozen=True, slots=True)
class Tail:
    """A statement after which its module has nothing more to run."""

    line: int
    last: int
    functions: frozenset[str]
    """names of functions of the same file that it mentions"""
    outermost: str
    """the one of them that it calls last; empty where it only hands them on"""


def read(file: str) -> str | None:
    """The text of a source file in its own encoding; None when it cannot be read."""
    try:
        with tokenize.open(file) as stream:
            return stream.read()
    except (OSError, SyntaxError, UnicodeError):
        return None


def parse(file: str) -> ast.Module | None:
    text = read(file)
    try:
        return None if text is None else ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def statement_at(module: ast.Module, line: int) -> Statement | None:
    """The innermost simple statement on a line, else the next one below it: blank lines and comments do not run."""
    statements = [_statement(node) for node in ast.walk(module) if isinstance(node, ast.stmt)]
    here = [s for s in statements if s.line <= line <= s.last]
    if here:
        return max(here, key=lambda s: (s.line, -s.last))
    return min((s for s in statements if s.line > line), key=lambda s: s.line, default=None)


def tails_of(module: ast.Module) -> list[Tail]:
    """What the module does last: its last statement, or those of the block that it is. A loop has no last statement."""
    defined = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return [_tail(node, defined) for node in _last_statements(module.body)]


def _tail(node: ast.stmt, defined: set[str]) -> Tail:
    mentioned = {_name_of(part) for part in ast.walk(node)} & defined
    calls = [name for part in ast.walk(node) if isinstance(part, ast.Call) and (name := _name_of(part.func)) in defined]
    return Tail(node.lineno, node.end_lineno or node.lineno, frozenset(mentioned), calls[0] if calls else "")


def _last_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    if not body:
        return []
    match body[-1]:
        case ast.If(body=then, orelse=otherwise):
            return _last_statements(then) + _last_statements(otherwise)
        case ast.With(body=inner):
            return _last_statements(inner)
        case ast.Try(body=inner, handlers=handlers, orelse=otherwise, finalbody=final):
            blocks = [final] if final else [otherwise or inner, *(handler.body for handler in handlers)]
            return [node for block in blocks for node in _last_statements(block)]
        case ast.Expr() | ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Raise() as simple:
            return [simple]
    return []


def _statement(node: ast.stmt) -> Statement:
    body = getattr(node, "body", None)
    last = node.end_lineno or node.lineno
    if body:  # of a compound statement only its head
        return Statement(node.lineno, max(node.lineno, body[0].lineno - 1), False)
    calls = any(_name_of(part.func) in _STARTS_BACKWARD for part in ast.walk(node) if isinstance(part, ast.Call))
    return Statement(node.lineno, last, calls)


def _name_of(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
