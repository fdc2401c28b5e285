"""The line that made a leaf tensor: its variable's only assignment, `x = torch.tensor(…)`, where there can be no other.

Leaves are made before anything watches, so their lines are read from the source, and only told when they are certain.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from gradscope.debuggee import statements
from gradscope.debuggee.person_code import TORCH, kind
from gradscope.model.places import Origin

_MADE_OF_OTHERS = {"clone", "detach", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros"}
"""methods that make a tensor of another one"""
_ITSELF = {"requires_grad_", "normal_", "uniform_", "fill_", "zero_"}
"""methods that a leaf may be given on the line that makes it, and that return it"""
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp)

_known: dict[tuple[str, int, str], Origin | None] = {}


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose variable it is: that of a function, or of a file."""

    file: str
    code: CodeType | None = field(repr=False)
    """None for the variables of the file itself"""
    namespace: dict[str, Any] = field(repr=False)
    """the file's"""


def made_at(scope: Scope, name: str) -> Origin | None:
    """The statement that made the tensor which this variable holds; None unless that is certain."""
    key = scope.file, scope.code.co_firstlineno if scope.code is not None else 0, name
    if key not in _known:
        _known[key] = _look(scope, name)
    return _known[key]


def _look(scope: Scope, name: str) -> Origin | None:
    tree = statements.tree(scope.file)
    home = tree if scope.code is None or tree is None else function_of(tree, scope.code)
    if tree is None or home is None or _written_elsewhere(tree, name):
        return None
    found = [node for node in own_nodes(home) if binds(node, name)]
    if len(found) != 1 or not isinstance(found[0], ast.Name):
        return None
    made = [node for node in own_nodes(home) if isinstance(node, ast.Assign | ast.AnnAssign) and found[0] in _targets(node)]
    if not made or made[0].value is None or not _makes_tensor(made[0].value, scope):
        return None
    line = made[0].lineno
    function = "<module>" if scope.code is None else getattr(scope.code, "co_qualname", scope.code.co_name)
    code = statements.statement(scope.file, line, made[0].col_offset).code
    return Origin(scope.file, line, function, code=code, expression=ast.unparse(made[0].value), target=name)


def function_of(tree: ast.Module, code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function of a file that has this code."""
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return None
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    named = (node for node in functions if node.name == code.co_name)
    return next((node for node in named if _first_line(node) == code.co_firstlineno), None)


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def own_nodes(home: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the scopes inside."""
    waiting = list(ast.iter_child_nodes(home))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _OWN_SCOPE):
            waiting.extend(ast.iter_child_nodes(node))


def binds(node: ast.AST, name: str) -> bool:
    """Whether the node gives the variable a value, or takes it away."""
    match node:
        case ast.Name():
            return node.id == name and not isinstance(node.ctx, ast.Load)
        case ast.arg():
            return node.arg == name
        case ast.alias():
            return name in ((node.asname or node.name).partition(".")[0], "*") or node.name == "*"
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return node.name == name
        case ast.MatchMapping():
            return node.rest == name
    return False


def _written_elsewhere(tree: ast.Module, name: str) -> bool:
    """Some inner scope says `global` or `nonlocal`, or assigns out of a comprehension."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            return True
        if isinstance(node, ast.NamedExpr) and node.target.id == name:
            return True
    return False


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _makes_tensor(value: ast.expr, scope: Scope) -> bool:
    """A call of a function of torch's, or a copy of another tensor."""
    if not isinstance(value, ast.Call):
        return False
    while isinstance(value.func, ast.Attribute) and value.func.attr in _ITSELF and isinstance(value.func.value, ast.Call):
        value = value.func.value
    if isinstance(value.func, ast.Attribute) and value.func.attr in _MADE_OF_OTHERS:
        return True
    return _is_torchs(value.func, scope.namespace)


def _is_torchs(function: ast.expr, namespace: dict[str, Any]) -> bool:
    """`torch.randn`, `nn.Parameter`, or a name imported from torch."""
    path = []
    while isinstance(function, ast.Attribute):
        path.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return False
    found = namespace.get(function.id)
    if type(found) is ModuleType:
        return bool(path) and kind(vars(found).get("__file__") or "") == TORCH
    if path:
        return False
    if type(found) is FunctionType or issubclass(type(found), type):
        home = type.__getattribute__(found, "__dict__").get("__module__") if isinstance(found, type) else found.__module__
        return str(home).partition(".")[0] == "torch"
    return type(found) is BuiltinFunctionType and vars(sys.modules["torch"]).get(found.__name__) is found
