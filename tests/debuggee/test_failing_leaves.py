"""Passes that end at a leaf: its hooks raise, or give back what torch does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from passes import Pass, explored, recorded

pytestmark = pytest.mark.usefixtures("noted")


def raises(_: torch.Tensor) -> None:
    raise ValueError("no")


BAD: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "raises": (raises, "ValueError"),
    "wrong size": (lambda gradient: gradient[:1], "RuntimeError"),
    "no tensor": (lambda gradient: "what", "TypeError"),
}


def op_of_failure(passed: Pass) -> str:
    assert passed.columns.failure is not None
    return passed.graph.op(passed.columns.failure.node)


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("how", [explored, recorded])
def test_a_leaf_whose_hook_fails(what: str, how: Callable[..., Pass]) -> None:
    hook, error = BAD[what]
    x = torch.ones(3, requires_grad=True)
    x.register_hook(hook)
    passed = how((x * 2).sum())
    assert x.grad is None
    assert passed.ops() == ["SumBackward0", "MulBackward0"]
    assert passed.columns.failure is not None
    assert passed.columns.failure.type == error
    assert passed.captured.leaves[0].node == passed.columns.failure.node
    assert passed.after(0) is None
    [sent] = passed.tape.to(passed.captured.leaves[0].node, 0)
    assert passed.tensor(sent.tensor).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("how", [explored, recorded])
def test_the_leaves_before_it_have_theirs(how: Callable[..., Pass]) -> None:
    """The engine takes a leaf as soon as it is complete: y's comes first."""
    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    x.register_hook(raises)
    passed = how((x.sin() * y).sum())
    assert op_of_failure(passed) == "AccumulateGrad"
    ops = passed.ops()
    assert ops == ["SumBackward0", "MulBackward0", "AccumulateGrad", "SinBackward0"]
    ends = [passed.after(place) for place in range(2)]
    place = next(place for place, leaf in enumerate(passed.captured.leaves) if leaf.variable is y)
    assert torch.equal(ends[place], x.sin().detach())
    assert ends[1 - place] is None
    assert x.grad is None


def test_a_hook_after_accumulation_that_raises_leaves_the_gradient() -> None:
    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    y.register_post_accumulate_grad_hook(raises)
    passed = recorded((x.sin() * y).sum())
    place = next(place for place, leaf in enumerate(passed.captured.leaves) if leaf.variable is y)
    assert passed.columns.failure is not None
    assert passed.columns.failure.node == passed.captured.leaves[place].node
    assert passed.ops() == ["SumBackward0", "MulBackward0", "AccumulateGrad"]
    assert torch.equal(passed.after(place), y.grad)
    assert torch.equal(y.grad, x.sin().detach())
    assert x.grad is None


def test_a_hook_after_accumulation_that_is_through_is_not_what_failed() -> None:
    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    y.register_post_accumulate_grad_hook(lambda _: None)
    h = x.sin()
    h.register_hook(raises)
    passed = recorded((h * y).sum())
    assert op_of_failure(passed) == "SinBackward0"


def test_a_leaf_is_not_what_failed_when_the_node_after_it_did() -> None:
    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    h = x.sin()
    h.register_hook(raises)
    passed = recorded((h * y).sum())
    assert passed.ops() == ["SumBackward0", "MulBackward0", "AccumulateGrad"]
    assert op_of_failure(passed) == "SinBackward0"
    assert torch.equal(y.grad, x.sin().detach())
