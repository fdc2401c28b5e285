"""What is in a tensor, as the protocol carries it: a slice as numbers, or the whole as bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from gradscope.debuggee.parts import PLAIN, elements_of, is_foreign, is_wrapper
from gradscope.errors import UsageError

MOST_VALUES = 1 << 22
"""of one slice"""

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""as safetensors calls them"""


def values_of(tensor: torch.Tensor, index: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, ...], list[float | int | bool]]:
    """Shape and elements, row-major, of a slice; a complex element takes two places.

    Raises:
        UsageError: the index does not fit the tensor, or the slice is too big to send.
    """
    with torch.no_grad():
        plain = _plain(tensor)
        if len(index) != plain.dim():
            raise UsageError(f"the index has {len(index)} dimensions, the tensor {plain.dim()}")
        part = plain[tuple(slice(start, stop, step) for start, stop, step in index)]
        if part.numel() > MOST_VALUES:
            raise UsageError(
                f"{part.numel()} elements are too many to show", f"the most is {MOST_VALUES}", "ask for a smaller slice"
            )
        shape = tuple(part.shape)
        if part.is_complex():
            part = torch.view_as_real(part).double()
        elif part.is_floating_point():
            part = part.double()
        values: list[float | int | bool] = part.flatten().tolist()
        return shape, values


def bytes_of(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    """Name of the dtype, shape and bytes of a whole tensor. A complex one becomes real, with a last dimension of two."""
    with torch.no_grad():
        plain = _plain(tensor)
        if plain.is_complex():
            plain = torch.view_as_real(plain)
        if plain.dtype not in NAMES:
            plain = plain.double() if plain.is_floating_point() else plain.long()
        plain = plain.contiguous()
        data = ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()) if plain.numel() else b""
        return NAMES[plain.dtype], tuple(plain.shape), data


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Dense, on the CPU, without lazy conjugation.

    Raises:
        UsageError: only the tensor's class could tell the numbers.
    """
    plain = tensor.detach() if type(tensor) in PLAIN else _unwrapped(tensor)
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    return plain.cpu().resolve_conj().resolve_neg()


def _unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """What a tensor of another class has in its memory. What a wrapper wraps need not be what it means."""
    if not is_foreign(tensor) and hasattr(tensor, "to_local"):
        local: torch.Tensor = tensor.detach().to_local()  # type: ignore[attr-defined]  # of a DTensor: this rank's share
        return local
    if is_wrapper(tensor):
        raise UsageError(f"the numbers of a {type(tensor).__name__} cannot be shown", "it has none but those that it wraps")
    return elements_of(tensor)
