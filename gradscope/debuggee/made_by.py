"""Which expression of a line made a node, read from the source by the node's name: `MulBackward0` of `x * w + b` by `x * w`.

For where Python tells the line alone. It is told only where there is no other way: the line has one expression that makes such
a node, and calls nothing else that might.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from functools import lru_cache

from gradscope.debuggee import statements
from gradscope.debuggee.statements import Span

_PRODUCT = {"@", "matmul", "linear"}
_ALSO: dict[str, set[str]] = {
    "add": {"+"},
    "sub": {"-"},
    "rsub": {"-"},
    "mul": {"*"},
    "div": {"/", "truedivide"},
    "pow": {"**", "square"},
    "neg": {"neg-"},
    "mm": _PRODUCT,
    "mv": _PRODUCT,
    "bmm": _PRODUCT,
    "dot": _PRODUCT,
    "addmm": {"linear"},
    "unsafeview": {*_PRODUCT, "reshape"},
    "view": {"reshape", "flatten", "unflatten", "viewas"},
    "select": {"[]"},
    "slice": {"[]", "narrow"},
    "index": {"[]"},
    "copyslices": {"[]="},
    "permute": {".T", ".mT"},
    "transpose": {".T", ".mT", ".H", "swapaxes"},
    "t": {".T", *_PRODUCT},
    "split": {"chunk"},
    "clone": {"contiguous"},
    "nllloss": {"crossentropy"},
    "logsoftmax": {"crossentropy"},
    "tocopy": {"to", "float", "double", "half", "bfloat16", "type"},
    "scaleddotproductflashattentionforcpu": {"scaleddotproductattention"},
}
"""op, without its `Backward0` and in small letters -> further forms that make it; the function of its own name always does"""
_SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
    ast.MatMult: "@",
}
_COMPOSITE = set().union(*_ALSO.values())
_NO_NODES = {"enumerate", "float", "getattr", "int", "isinstance", "len", "print", "range", "str", "type", "zip"}
"""functions of Python's own in which no node is made"""
_UNKNOWN = "?"
"""a call that may make any node"""


def expression_that_made(file: str, line: int, op: str, last: bool, after: Span | None = None) -> Span | None:
    """The span of the one expression at a line that can have made the node; None in doubt.

    Args:
        file: as Python names it.
        line: where the expression starts.
        op: the node's name: `MulBackward0`, `CopySlices`.
        last: whether it is the last node that this run of the line made.
        after: the call that had returned before the node was made, where one is known.
    """
    if not op:
        return None
    statement = statements.statement(file, line).node
    if statement is None or len(statements.at_line(file, line)) != 1:
        return None
    steps = [(node, form) for node in steps_of(statement) if (form := _form(node))]
    if after is not None:
        ends = [place for place, (node, _) in enumerate(steps) if statements.span_of(node) == after]
        if len(ends) != 1:
            return None
        steps = steps[ends[0] + 1 :]
    wanted = _forms_of(op)
    fitting = [node for node, form in steps if form in wanted and _line_of(node) == line]
    if not fitting or any(form == _UNKNOWN for _, form in steps):
        return None
    if len(fitting) == 1 or (last and fitting[-1] is steps[-1][0]):
        return statements.span_of(fitting[-1])
    return None


def steps_of(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The expressions of a statement in the order in which Python runs them; of a compound one those of its header."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        children: list[ast.AST] = [node.value] if node.value is not None else []
        children += node.targets if isinstance(node, ast.Assign) else [node.target]
    else:
        body = {id(each) for name in ("body", "orelse", "finalbody", "handlers") for each in _list(node, name)}
        children = [child for child in ast.iter_child_nodes(node) if id(child) not in body]
    for child in children:
        if not isinstance(child, ast.Lambda):
            yield from steps_of(child)
    if isinstance(node, ast.expr | ast.AugAssign):
        yield node


def makes_at(step: ast.expr | ast.stmt) -> int:
    """The line that Python gives a step that may make a node; 0 for one that makes none."""
    return _line_of(step) if _form(step) else 0


def _list(node: ast.AST, name: str) -> list[ast.AST]:
    found = getattr(node, name, None)
    return found if isinstance(found, list) else []


def _form(node: ast.AST) -> str:
    """What kind of step it is, as `_ALSO` has it; empty for one that makes no node."""
    match node:
        case ast.BinOp() | ast.AugAssign():
            return _SYMBOLS.get(type(node.op), _UNKNOWN)
        case ast.UnaryOp(op=ast.USub()):
            return "neg-" if not isinstance(node.operand, ast.Constant) else ""
        case ast.Subscript():
            return "[]=" if isinstance(node.ctx, ast.Store) else "[]"
        case ast.Attribute(attr="T" | "mT" | "H" | "mH"):
            return f".{node.attr}"
        case ast.Call():
            return _called(node.func)
        case ast.Await() | ast.Yield() | ast.YieldFrom():
            return _UNKNOWN
    return ""


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        if function.attr == "apply":
            return f"apply {ast.unparse(function.value).rpartition('.')[2].lower()}"
        name = function.attr
    elif isinstance(function, ast.Name):
        if function.id in _NO_NODES:
            return ""
        if hasattr(builtins, function.id) and function.id not in ("abs", "pow"):
            return _UNKNOWN
        name = function.id
    else:
        return _UNKNOWN
    plain = name.replace("_", "").lower()
    return plain if plain in _primitive() or plain in _COMPOSITE else _UNKNOWN


def _forms_of(op: str) -> set[str]:
    stem = re.sub(r"Backward\d*$", "", op).lower()
    return {stem, f"apply {stem}", *_ALSO.get(stem, ())}


@lru_cache(maxsize=1)
def _primitive() -> frozenset[str]:
    """The functions that make one node, of their own name."""
    functions = getattr(getattr(sys.modules.get("torch"), "_C", None), "_functions", None)
    return frozenset(re.sub(r"Backward\d*$", "", name).lower() for name in dir(functions) if "Backward" in name)


def _line_of(node: ast.expr | ast.stmt) -> int:
    """The line that Python gives the step: for a method in a chain over several lines that of its name."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.end_lineno or node.lineno
    return node.lineno
