"""Summaries of many tensors with few torch calls.

Small tensors of one shape and dtype are stacked and reduced together: a pass over thousands of tiny nodes costs some dozens of
reductions. Whatever torch refuses to reduce (sparse, nested, fp8, subclasses) is looked at alone, and what stays unknown is said.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradscope.model.tensors import (
    INLINE_VALUES,
    KNOWN_COUNTS,
    KNOWN_MEAN,
    KNOWN_NORM,
    KNOWN_RANGE,
    TensorColumns,
)

_CHUNK = 1 << 17
"""Elements stacked at a time: more would leave the cache."""
_KNOWN_ALL = KNOWN_NORM | KNOWN_RANGE | KNOWN_MEAN | KNOWN_COUNTS

Kind = tuple[tuple[int, ...], torch.dtype, torch.device]


def kind_of(tensor: torch.Tensor) -> Kind | None:
    """Shape, dtype and device; None where a tensor does not even tell its shape (strided nested tensors)."""
    try:
        return tuple(tensor.shape), tensor.dtype, tensor.device
    except Exception:
        return None


def summarise(tensors: Sequence[torch.Tensor], kind: Sequence[int] = (), kinds: Sequence[Kind] = ()) -> TensorColumns:
    """Summaries of all tensors, in their order.

    Args:
        tensors: what to look at; never changed, never kept.
        kind: for each tensor its place in `kinds`, where the caller knows it already (asking every tensor costs more than the
            reductions do); -1 where the tensor must be asked.
        kinds: shapes, dtypes and devices.
    """
    with torch.no_grad():
        return _Table(tensors, kind, kinds).columns()


class _Table:
    """The columns while they are filled."""

    def __init__(self, tensors: Sequence[torch.Tensor], kind: Sequence[int], kinds: Sequence[Kind]) -> None:
        self.tensors = tensors
        count = len(tensors)
        self.floats = torch.zeros(4, count, dtype=torch.float64)
        """norm, min, max, mean"""
        self.counts = torch.zeros(3, count, dtype=torch.int64)
        """nan, inf, zero"""
        self.known = torch.zeros(count, dtype=torch.uint8)
        self.start = torch.full((count,), -1, dtype=torch.int64)
        self.values: list[bytes] = []
        self.cells = 0
        self.notes: dict[int, str] = {}
        self.kinds = list(kinds)
        self.kind = list(kind) or [-1] * count
        self.groups = self._groups()

    def _groups(self) -> list[list[int]]:
        """The numbers of the tensors of each kind."""
        numbers = {kind: number for number, kind in enumerate(self.kinds)}
        groups: list[list[int]] = [[] for _ in self.kinds]
        for index, number in enumerate(self.kind):
            if number < 0:
                kind = kind_of(self.tensors[index])
                if kind is None:
                    self.notes[index] = "the tensor does not tell its shape"
                    kind = ((), torch.float32, torch.device("cpu"))
                number = numbers.setdefault(kind, len(groups))
                if number == len(groups):
                    groups.append([])
                    self.kinds.append(kind)
                self.kind[index] = number
            groups[number].append(index)
        return groups

    def columns(self) -> TensorColumns:
        shapeless = set(self.notes)
        for kind, rows in zip(self.kinds, self.groups, strict=True):
            self._reduce_group(kind, [row for row in rows if row not in shapeless] if shapeless else rows)
        return self._packed()

    def _reduce_group(self, kind: Kind, rows: list[int]) -> None:
        shape, dtype, _ = kind
        numel = 1
        for extent in shape:
            numel *= extent
        if numel == 0:
            self._empty(rows)
            return
        per_chunk = max(1, _CHUNK // numel)
        for first in range(0, len(rows), per_chunk):
            chunk = rows[first : first + per_chunk]
            try:
                self._reduce(chunk, self._matrix(chunk, numel, dtype), dtype, numel)
            except Exception:
                for row in chunk:
                    self._reduce_alone(row)

    def _matrix(self, rows: list[int], numel: int, dtype: torch.dtype) -> torch.Tensor:
        """The tensors as rows of one plain matrix.

        Raises:
            TypeError: they are no plain dense tensors of that dtype.
        """
        first = self.tensors[rows[0]]
        stacked = first.detach().unsqueeze(0) if len(rows) == 1 else torch.stack([self.tensors[row] for row in rows])
        if type(stacked) not in (torch.Tensor, torch.nn.Parameter) or stacked.layout != torch.strided or stacked.dtype != dtype:
            raise TypeError("not plain")
        return stacked.reshape(len(rows), numel)

    def _reduce(self, rows: list[int], matrix: torch.Tensor, dtype: torch.dtype, numel: int) -> None:
        where = torch.tensor(rows)
        if numel <= INLINE_VALUES:
            self._inline(where, matrix, dtype, numel)
        known = _KNOWN_ALL
        if dtype.is_complex:
            known &= ~(KNOWN_RANGE | KNOWN_MEAN)
            matrix = matrix.abs()
        wide, counted = _reductions(matrix)
        self.floats[:, where] = wide
        self.counts[:, where] = counted
        self.known[where] = known

    def _inline(self, where: torch.Tensor, matrix: torch.Tensor, dtype: torch.dtype, numel: int) -> None:
        cells = 2 * numel if dtype.is_complex else numel
        if dtype.is_complex:
            matrix = torch.view_as_real(matrix.resolve_conj())
        data = raw_bytes(matrix.to("cpu", torch.float64 if matrix.is_floating_point() else torch.int64))
        self.start[where] = torch.arange(self.cells, self.cells + cells * len(where), cells)
        self.values.append(data)
        self.cells += cells * len(where)

    def _empty(self, rows: list[int]) -> None:
        for row in rows:
            self.floats[3, row] = float("nan")
            self.known[row] = KNOWN_NORM | KNOWN_COUNTS
            self.start[row] = self.cells

    def _reduce_alone(self, row: int) -> None:
        """One tensor that does not stack with its like."""
        tensor = self.tensors[row]
        try:
            dense, absent, note = _plain(tensor)
            if note:
                self.notes[row] = note
            dtype = dense.dtype
            matrix = dense.reshape(1, -1)
            if matrix.numel() + absent == 0:
                self._empty([row])
                return
            if matrix.numel() == 0:
                self.counts[2, row] = absent
                self.known[row] = _KNOWN_ALL
                return
            self._reduce([row], matrix, dtype, matrix.numel() if not absent else INLINE_VALUES + 1)
            if absent:
                self._count_absent(row, matrix.numel(), absent)
        except Exception as error:
            self.known[row] = 0
            self.start[row] = -1
            self.notes[row] = f"{type(tensor).__name__}: {_first_line(error)}"

    def _count_absent(self, row: int, present: int, absent: int) -> None:
        """The zeros that a sparse tensor does not store count as elements."""
        floats = self.floats
        floats[1, row] = min(0.0, float(floats[1, row]))
        floats[2, row] = max(0.0, float(floats[2, row]))
        floats[3, row] = floats[3, row] * present / (present + absent)
        self.counts[2, row] += absent

    def _packed(self) -> TensorColumns:
        kinds = self.kinds
        shapes, dtypes, devices = _Interned(), _Interned(), _Interned()
        shape_of = array("i", [shapes.number(kind[0]) for kind in kinds] or [0])
        dtype_of = array("i", [dtypes.number(str(kind[1]).removeprefix("torch.")) for kind in kinds] or [0])
        device_of = array("i", [devices.number(str(kind[2])) for kind in kinds] or [0])
        floats = [raw_bytes(row) for row in self.floats]
        counts = [raw_bytes(row) for row in self.counts]
        return TensorColumns(
            shapes=shapes.values,
            dtypes=dtypes.values,
            devices=devices.values,
            shape=array("i", [shape_of[number] for number in self.kind]).tobytes(),
            dtype=array("i", [dtype_of[number] for number in self.kind]).tobytes(),
            device=array("i", [device_of[number] for number in self.kind]).tobytes(),
            norm=floats[0],
            min=floats[1],
            max=floats[2],
            mean=floats[3],
            nan=counts[0],
            inf=counts[1],
            zero=counts[2],
            known=raw_bytes(self.known),
            value_start=raw_bytes(self.start),
            values=b"".join(self.values),
            held=b"\1" * len(self.tensors),
            notes=self.notes,
        )


class _Interned:
    """Values numbered in the order they are first seen."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


