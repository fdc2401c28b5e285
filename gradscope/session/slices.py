"""Parts of tensors that are here already: values in a summary, bytes in a snapshot."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence

from gradscope.model.report import TensorData
from gradscope.model.tensors import Value

Index = Sequence[tuple[int, int, int]]
"""for each dimension (start, stop, step), as in `Fetch`"""

Cell = float | int | bool

_FORMATS = {
    "F64": "d",
    "F32": "f",
    "F16": "e",
    "BF16": "H",
    "I64": "q",
    "I32": "i",
    "I16": "h",
    "I8": "b",
    "U64": "Q",
    "U32": "I",
    "U16": "H",
    "U8": "B",
    "BOOL": "?",
    "C64": "2f",
    "C128": "2d",
}
"""safetensors' names of dtypes -> struct's; others cannot be read here"""


def shape_of(index: Index) -> tuple[int, ...]:
    """The shape of the slice."""
    return tuple(len(range(*part)) for part in index)


def of_values(values: Sequence[Value], shape: Sequence[int], index: Index) -> list[Cell]:
    """A slice of a tensor whose elements are all here; complex elements take two places."""
    cells: list[Cell] = []
    for place in _places(shape, index):
        value = values[place]
        if isinstance(value, complex):
            cells += (value.real, value.imag)
        else:
            cells.append(value)
    return cells


def of_data(tensor: TensorData, index: Index) -> list[Cell] | None:
    """A slice of a stored tensor; None for a dtype that only torch can read."""
    form = _FORMATS.get(tensor.dtype)
    if form is None:
        return None
    reader = struct.Struct("<" + form)
    cells: list[Cell] = []
    for place in _places(tensor.shape, index):
        cells += reader.unpack_from(tensor.data, place * reader.size)
    return [_from_bfloat16(int(cell)) for cell in cells] if tensor.dtype == "BF16" else cells


def _places(shape: Sequence[int], index: Index) -> Iterator[int]:
    """Where the elements of the slice lie in row-major order."""
    strides = [1] * len(shape)
    for dimension in range(len(shape) - 2, -1, -1):
        strides[dimension] = strides[dimension + 1] * shape[dimension + 1]
    offsets = [[i * stride for i in range(*part)] for part, stride in zip(index, strides, strict=True)]
    return (sum(parts) for parts in itertools.product(*offsets))


def _from_bfloat16(bits: int) -> float:
    value: float = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    return value
