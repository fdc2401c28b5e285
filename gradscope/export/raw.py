"""The bytes of a small tensor, made from the values that its summary carries: no torch is needed to export it."""

from __future__ import annotations

import struct

from gradscope.model.report import TensorData
from gradscope.model.tensors import Summary, Value

_FORMS = {
    "float64": ("F64", "d"),
    "float32": ("F32", "f"),
    "float16": ("F16", "e"),
    "bfloat16": ("BF16", "H"),
    "int64": ("I64", "q"),
    "int32": ("I32", "i"),
    "int16": ("I16", "h"),
    "int8": ("I8", "b"),
    "uint64": ("U64", "Q"),
    "uint32": ("U32", "I"),
    "uint16": ("U16", "H"),
    "uint8": ("U8", "B"),
    "bool": ("BOOL", "?"),
    "complex64": ("F32", "f"),
    "complex128": ("F64", "d"),
}
"""dtype -> its name in safetensors, the letter of `struct`; complex tensors are real ones with a last dimension of 2"""


def from_values(summary: Summary) -> TensorData | None:
    """The tensor, or None when its values are not all here or safetensors has no such dtype."""
    if summary.values is None or summary.dtype not in _FORMS:
        return None
    name, letter = _FORMS[summary.dtype]
    cells = _cells(summary.dtype, summary.values)
    shape = (*summary.shape, 2) if summary.dtype.startswith("complex") else summary.shape
    return TensorData(name, shape, struct.pack(f"<{len(cells)}{letter}", *cells))


def _cells(dtype: str, values: tuple[Value, ...]) -> list[Value]:
    if dtype.startswith("complex"):
        return [part for value in map(complex, values) for part in (value.real, value.imag)]
    if dtype == "bfloat16":
        return [_upper_half(value) for value in values]
    return list(values)


def _upper_half(value: Value) -> int:
    """A bfloat16 is the upper half of the float32 of the same value."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return int(bits) >> 16