def _reductions(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(norm, min, max, mean) in float64 and (nan, inf, zero) counts of each row of a real matrix."""
    wide = matrix.to(torch.float64)
    norm = torch.linalg.vector_norm(wide, dim=1)
    mean = wide.sum(1) / wide.shape[1]
    low, high = wide.amin(1), wide.amax(1)
    counts = torch.zeros(3, len(wide), dtype=torch.int64, device=wide.device)
    odd = ~(torch.isfinite(low) & torch.isfinite(high))  # amin and amax give NaN when any element is one
    if bool(odd.any()):
        rows = odd.nonzero().flatten()
        some = wide[rows]
        nan = some.isnan()
        counts[0, rows] = nan.sum(1)
        counts[1, rows] = some.isinf().sum(1)
        low[rows] = some.masked_fill(nan, torch.inf).amin(1)
        high[rows] = some.masked_fill(nan, -torch.inf).amax(1)
        everything = counts[0] == wide.shape[1]
        low[everything] = high[everything] = torch.nan
    rows = (~(wide.abs().amin(1) > 0)).nonzero().flatten()  # counting costs more than looking for the smallest
    if len(rows):
        counts[2, rows] = wide.shape[1] - torch.count_nonzero(wide[rows], dim=1)
    return torch.stack((norm, low, high, mean)).cpu(), counts.cpu()


def _plain(tensor: torch.Tensor) -> tuple[torch.Tensor, int, str]:
    """A dense plain tensor with the same elements, how many zeros it leaves out, and a note."""
    tensor = tensor.detach()
    note = ""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        note = type(tensor).__name__
        tensor = _unwrapped(tensor)
    if tensor.layout == torch.sparse_coo:
        total = tensor.numel()
        values = tensor.coalesce().values()
        return values, total - values.numel(), note or "sparse"
    if tensor.layout != torch.strided:
        total, values = tensor.numel(), tensor.values()
        return values, total - values.numel(), note or str(tensor.layout).removeprefix("torch.")
    if tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.to(torch.float32)
    return tensor, 0, note


def _unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    for unwrap in ("to_local", "full_tensor", "values"):
        method: Callable[[], torch.Tensor] | None = (
            getattr(tensor, unwrap, None) if unwrap != "values" or tensor.is_nested else None
        )
        if method is not None:
            return method().detach()
    return tensor.as_subclass(torch.Tensor)


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """The memory of a CPU tensor, row-major (numpy, which torch would need for this, is not there everywhere)."""
    tensor = tensor.contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
