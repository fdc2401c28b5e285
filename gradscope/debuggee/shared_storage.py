"""Different tensors whose elements lie on the same memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

_MOST = 64
"""pairs told"""


def overlapping(tensors: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Pairs of places whose tensors surely have an element in common. The very same tensor, twice, is no pair."""
    by_storage: dict[int, list[tuple[int, int, int]]] = {}
    for place, tensor in enumerate(tensors):
        span = None if tensor is None else _span(tensor)
        if span is not None:
            by_storage.setdefault(span[0], []).append((span[1], span[2], place))
    told = 0
    for spans in by_storage.values():
        spans.sort()
        for at, (_, end, place) in enumerate(spans):
            for start, _, other in spans[at + 1 :]:
                if start >= end or told >= _MOST:
                    break
                if tensors[place] is not tensors[other] and (_is_dense(tensors[place]) or _is_dense(tensors[other])):
                    told += 1
                    yield place, other


def _span(tensor: Any) -> tuple[int, int, int] | None:
    """Where its storage is, the byte at which it begins there, and one past its last; None where it has no memory."""
    try:
        if tensor.device.type == "meta" or tensor.layout != torch.strided or not tensor.numel():
            return None
        storage, start = tensor.untyped_storage().data_ptr(), tensor.data_ptr()
        return (storage, start, start + _extent(tensor) * tensor.element_size()) if storage else None
    except Exception:  # a subclass without storage
        return None


def _extent(tensor: Any) -> int:
    """Elements from its first to its last in memory."""
    return int(1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)))


def _is_dense(tensor: Any) -> bool:
    """There is no gap in it: whoever reaches into its stretch of memory meets an element."""
    return bool(_extent(tensor) == tensor.numel())
