"""Variables that hold what `autograd.grad` gave with create_graph=True, told from the source.

Such a gradient has a graph unless it does not depend on what one differentiates for. Then it looks like any other constant.
"""

from __future__ import annotations

import ast
from types import CodeType

from gradscope.debuggee import leaf_lines, statements


def is_derivative(code: CodeType, name: str) -> bool:
    """Every assignment to the variable in this code gives it gradients of which a graph was asked for."""
    tree = statements.tree(code.co_filename)
    home: ast.AST | None = tree
    if tree is not None and code.co_name != "<module>":
        home = leaf_lines.function_of(tree, code)
    if home is None or not name.isidentifier():
        return False
    bound = [node for node in leaf_lines.own_nodes(home) if leaf_lines.binds(node, name)]
    given = [
        node
        for assigned in leaf_lines.own_nodes(home)
        if isinstance(assigned, ast.Assign) and _asks_for_a_graph(assigned.value)
        for target in assigned.targets
        for node in ast.walk(target)
    ]
    return bool(bound) and all(node in given for node in bound)


def _asks_for_a_graph(value: ast.expr) -> bool:
    """`torch.autograd.grad(y, x, create_graph=True)`, or an item of what it gives."""
    while isinstance(value, ast.Subscript):
        value = value.value
    if not isinstance(value, ast.Call):
        return False
    function = value.func
    called = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    asked = (one.value for one in value.keywords if one.arg == "create_graph")
    return called == "grad" and any(isinstance(one, ast.Constant) and one.value is True for one in asked)
