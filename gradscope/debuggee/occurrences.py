"""Which run of its line made a node: the runs counted of each line, and where the source says that they cannot be told apart."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType

from gradscope.debuggee import statements
from gradscope.debuggee.code_position import position
from gradscope.debuggee.made_by import makes_at, steps_of
from gradscope.debuggee.places import Place

_MANY = {"accumulate", "map", "prod", "reduce", "starmap", "sum"}
"""functions in C that may call torch many times where they are called once"""
_LOOPS = ast.For | ast.AsyncFor | ast.While
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp
_HOMES = {"builtins", "functools", "itertools", "math"}


@dataclass(slots=True)
class Line:
    """What one graph has of a line of one code object."""

    code: CodeType
    line: int
    order: dict[int, int] = field(default_factory=dict)
    """run -> which one it is, from 1, in forward order"""
    places: list[Place] = field(default_factory=list)
    runs: list[set[int]] = field(default_factory=list)
    """of each place"""

    def statements(self) -> list[ast.stmt]:
        return statements.at_line(self.code.co_filename, self.line)


Unsure = Callable[[Line], bool]
"""whether the numbers of a line's runs may be wrong"""


def count(made: Iterable[tuple[Place, int] | None], unsure: Unsure) -> list[int]:
    """Which run of its line each node was made in: 1, 2, …; 0 where that is not known.

    Args:
        made: for each node, in forward order, its place and the number of the run.
        unsure: whether the numbers of a line's runs may be wrong.
    """
    lines: dict[tuple[CodeType, int], Line] = {}
    numbers: dict[int, tuple[Line, set[int]]] = {}
    found: list[tuple[Line, int] | None] = []
    for one in made:
        if one is None:
            found.append(None)
            continue
        place, run = one
        if id(place) not in numbers:
            key = place.code, place.line or position(place.code, place.instruction)[0]
            line = lines.setdefault(key, Line(*key))
            line.places.append(place)
            line.runs.append(set())
            numbers[id(place)] = line, line.runs[-1]
        line, runs = numbers[id(place)]
        runs.add(run)
        line.order.setdefault(run, len(line.order) + 1)
        found.append((line, run))
    known = {key for key, line in lines.items() if 0 not in line.order and not unsure(line)}
    return [one[0].order[one[1]] if one is not None and (one[0].code, one[0].line) in known else 0 for one in found]


def unsure_by_instruction(line: Line) -> bool:
    """For runs told apart by `Runs`: what instructions do not tell."""
    here = line.statements()
    if not here or any(isinstance(statement, ast.While) for statement in here):
        return True  # Python writes the condition of a while twice
    parts = [part for statement in here for part in steps_of(statement)]
    repeated = any(not place.below and len(runs) > 1 for place, runs in zip(line.places, line.runs, strict=True))
    return (repeated and any(map(_may_call_often, parts))) or any(_has_several(arms, line.places) for arms in _arms(parts))


def unsure_by_line(line: Line) -> bool:
    """For runs told apart by events of lines: a line may be come back to, or run again and again, within one statement."""
    here = line.statements()
    if not here:
        return True
    if any(isinstance(part, _LOOPS) and part.body[0].lineno == line.line for part in here):
        return True  # a loop on one line: newer Pythons send one event for all its rounds
    inlined = sys.version_info >= (3, 12) and not line.code.co_name.startswith("<")
    for statement in here:
        parts = list(steps_of(statement))
        if inlined and any(isinstance(part, _COMPREHENSIONS) and part.lineno != part.end_lineno for part in parts):
            return True
        if _is_left_and_come_back_to(line.line, [at for part in parts if (at := makes_at(part))]):
            return True
    return False


def _may_call_often(part: ast.AST) -> bool:
    match part:
        case ast.Call(func=ast.Name(id=name)):
            return name in _MANY
        case ast.Call(func=ast.Attribute(value=ast.Name(id=home), attr=name)):
            return home in _HOMES and name in _MANY
    return False


def _arms(parts: Iterable[ast.AST]) -> Iterator[list[ast.expr]]:
    """Expressions of which one run may do one, and the next run another."""
    for part in parts:
        if isinstance(part, ast.IfExp):
            yield [part.body, part.orelse]
        elif isinstance(part, ast.BoolOp):
            yield part.values


def _has_several(arms: list[ast.expr], places: Iterable[Place]) -> bool:
    spans = [position(place.code, place.instruction)[1] for place in places]
    if None in spans:
        return len(spans) > 1  # Python 3.10 does not tell which
    inside = [any(span is not None and _is_inside(span, arm) for span in spans) for arm in arms]
    return sum(inside) > 1


def _is_inside(span: statements.Span, arm: ast.expr) -> bool:
    outer = statements.span_of(arm)
    return (outer[0], outer[2]) <= (span[0], span[2]) and (span[1], span[3]) <= (outer[1], outer[3])


def _is_left_and_come_back_to(line: int, visited: list[int]) -> bool:
    """Whether other lines make something between two things that this one makes."""
    mine = [place for place, at in enumerate(visited) if at == line]
    return bool(mine) and mine[-1] - mine[0] + 1 != len(mine)
