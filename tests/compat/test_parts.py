"""Tensors of the person's own classes: compared by their parts, never asked for numbers, never shown as what they are not."""

from __future__ import annotations

import warnings

import pytest
import torch
from rows_layouts import Scaled, Tagged
from torch.masked import masked_tensor

from gradscope.debuggee.engine import gradient_edge
from gradscope.debuggee.exactness import accumulated, same_bits, summed
from gradscope.debuggee.parts import Opaque, copied, elements_of, is_foreign, is_wrapper
from gradscope.debuggee.saved_state import Living
from gradscope.debuggee.summaries import summarise
from gradscope.debuggee.tensor_data import bytes_of, values_of
from gradscope.errors import UsageError
from gradscope.model.tensors import TensorTable

FOUR = torch.tensor([1.0, 2.0, 3.0, 4.0])


class Hidden(torch.Tensor):
    """Keeps what it wraps to itself."""

    __slots__ = ()

    @staticmethod
    def __new__(cls) -> Hidden:
        return torch.Tensor._make_wrapper_subclass(cls, (4,))

    @classmethod
    def __torch_dispatch__(cls, function: object, types: object, args: object = (), kwargs: object = None) -> object:
        raise AssertionError("nobody may ask")


def masked() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return masked_tensor(FOUR, torch.tensor([True, False, True, True]))


def test_wrappers_are_compared_by_what_they_wrap_and_nothing_runs() -> None:
    one, same, other = Scaled(FOUR), Scaled(FOUR.clone()), Scaled(FOUR * 2)
    Scaled.calls = 0
    assert same_bits(one, same)
    assert not same_bits(one, other)
    assert not same_bits(one, FOUR)
    assert (is_wrapper(one), is_foreign(one), copied(one) is one) == (True, True, True)
    for add in (summed, accumulated):
        with pytest.raises(Opaque, match="Scaled computes with its own __torch_dispatch__"):
            add(one, same)
    assert Scaled.calls == 0
    with pytest.raises(Opaque, match="Hidden does not tell what it wraps"):
        same_bits(Hidden(), Hidden())


def test_their_numbers_are_not_known_and_that_is_said() -> None:
    table = TensorTable(summarise([Scaled(FOUR), FOUR, Hidden()]))
    assert [table.summary(place).norm for place in range(3)] == [None, pytest.approx(30**0.5), None]
    assert "Scaled computes with its own" in table.summary(0).note
    for tensor in (Scaled(FOUR), masked()):
        with pytest.raises(UsageError, match=r"the numbers of a .* cannot be shown"):
            values_of(tensor, [(0, 4, 1)])
        with pytest.raises(UsageError, match=r"the numbers of a .* cannot be shown"):
            bytes_of(tensor)


def test_a_class_with_memory_of_its_own_is_read_past_the_class() -> None:
    tagged = FOUR.as_subclass(Tagged)
    Tagged.calls = 0
    assert (is_wrapper(tagged), is_foreign(tagged)) == (False, False)
    assert type(elements_of(tagged)) is torch.Tensor
    assert same_bits(tagged, FOUR)
    assert values_of(tagged, [(1, 3, 1)]) == ((2,), [2.0, 3.0])


def test_what_is_masked_out_does_not_count() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = TensorTable(summarise([masked()])).summary(0)
    assert (summary.norm, summary.min, summary.max) == (pytest.approx(26**0.5), 1.0, 4.0)
    assert "MaskedTensor" in summary.note


def test_the_end_of_a_leaf_that_has_no_views() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(2)], requires_grad=True)
    wrapped = Scaled(FOUR).detach().requires_grad_()
    Scaled.calls = 0
    for leaf in (torch.eye(2).to_sparse().requires_grad_(), nested, wrapped):
        edge = gradient_edge(leaf)
        assert edge.output_nr == 0
        assert edge.node.variable is leaf
    assert Scaled.calls == 0


def test_tensors_of_a_trace_are_left_alone() -> None:
    """They stay alive with compiled code, and torch warns of whoever asks for their memory (warnings are errors here)."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(4, requires_grad=True)
    assert is_wrapper(fake)
    assert not any(leaf is fake for leaf in Living.find().leaves)
