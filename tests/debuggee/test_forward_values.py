"""Where the forward went bad: the first NaN, else the first infinity, that a bad root or a bad gradient came of."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import pytest
import torch
from passes import Pass, explored, recorded
from torch import nn

from gradscope.debuggee import tensor_hooks
from gradscope.debuggee.capture import capture
from gradscope.debuggee.forward_values import ForwardValues, holds_bad, looked
from gradscope.model.facts import BadValue

pytestmark = pytest.mark.usefixtures("noted")


def born(root: torch.Tensor) -> tuple[str, BadValue] | None:
    """The op and the fact, the same of an explored pass and of the script's own call."""
    found: list[tuple[str, BadValue] | None] = []
    for one in (explored(root), recorded(root)):
        told = one.columns.facts.forward
        assert len(told) <= 1
        found.append((one.graph.op(told[0].node), told[0]) if told else None)
    assert repr(found[0]) == repr(found[1])
    return found[0]


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, requires_grad=True)


def test_log_of_a_negative_number() -> None:
    op, bad = born(torch.log(-leaf(2.0, -3.0)).sum()) or ("", None)
    assert op == "LogBackward0"
    assert bad is not None
    assert (bad.nan, bad.inf, bad.numel, bad.index, bad.cause, bad.certain) == (1, 0, 2, (0,), "log of -2.0", True)


CASES: dict[str, tuple[Callable[[], torch.Tensor], str, str]] = {
    "sqrt": (lambda: torch.sqrt(-leaf(1.0)).sum(), "SqrtBackward0", "sqrt of -1.0"),
    "mean": (lambda: leaf(1.0)[1:].mean(), "MeanBackward0", "mean over 0 elements"),
    "std": (lambda: leaf(1.0).std() + 1, "StdBackward0", "std over 1 element"),
    "0/0": (lambda: (leaf(0.0, 1.0) / leaf(0.0, 1.0)).sum(), "DivBackward0", "0.0 / 0.0"),
    "1/0": (lambda: (leaf(1.0) / leaf(0.0)).sum(), "DivBackward0", "1.0 / 0.0"),
    "overflow": (lambda: leaf(100.0).exp().sum(), "ExpBackward0", "exp of 100.0"),
    "0*inf": (lambda: (leaf(0.0) * leaf(0.0).log()).sum(), "MulBackward0", "0.0 times -inf"),
}


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize("name", CASES)
def test_causes(name: str) -> None:
    make, wanted, cause = CASES[name]
    op, bad = born(make()) or ("", None)
    assert bad is not None
    assert (op, bad.cause, bad.certain) == (wanted, cause, True)


def test_a_row_of_minus_infinity_in_a_softmax() -> None:
    mask = torch.tensor([[True, False], [True, True]])
    scores = leaf(1.0, 2.0, 3.0, 4.0).reshape(2, 2) * 2
    weights = scores.masked_fill(mask, -math.inf).softmax(-1)
    root = (weights @ leaf(1.0, 2.0))[0]
    op, bad = born(root) or ("", None)
    assert bad is not None
    assert math.isfinite(root.item())
    assert (op, bad.nan, bad.index, bad.cause) == ("SoftmaxBackward0", 2, (1, 0), "softmax over a row of -inf")


def test_the_data_were_bad() -> None:
    data = torch.tensor([[1.0, math.nan]])
    op, bad = born(nn.functional.linear(data, leaf(1.0, 1.0).reshape(1, 2), leaf(0.0)).sum()) or ("", None)
    assert bad is not None
    assert (op, bad.cause) == ("AddmmBackward0", "its mat1, which has no gradient, held it already")


def test_a_leaf_was_bad() -> None:
    op, bad = born((leaf(1.0, math.nan) * 2).sum()) or ("", None)
    assert bad is not None
    assert (op, bad.index, bad.cause) == ("AccumulateGrad", (1,), "it held it already")


def test_an_infinity_that_a_gradient_comes_of() -> None:
    power = leaf(0.0, 2.0)
    one = explored(torch.where(power > 1, torch.log2(power), 2 * power).sum())
    (bad,) = one.columns.facts.forward
    assert (one.graph.op(bad.node), bad.inf, bad.value, bad.cause) == ("Log2Backward0", 1, -math.inf, "log2 of 0.0")


