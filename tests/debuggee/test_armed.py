"""The quick look that rules conditions out never errs on the side of no."""

from __future__ import annotations

import math

import pytest
import torch

from gradscope.debuggee.armed import _has_any as has_any
from gradscope.debuggee.armed import split
from gradscope.debuggee.capture import capture
from gradscope.debuggee.commit import Recorded
from gradscope.model.conditions import parse

SCALAR = torch.tensor(1.0)
LARGE = torch.ones(5000)


@pytest.mark.parametrize("plain", [SCALAR, torch.ones(3), torch.ones(2, 3), LARGE, torch.ones(2, dtype=torch.complex64)])
def test_one_among_many(plain: torch.Tensor) -> None:
    many = [plain.clone() for _ in range(3)]
    assert not has_any([many], bad=True, zero=True)
    assert has_any([[*many, torch.zeros_like(plain)]], bad=False, zero=True)
    assert not has_any([[*many, torch.zeros_like(plain)]], bad=True, zero=False)
    bad = plain.clone()
    bad.view(-1)[-1] = math.nan
    assert has_any([[*many, bad]], bad=True, zero=False)
    bad.view(-1)[-1] = -math.inf
    assert has_any([[bad, *many]], bad=True, zero=False)


def test_finite_numbers_whose_sum_is_not() -> None:
    assert not has_any([[torch.full((4,), 60000.0, dtype=torch.half)]], bad=True, zero=False)


def test_empty_ones_are_neither() -> None:
    assert not has_any([[torch.ones(0, 3)]], bad=True, zero=True)


def test_layouts_that_cannot_be_told_quickly() -> None:
    assert has_any([[torch.eye(2).to_sparse()]], bad=True, zero=False)


def test_which_conditions_wait_for_the_call() -> None:
    texts = ["nan", "norm>1e3", "finding:cut", "op:Sin", "train.py:4", "leaf:w", "module:h.0", "step:3", "zero", "undefined"]
    conditions = {text: parse(text) for text in texts}
    before, after = split(conditions, before=False)
    assert list(before) == ["op:Sin", "train.py:4", "leaf:w", "module:h.0", "step:3"]
    assert list(after) == ["nan", "norm>1e3", "finding:cut", "zero", "undefined"]
    assert split(conditions, before=True) == (conditions, {})


def test_what_was_recorded_each_once() -> None:
    w = torch.ones(3, requires_grad=True)
    root = (w * 2 + w.sin()).sum()
    captured = capture([root])
    with Recorded(captured, [torch.ones(())], accumulates=True) as recorded:
        root.backward()
    found = [one for group in recorded.gradients() for one in group]
    assert len(found) == len({id(one) for one in found})
    assert sorted(tuple(one.shape) for one in found) == [(), (3,), (3,), (3,), (3,)]
