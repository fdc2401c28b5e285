"""The expression that made a node is told from its name where the line leaves no doubt, and nowhere else."""

from __future__ import annotations

import linecache

import pytest
import torch

from gradscope.debuggee import statements
from gradscope.debuggee.made_by import expression_that_made

assert torch


def told(text: str, op: str, last: bool = False, line: int = 1, after: str = "") -> str:
    linecache.cache["<made>"] = (len(text), None, text.splitlines(keepends=True), "<made>")
    statements.forget()
    done = None
    if after:
        start = text.index(after)
        done = (1, 1, start, start + len(after))
    span = expression_that_made("<made>", line, op, last, done)
    return "" if span is None else statements.expression("<made>", span)


@pytest.mark.parametrize(
    ("text", "op", "expression"),
    [
        ("y = torch.tanh(x @ w + b)", "TanhBackward0", "torch.tanh(x @ w + b)"),
        ("y = torch.tanh(x @ w + b)", "AddBackward0", "x @ w + b"),
        ("y = torch.tanh(x @ w + b)", "MmBackward0", "x @ w"),
        ("y = x.log_softmax(-1)", "LogSoftmaxBackward0", "x.log_softmax(-1)"),
        ("loss = F.cross_entropy(x, t)", "NllLossBackward0", "F.cross_entropy(x, t)"),
        ("y = Square.apply(x)", "SquareBackward", "Square.apply(x)"),
        ("y[0] = 5.0", "CopySlices", "y[0]"),
        ("y += x", "AddBackward0", "y += x"),
        ("y = x[0] ** 2 - len(x)", "PowBackward0", "x[0] ** 2"),
        ("y = -x.T", "NegBackward0", "-x.T"),
        ("y = x * w * v", "MulBackward0", ""),  # which of the two?
        ("y = x * f(x)", "MulBackward0", ""),  # f may multiply too
        ("y = x + sum(xs)", "AddBackward0", ""),  # Python's own sum adds
        ("y = x.sin()", "MulBackward0", ""),
        ("y = x * 2; z = x.sin()", "SinBackward0", ""),  # several statements on one line
        ("y = cosine_similarity(a, b) * 2", "MulBackward0", ""),
        ("y = x.sin()", "", ""),
    ],
)
def test_told(text: str, op: str, expression: str) -> None:
    assert told(text, op) == expression


def test_the_last_of_a_line_is_what_the_line_makes() -> None:
    assert told("y = x * w * v", "MulBackward0", last=True) == "x * w * v"
    assert told("y = x * w + v", "MulBackward0", last=True) == "x * w"
    assert told("y = f(x * w) * v", "MulBackward0", last=True) == ""


def test_what_comes_after_a_call() -> None:
    text = "x = x + self.attn(self.norm(x))"
    assert told(text, "AddBackward0", after="self.attn(self.norm(x))") == "x + self.attn(self.norm(x))"
    assert told(text, "AddBackward0", after="self.norm(x)") == ""


def test_chains_over_several_lines() -> None:
    text = "z = (y.sin()\n     .cos())\n"
    assert told(text, "SinBackward0", line=1) == "y.sin()"
    assert told(text, "CosBackward0", line=2) == "y.sin() .cos()"
    assert told(text, "CosBackward0", line=1) == ""
