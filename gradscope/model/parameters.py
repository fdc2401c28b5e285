"""The parameters of a rule of `formula_rules`, and the arguments of a call."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from copy import deepcopy


class Replace(ast.NodeTransformer):
    """Puts arguments in the place of a rule's parameters."""

    def __init__(self, bound: Mapping[str, ast.expr]) -> None:
        self.bound = bound

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self.bound.get(node.id)
        return node if found is None else deepcopy(found)


def bind(parameters: str, arguments: Sequence[ast.expr]) -> dict[str, ast.expr]:
    """Parameter -> argument; `*rest` takes what the parameters behind it leave."""
    names = [name.strip() for name in parameters.split(",")]
    star = next((place for place, name in enumerate(names) if name.startswith("*")), None)
    if star is not None:
        tail = len(names) - star - 1
        kept = [*arguments[:star], *arguments[len(arguments) - tail :]] if tail else list(arguments[:star])
        names, arguments = [*names[:star], *names[star + 1 :]], kept
    missing: list[ast.expr] = [ast.Constant(None)] * (len(names) - len(arguments))
    return dict(zip(names, [*arguments, *missing], strict=False))
