"""A line is switched off only where nothing that it names is, or holds, or leads to a tensor."""

from __future__ import annotations

import linecache
import math
import re
import sys
from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from gradscope.debuggee.tensor_free import Lines

LINES = Lines(torch)


class Vocabulary:
    def __init__(self, **more: Any) -> None:
        self.words = {"a": 1}
        self.pattern = re.compile("x")
        vars(self).update(more)


def helper() -> int:
    return 1


@pytest.mark.parametrize(
    ("value", "may"),
    [
        (1, False),
        ("text", False),
        ({"a": [1, (2, 3)]}, False),
        (re.compile("x"), False),
        (Counter("abc"), False),
        (math, False),
        (len, False),
        ([].append, False),
        (helper, False),
        (Vocabulary, False),
        (Vocabulary(), False),
        (iter([1]), False),
        (torch.ones(1), True),
        (nn.Linear(1, 1), True),
        (nn.Linear, True),
        (torch, True),
        (torch.sin, True),
        (torch.ones(1).sin, True),
        (nn.functional.relu, False),  # its own lines are watched
        (torch.autograd.grad, True),
        ([1, torch.ones(1)], True),
        ({"a": [torch.ones(1)]}, True),
        (Vocabulary(net=nn.Linear(1, 1)), True),
        (Vocabulary(inner=Vocabulary(w=torch.ones(1))), True),
        ([torch.ones(1)].append, True),
    ],
)
def test_values(value: Any, may: bool) -> None:
    frame = sys._getframe()
    assert LINES.may_make(frame, frame.f_lineno) is True  # it names LINES, which knows torch
    seen = value

    def use() -> bool:
        inner = sys._getframe()
        _ = seen
        return LINES.may_make(inner, inner.f_lineno - 1)

    assert use() is may


def steps(x: Any, flag: bool) -> Any:
    y = x
    if flag:
        y = x + 1
    z = x.T
    n = x.shape
    a = b = n
    x[0] = 1
    p, q = x
    for _ in y:
        pass
    return -z, a, b, p, q


def test_lines_that_never_make_a_node() -> None:
    code = steps.__code__
    never = [line for line in range(1, 13) if LINES.never_makes(code, code.co_firstlineno + line)]
    assert set(never) >= {1, 2, 5, 6}
    assert not {3, 4, 7, 8, 9, 11} & set(never)


def test_what_torch_asks_first_makes_nothing() -> None:
    code = nn.functional.relu.__code__
    lines = sorted({line for _, _, line in code.co_lines() if line is not None})
    made = [line for line in lines if not LINES.never_makes(code, line)]
    source = linecache.getlines(code.co_filename)
    assert any("torch.relu(" in source[line - 1] for line in made)
    assert not any("if has_torch_function_unary(input)" in source[line - 1] for line in made)
