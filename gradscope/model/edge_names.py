"""What the person calls the tensor that an edge's gradient is of, on the line of the node that sends it.

A tensor made in another function has another name there. Where the sending line says which argument the edge belongs to, that
name is told; else the name it was made by, with the function that has it where the line knows no such name.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import Origin

_PLACES = ast.Name | ast.Attribute | ast.Subscript
"""Expressions that name a tensor and make none."""
_HOMES = {"F", "torch"}
"""what functions of torch's are called by: no tensors"""


def sent_name(graph: BackwardGraph, edge: int) -> str:
    """Empty where the tensor has no name."""
    source, target = graph.source[edge], graph.target[edge]
    for place in graph.leaves_at(target):
        if graph.leaves[place].input_nr == graph.input_nr[edge]:
            return graph.leaves[place].name
    name = graph.gradient_name(target).removeprefix("∂")
    here, there = graph.origin(source), graph.origin(target)
    if here is None or there is None or name != there.target or _same(here, there):
        return name  # `name` of no target: the root's, by the call
    text = here.expression or here.code
    slots = [graph.slot[other] for other in graph.out_edges(source)]
    said = _argument(text, graph.short(source), graph.slot[edge], len(slots), max(slots))
    if said:
        return said
    known = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", here.code)
    return name if known or not name else f"{name} in {there.function.rpartition('.')[2]}"


def _same(here: Origin, there: Origin) -> bool:
    return (here.file, here.function) == (there.file, there.function)


@lru_cache(maxsize=4096)
def _argument(text: str, op: str, slot: int, edges: int, last: int) -> str:
    """What stands in the expression for a slot of the node it made; empty in doubt."""
    call = _expression(text)
    if isinstance(call, ast.BinOp) and op in ("Add", "Sub", "Mul", "Div") and edges == 2 and last == 1:
        return _text((call.left, call.right)[slot])
    if not isinstance(call, ast.Call) or call.keywords or any(isinstance(argument, ast.Starred) for argument in call.args):
        return ""
    arguments = [argument for argument in call.args if not isinstance(argument, ast.Constant)]
    match call.func:
        case ast.Attribute(attr="apply"):
            applied = len(arguments) == last + 1  # else some are no tensors, and which is not known
        case ast.Attribute(value=ast.Name(id=home), attr=name) if home in _HOMES:
            applied = len(arguments) == 1 == edges and _alike(name, op)
        case ast.Attribute(value=receiver, attr=name) if not arguments and edges == 1 and _alike(name, op):
            return _text(receiver)
        case _:
            applied = False
    return _text(arguments[slot]) if applied else ""


def _alike(function: str, op: str) -> bool:
    """Whether the node is that of the function called, not of one of several steps it came to."""
    return function.strip("_").replace("_", "").lower() == op.lower()


def _expression(text: str) -> ast.expr | None:
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):  # part of a statement, or several
        return None
    value = getattr(statement, "value", None)
    return value if isinstance(value, ast.expr) else None


def _text(expression: ast.expr) -> str:
    return ast.unparse(expression) if isinstance(expression, _PLACES) else ""