def test_an_infinity_that_became_nan_where_nothing_is_known() -> None:
    """The product is not kept in the dtype that the softmax is given."""
    scale, logits = torch.tensor(11.5, dtype=torch.float16, requires_grad=True), torch.tensor([1.0, -1.0, 0.5]).half()
    op, bad = born((scale.exp() * logits).float().log_softmax(0)[0]) or ("", None)
    assert bad is not None
    assert (op, bad.inf, bad.cause) == ("ExpBackward0", 1, "exp of 11.5")


def test_an_infinity_over_an_infinity() -> None:
    large = leaf(100.0, 1.0).exp()
    op, bad = born((large / large.sum()).sum()) or ("", None)
    assert bad is not None
    assert (op, bad.inf, bad.index, bad.cause) == ("ExpBackward0", 1, (0,), "exp of 100.0")


def test_a_mask_that_is_added_is_not_what_made_nan() -> None:
    bias = torch.tensor([-math.inf, -math.inf])
    op, bad = born((leaf(1.0, 2.0) * 2 + bias).softmax(-1).sum()) or ("", None)
    assert bad is not None
    assert (op, bad.nan) == ("SoftmaxBackward0", 2)


HEALTHY: dict[str, Callable[[], torch.Tensor]] = {
    "mask": lambda: leaf(1.0, 2.0).masked_fill(torch.tensor([True, False]), -math.inf).softmax(-1).square().sum(),
    "unselected NaN": lambda: torch.where(torch.tensor([True, False]), (leaf(1.0, -1.0).log() * 2), leaf(4.0, 2.0)).sum(),
    "finite": lambda: leaf(1.0, 2.0).log().sum(),
    "exp of -inf": lambda: leaf(0.0, 1.0).detach().log().add(leaf(1.0, 1.0)).exp().sum(),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_meant_is_not_told(name: str) -> None:
    assert born(HEALTHY[name]()) is None


def test_a_mask_is_not_blamed_for_a_gradient_that_overflows() -> None:
    weights = leaf(1.0, 2.0).masked_fill(torch.tensor([True, False]), -math.inf).softmax(-1)
    one = explored((weights * 2).sum(), torch.tensor(math.inf))
    assert one.columns.facts.forward == []


def test_a_root_that_is_bad_is_told() -> None:
    assert explored([leaf(1.0).sum(), leaf(-1.0).log().sum()]).columns.facts.roots_bad == [1]
    assert explored(leaf(1.0).sum()).columns.facts.roots_bad == []


def test_nothing_is_recomputed_or_unpacked() -> None:
    calls = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return tensor

    tensor_hooks.unpack_hooks = True
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            root = (-leaf(1.0)).sqrt().sqrt().sum()
        one: Pass = recorded(root)
    finally:
        tensor_hooks.unpack_hooks = False
    assert len(calls) == 2
    assert one.columns.facts.roots_bad == [0]


def test_the_quick_look() -> None:
    good = leaf(1.0, 2.0).exp().log().sum()
    bad = leaf(1.0, -2.0).log().exp().sum()
    assert not holds_bad(explored(good).captured)
    scores, mask = leaf(1.0, 2.0) * 1, torch.tensor([0.0, -math.inf])
    assert not holds_bad(explored((scores * mask.exp() + (scores.detach() + mask) * leaf(1.0, 1.0)).sum()).captured)
    assert holds_bad(explored(bad).captured)
    large = (leaf(3e38, 3e38) * 1.0).exp().detach()
    assert looked(large).inf == 2


def test_tensors_are_let_go_of() -> None:
    x = leaf(-1.0)
    middle = x * 2
    root = middle.log().sum()
    before = sys.getrefcount(middle)
    explored(root)
    assert sys.getrefcount(middle) == before


def test_memory_that_was_freed_under_a_saved_tensor_is_not_read() -> None:
    """As FSDP does with parameters between forward and backward."""
    weight = leaf(1.0, float("inf"))
    root = (leaf(1.0, 2.0) * weight).sum()
    captured = capture([root])
    assert holds_bad(captured)
    weight.untyped_storage().resize_(0)
    assert not holds_bad(captured)
    values = ForwardValues(captured)
    values.look()
    assert [look.bad for look in values.looks.values()].count(True) == 1  # the root, which is there itself
