"""Gradients that are sparse or nested: recorded, with what can be known of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from passes import Pass, explored, recorded
from torch import nn

from gradscope.debuggee.exactness import same_bits, summed

HOW = pytest.mark.parametrize("how", [explored, recorded])


@HOW
@pytest.mark.parametrize("sparse_first", [True, False])
def test_a_sparse_and_a_dense_gradient_meet(how: Callable[..., Pass], sparse_first: bool) -> None:
    embedding = nn.Embedding(4, 2, sparse=True)
    if sparse_first:  # what is made last comes first
        dense, sparse = (embedding.weight * 2).sum(), embedding(torch.tensor([1])).sum()
    else:
        sparse, dense = embedding(torch.tensor([1])).sum(), (embedding.weight * 2).sum()
    passed = how(dense + sparse)
    expected = torch.full((4, 2), 2.0)
    expected[1] += 1
    assert passed.columns.exact == "true", passed.columns.exact_reason
    assert torch.equal(passed.total(0), expected)
    node = passed.captured.leaves[0].node
    layouts = [passed.tensor(one.tensor).layout for one in passed.tape.to(node, 0)]
    assert layouts == ([torch.sparse_coo, torch.strided] if sparse_first else [torch.strided, torch.sparse_coo])


@HOW
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_nested_tensors(how: Callable[..., Pass], layout: torch.layout) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout, requires_grad=True)
        passed = how(torch.nested.to_padded_tensor(x * 2 + x * 3, 0.0).sum())
    assert passed.columns.exact == "true", passed.columns.exact_reason
    assert [part.tolist() for part in passed.total(0).unbind()] == [[5.0, 5.0], [5.0, 5.0, 5.0]]
    total = passed.tape.leaf_total(0)
    summary = passed.tape.summary(total)
    assert summary.norm == pytest.approx(125**0.5)
    assert (summary.min, summary.max, summary.zero) == (5.0, 5.0, 0)
    assert "ested" in summary.note


def test_sums_that_only_the_engine_can_make_are_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(before: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("not for these")

    monkeypatch.setattr("gradscope.debuggee.tape_builder.summed", refuse)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    passed = explored((x.sin() + x.exp() + x * 2).sum())
    assert passed.columns.exact == "unchecked"
    assert passed.columns.exact_reason == "contributions of 1 gradient could not be added up: RuntimeError: not for these"
    assert passed.columns.notes == [passed.columns.exact_reason]
    torch.testing.assert_close(passed.total(0), (x.cos() + x.exp() + 2).detach())
    assert passed.columns.mismatches == []


def test_sums_and_equality_of_layouts() -> None:
    dense = torch.eye(2)
    sparse = torch.eye(2).to_sparse()
    assert torch.equal(summed(sparse, dense), 2 * dense)
    assert torch.equal(summed(dense, sparse), 2 * dense)
    assert same_bits(summed(sparse, sparse), (2 * dense).to_sparse())
    assert not same_bits(dense, sparse)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        other = torch.nested.nested_tensor([torch.ones(2), torch.ones(4)])
    assert same_bits(one, one.clone())
    assert not same_bits(one, other)
    assert not same_bits(one, torch.ones(2))
