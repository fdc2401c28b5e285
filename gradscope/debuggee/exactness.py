"""Equality to the bit, with NaN equal to NaN, and the sum as AccumulateGrad makes it."""

from __future__ import annotations

from typing import Any

import torch

from gradscope.debuggee.parts import PLAIN, check_own, is_wrapper, parts, same_context

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are the same number for number: -0.0 is not 0.0, a NaN equals every NaN, sparse compares coalesced.

    Raises:
        Opaque: of the tensor's class one cannot tell.
    """
    if one is other:
        return True
    if (type(one) not in PLAIN or type(other) not in PLAIN) and not (one.is_nested and other.is_nested):
        return _same_parts(one, other)
    if one.layout != other.layout or one.dtype != other.dtype or one.device != other.device or one.is_nested != other.is_nested:
        return False
    if not one.is_nested and one.shape != other.shape:  # nested tensors have no plain shape
        return False
    with torch.no_grad():
        return _same(one.detach(), other.detach())


def _same_parts(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of classes of their own: they are made of the same parts."""
    if type(one) is not type(other) and (is_wrapper(one) or is_wrapper(other)):
        return False
    (ones, beside), (others, beside_other) = _parts(one), _parts(other)
    return len(ones) == len(others) and same_context(beside, beside_other) and all(map(same_bits, ones, others))


def _parts(tensor: torch.Tensor) -> tuple[list[torch.Tensor], Any]:
    return ([tensor], None) if type(tensor) in PLAIN else parts(tensor)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.is_nested:
        ones, others = one.unbind(), other.unbind()
        return len(ones) == len(others) and all(map(same_bits, ones, others))
    if one.layout == torch.sparse_coo:
        one, other = one.coalesce(), other.coalesce()
        return _same(one.indices(), other.indices()) and _same(one.values(), other.values())
    if one.layout != torch.strided:
        return bool(torch.equal(one.to_dense(), other.to_dense()))
    if one.dtype.is_complex:
        one, other = torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj())
    integer = _INTEGERS.get(one.element_size())
    if integer is None:
        return bool(torch.equal(one, other))
    one, other = one.resolve_neg(), other.resolve_neg()
    if torch.equal(one.view(integer), other.view(integer)):
        return True
    if not one.is_floating_point():
        return False
    if one.element_size() == 1:
        one, other = one.float(), other.float()
    nan = one.isnan()
    return torch.equal(nan, other.isnan()) and _same_apart(one, other, nan, integer)


def _same_apart(one: torch.Tensor, other: torch.Tensor, nan: torch.Tensor, integer: torch.dtype) -> bool:
    if one.element_size() != torch.empty(0, dtype=integer).element_size():
        integer = _INTEGERS[one.element_size()]
    return torch.equal(one.masked_fill(nan, 0).view(integer), other.masked_fill(nan, 0).view(integer))


def summed(before: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """The sum of two contributions as the engine makes it: torch adds a sparse tensor to a dense one, not the other way round.

    Raises:
        Opaque: they add with Python of the person's.
    """
    check_own(before, following)
    return following + before if before.is_sparse and not following.is_sparse else before + following


def accumulated(before: torch.Tensor | None, total: torch.Tensor | None, create_graph: bool = False) -> torch.Tensor | None:
    """What `.grad` is after AccumulateGrad has added `total` to `before`.

    Raises:
        Opaque: they add with Python of the person's.
    """
    if before is None or total is None:
        return total if before is None else before
    check_own(before, total)
    with torch.no_grad():
        before, total = before.detach(), total.detach()
        if before.is_sparse and not total.is_sparse:
            return total + before
        if create_graph:
            return before + total
        return before.clone().add_(total)
