"""The line that made a leaf is told where the source leaves no doubt, and nowhere else."""

from __future__ import annotations

import linecache
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gradscope.debuggee import statements
from gradscope.debuggee.names import leaf_names
from gradscope.model.places import Origin

Lines = Callable[..., list[Any]]


@pytest.fixture
def lines(request: pytest.FixtureRequest) -> Lines:
    """`lines(text)`: (name, line) of the tensors that the script passes to `leaves(…)`; line 0 where none is told."""

    def run(text: str) -> list[Any]:
        file = f"<{request.node.name}>"
        source = textwrap.dedent(text).lstrip()
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        statements.forget()
        found: list[Any] = []

        def leaves(*tensors: torch.Tensor) -> None:
            found.extend(leaf_names(tensors, sys._getframe(1)))

        exec(compile(source, file, "exec"), {"torch": torch, "leaves": leaves})
        return found

    return run


def told(found: list[Any]) -> list[tuple[str, int]]:
    return [(one.name, one.origin.line if one.origin else 0) for one in found]


def test_the_only_assignment(lines: Lines, request: pytest.FixtureRequest) -> None:
    (found,) = lines("""
        import math
        x = torch.tensor(
            [1.0, 2.0],  # two
            requires_grad=True,
        )
        leaves(x)
    """)
    assert found.origin == Origin(
        f"<{request.node.name}>",
        2,
        "<module>",
        code="x = torch.tensor([1.0, 2.0], requires_grad=True)",
        expression="torch.tensor([1.0, 2.0], requires_grad=True)",
        target="x",
    )


def test_ways_to_make_a_leaf(lines: Lines) -> None:
    found = lines("""
        import torch.nn as nn
        from torch import randn
        from torch.nn import Parameter
        a = torch.randn(2).requires_grad_()
        b = nn.Parameter(torch.ones(2))
        c = randn(2)
        d: torch.Tensor = Parameter(torch.ones(1))
        e = a.detach().clone().requires_grad_(True)
        for _ in range(2):
            f = torch.nn.init.normal_(torch.empty(2))
        leaves(a, b, c, d, e, f)
    """)
    assert told(found) == [("a", 4), ("b", 5), ("c", 6), ("d", 7), ("e", 8), ("f", 10)]


def test_variables_of_functions(lines: Lines) -> None:
    found = lines("""
        x = torch.ones(1)
        def outer():
            x = torch.zeros(2)
            y = torch.zeros(2)
            def inner(z):
                leaves(x, y, z)
            y = y
            leaves(x, y)
            inner(torch.ones(3))
        outer()
        leaves(x)
    """)
    assert told(found) == [("x", 3), ("y", 0), ("x", 0), ("y", 0), ("z", 0), ("x", 1)]
    assert found[0].origin.function == "outer"


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.ones(1)\nx = torch.zeros(1)",
        "x = torch.ones(1)\nif False:\n    x = None",
        "x = torch.ones(1)\nx += 1",
        "x = torch.ones(1)\ndef f():\n    global x\n    x = torch.zeros(1)\nf()",
        "x = y = torch.ones(1)\ndel y\nfor x in [torch.ones(1)]: pass",
        "x, y = torch.ones(2)",
        "[x := torch.ones(1)]",
        "def make():\n    return torch.ones(1)\nx = make()",
        "d = {'k': torch.ones(1)}\nx = d.get('k')",
        "d = [torch.ones(1)]\nx = d.pop().requires_grad_()",
        "from math import *\nx = torch.ones(1)",
        "exec('x = torch.ones(1)')",
    ],
)
def test_in_doubt_nothing_is_told(lines: Lines, text: str) -> None:
    assert told(lines(text + "\nleaves(x)")) == [("x", 0)]


def test_a_better_name_is_no_reason_to_tell_a_line(lines: Lines) -> None:
    found = lines("""
        params = {"w": torch.ones(1)}
        net = torch.nn.Linear(1, 1)
        w = torch.nn.Linear(1, 1).weight
        leaves(params["w"], net.weight, w)
    """)
    assert told(found) == [("params['w']", 0), ("net.weight", 0), ("w", 0)]
