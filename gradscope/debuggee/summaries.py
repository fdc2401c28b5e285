"""Summaries of many tensors with few torch calls.

Small tensors of one shape and dtype are stacked and reduced together: a pass over thousands of tiny nodes costs some dozens of
reductions. Large ones are reduced piece by piece, as lies well in the cache, and views of the same memory once. Whatever torch
refuses to reduce (sparse, nested, fp8, subclasses) is looked at alone, and what stays unknown is said.
"""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Callable, Sequence

import torch

from gradscope.debuggee.interned import Interned
from gradscope.debuggee.parts import PLAIN, Opaque, check_own, elements_of, is_foreign_class, is_wrapper
from gradscope.model.tensors import (
    INLINE_VALUES,
    KNOWN_COUNTS,
    KNOWN_MEAN,
    KNOWN_NORM,
    KNOWN_RANGE,
    TensorColumns,
)

_PIECE = 1 << 17
"""Elements reduced at a time: more would leave the cache."""
_WORTH_SHARING = 1 << 12
"""Elements from which on it pays to find out whether two tensors are views of the same memory."""
_MANY = 64
"""From so many tensors of one shape on they are not mixed with those of other shapes: reshaping each would cost more."""
_ALL = KNOWN_NORM | KNOWN_RANGE | KNOWN_MEAN | KNOWN_COUNTS
_COMPLEX = KNOWN_NORM | KNOWN_COUNTS
_NAN = float("nan")

Kind = tuple[tuple[int, ...], torch.dtype, torch.device]


def kind_of(tensor: torch.Tensor) -> Kind | None:
    """Shape, dtype and device; None where there is no plain shape (nested and symbolic tensors)."""
    try:
        shape = tuple(tensor.shape)
        return (shape, tensor.dtype, tensor.device) if all(type(extent) is int for extent in shape) else None
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
        self.kinds, self.kind = list(kinds), list(kind) or [-1] * len(tensors)
        self.start = torch.full((len(tensors),), -1, dtype=torch.int64)
        self.values: list[bytes] = []
        self.cells = 0
        self.notes: dict[int, str] = {}
        self._rows: list[int] = []
        self._parts: list[torch.Tensor] = []
        """rows of (norm, min, max, sum, non-zeros), in the order of `_rows`"""
        self._known: list[int] = []
        self._numel: list[int] = []
        self._twins: dict[int, int] = {}
        """row -> the row that is a view of the same elements"""
        self._by_memory: dict[tuple[int, int, torch.dtype], int] = {}
        self._groups = self._grouped()

    def _grouped(self) -> list[list[int]]:
        """The numbers of the tensors of each kind."""
        numbers = {kind: number for number, kind in enumerate(self.kinds)}
        for index in [index for index, number in enumerate(self.kind) if number < 0]:
            kind = kind_of(self.tensors[index])
            if kind is None:
                self.notes[index] = "the tensor has no plain shape"
                kind = ((), _dtype_of(self.tensors[index]), torch.device("cpu"))
            number = self.kind[index] = numbers.setdefault(kind, len(self.kinds))
            if number == len(self.kinds):
                self.kinds.append(kind)
        if not self.kinds:
            return []
        kinds = _column(self.kind)
        order: list[int] = torch.argsort(kinds, stable=True).tolist()
        ends = torch.bincount(kinds, minlength=len(self.kinds)).cumsum(0).tolist()
        return [order[first:end] for first, end in zip([0, *ends], ends, strict=False)]

    def columns(self) -> TensorColumns:
        shapeless = set(self.notes)
        few: dict[tuple[int, torch.dtype, torch.device], list[int]] = {}
        for (shape, dtype, device), rows in zip(self.kinds, self._groups, strict=True):
            if shapeless:
                rows = [row for row in rows if row not in shapeless]
            if len(rows) < _MANY:
                few.setdefault((math.prod(shape), dtype, device), []).extend(rows)
            else:
                self._reduce_some(math.prod(shape), dtype, rows)
        for (numel, dtype, _), rows in few.items():
            self._reduce_some(numel, dtype, rows)
        for row in shapeless:
            self._reduce_alone(row)
        return self._packed()

    # ------------------------------------------------------------ reducing

    def _reduce_some(self, numel: int, dtype: torch.dtype, rows: list[int]) -> None:
        """Tensors with as many elements of one dtype; of one shape if they are many."""
        if numel == 0:
            self._add(rows, torch.tensor([0.0, _NAN, _NAN, 0.0, 0.0]).expand(len(rows), 5), KNOWN_NORM | KNOWN_COUNTS, 0)
            self.start[_column(rows)] = self.cells
            return
        if numel >= _WORTH_SHARING and not dtype.is_complex:
            rows = [row for row in rows if not self._is_twin(row, numel)]
        step = max(1, _PIECE // numel)
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            try:
                self._reduce_alike(some, numel, dtype)
            except Exception:
                for row in some:
                    self._reduce_alone(row)

    def _is_twin(self, row: int, numel: int) -> bool:
        """Whether an earlier tensor has the same elements in the same memory; only their order may differ."""
        tensor = self.tensors[row]
        if type(tensor) is not torch.Tensor or tensor.layout != torch.strided or tensor.is_neg():
            return False
        earlier = self._by_memory.setdefault((tensor.data_ptr(), numel, tensor.dtype), row)
        if earlier == row or not (_is_dense(tensor) and _is_dense(self.tensors[earlier])):
            return False
        self._twins[row] = earlier
        return True

    def _reduce_alike(self, rows: list[int], numel: int, dtype: torch.dtype) -> None:
        """Plain tensors that fit one matrix.

        Raises:
            TypeError: they are no plain dense tensors of that dtype.
        """
        tensors = [self.tensors[row] for row in rows]
        if any(map(is_foreign_class, set(map(type, tensors)))):
            raise TypeError("not plain")
        if len(tensors) < _MANY:
            order = _row_major if numel <= INLINE_VALUES else _in_memory_order
            tensors = [order(tensor) for tensor in tensors]
        matrix = torch.stack(tensors) if len(tensors) > 1 else tensors[0].detach().unsqueeze(0)
        if type(matrix) not in PLAIN or matrix.layout != torch.strided or matrix.dtype != dtype:
            raise TypeError("not plain")
        matrix = matrix.reshape(len(rows), numel)
        reduced = _reduced_in_pieces(matrix)
        if numel <= INLINE_VALUES:
            self._inline(rows, matrix)
        self._add(rows, reduced, _COMPLEX if dtype.is_complex else _ALL, numel)

    def _inline(self, rows: list[int], matrix: torch.Tensor) -> None:
        if matrix.is_complex():
            matrix = torch.view_as_real(matrix.resolve_conj()).flatten(1)
        cells = matrix.shape[1]
        self.values.append(raw_bytes(matrix.to("cpu", torch.float64 if matrix.is_floating_point() else torch.int64)))
        self.start[_column(rows)] = torch.arange(self.cells, self.cells + cells * len(rows), cells)
        self.cells += cells * len(rows)

    def _add(self, rows: list[int], part: torch.Tensor, known: int, numel: int) -> None:
        self._rows.extend(rows)
        self._parts.append(part)
        self._known.extend([known] * len(rows))
        self._numel.extend([numel] * len(rows))

    def _reduce_alone(self, row: int) -> None:
        """One tensor that does not stack with its like."""
        tensor = self.tensors[row]
        try:
            elements, absent, note = _elements(tensor)
            if note:
                self.notes[row] = note
            present = elements.numel()
            if present + absent == 0:
                reduced = torch.tensor([[0.0, _NAN, _NAN, 0.0, 0.0]])
            elif present == 0:
                reduced = torch.zeros(1, 5)
            else:
                reduced = _reduced_in_pieces(elements.reshape(1, -1))
                if absent:
                    reduced[:, 1].clamp_(max=0.0)
                    reduced[:, 2].clamp_(min=0.0)
                elif present <= INLINE_VALUES and present == math.prod(self.kinds[self.kind[row]][0]):
                    self._inline([row], elements.reshape(1, -1))
            known = _COMPLEX if elements.is_complex() or present + absent == 0 else _ALL
            self._add([row], reduced, known, present + absent)
        except Exception as error:
            self.start[row] = -1
            self.notes[row] = f"{type(tensor).__name__}: {_first_line(error)}"

    # ------------------------------------------------------------ the result

    def _finished(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(norm, min, max, mean), (nan, inf, zero) and known, by tensor."""
        count = len(self.tensors)
        floats, counts = torch.zeros(4, count, dtype=torch.float64), torch.zeros(3, count, dtype=torch.int64)
        known = torch.zeros(count, dtype=torch.uint8)
        if self._rows:
            rows, numel = _column(self._rows), _column(self._numel)
            norm, low, high, total, nonzero = torch.cat([part.to("cpu", torch.float64) for part in self._parts]).unbind(1)
            floats[:, rows] = torch.stack((norm, low, high, total / numel))
            counts[2, rows] = numel - nonzero.long()
            known[rows] = _column(self._known).to(torch.uint8)
            odd = rows[~(torch.isfinite(norm) & torch.isfinite(low) & torch.isfinite(high)) & (numel > 0)]
            for row in odd.tolist():
                self._look_again(row, floats, counts)
        for row, twin in self._twins.items():
            floats[:, row], counts[:, row], known[row] = floats[:, twin], counts[:, twin], known[twin]
            if twin in self.notes:
                self.notes.setdefault(row, self.notes[twin])
        return floats, counts, known

    def _look_again(self, row: int, floats: torch.Tensor, counts: torch.Tensor) -> None:
        """A tensor with elements that are not finite: count them, and take the range of the others."""
        elements, absent, _ = _elements(self.tensors[row])
        nan = elements.isnan()
        counts[0, row], counts[1, row] = nan.sum(), elements.isinf().sum()
        counts[2, row] = elements.numel() - torch.count_nonzero(elements) + absent
        if not elements.is_complex():
            low, high = elements.masked_fill(nan, torch.inf).amin(), elements.masked_fill(nan, -torch.inf).amax()
            if absent:
                low, high = low.clamp(max=0), high.clamp(min=0)
            elif int(counts[0, row]) == elements.numel():
                low = high = torch.tensor(torch.nan)
            floats[1, row], floats[2, row] = low, high

    def _packed(self) -> TensorColumns:
        floats, counts, known = self._finished()
        shapes: Interned[tuple[int, ...]] = Interned()
        dtypes: Interned[str] = Interned()
        devices: Interned[str] = Interned()
        shape_of = [shapes.number(kind[0]) for kind in self.kinds]
        dtype_of = [dtypes.number(str(kind[1]).removeprefix("torch.")) for kind in self.kinds]
        device_of = [devices.number(str(kind[2])) for kind in self.kinds]
        kind = _column(self.kind)
        shape, dtype, device = (raw_bytes(_column(table)[kind].int()) for table in (shape_of, dtype_of, device_of))
        norm, low, high, mean = map(raw_bytes, floats)
        nan, inf, zero = map(raw_bytes, counts)
        return TensorColumns(
            shapes=shapes.values,
            dtypes=dtypes.values,
            devices=devices.values,
            shape=shape,
            dtype=dtype,
            device=device,
            norm=norm,
            min=low,
            max=high,
            mean=mean,
            nan=nan,
            inf=inf,
            zero=zero,
            known=raw_bytes(known),
            value_start=raw_bytes(self.start),
            values=b"".join(self.values),
            held=b"\1" * len(self.tensors),
            notes=self.notes,
        )


def _column(numbers: list[int]) -> torch.Tensor:
    """int64; `torch.tensor` takes three times as long."""
    return torch.frombuffer(array("q", numbers), dtype=torch.int64) if numbers else torch.zeros(0, dtype=torch.int64)


def _reduced(matrix: torch.Tensor) -> torch.Tensor:
    """(norm, min, max, sum, non-zeros) of each row, in float64; NaN where an element is."""
    if matrix.is_complex():
        matrix = matrix.abs()
    elif not matrix.is_floating_point() or matrix.element_size() == 1:
        matrix = matrix.to(torch.float64)
    wide = matrix.to(torch.float64)
    if len(matrix) == 1:  # the reductions without a dimension are the faster ones
        row, flat = wide[0], matrix[0]
        low, high = flat.aminmax()
        signs = (flat if flat.dtype in (torch.float32, torch.float64) else row).sgn()
        parts = [torch.dot(row, row).sqrt_(), low.double(), high.double(), row.sum(), torch.dot(signs, signs).double()]
        return torch.stack(parts).unsqueeze(0)
    norm, total = torch.linalg.vector_norm(wide, dim=1), wide.sum(1)
    nonzero = (
        matrix.sgn().abs_().sum(1, dtype=torch.float32)
    )  # exact: pieces are short; counting directly takes four times as long
    return torch.stack((norm, matrix.amin(1).double(), matrix.amax(1).double(), total, nonzero.double()), 1)


def _reduced_in_pieces(matrix: torch.Tensor) -> torch.Tensor:
    """The same for rows of any length."""
    if matrix.shape[1] <= _PIECE:
        return _reduced(matrix)
    parts = torch.stack([_reduced(piece) for piece in torch.split(matrix, _PIECE, 1)])
    norm, low, high, total, nonzero = parts.unbind(2)
    return torch.stack((torch.linalg.vector_norm(norm, dim=0), low.amin(0), high.amax(0), total.sum(0), nonzero.sum(0)), 1)


def _is_dense(tensor: torch.Tensor) -> bool:
    """No gaps and no overlaps in memory."""
    return tensor.is_contiguous() or bool(torch.ops.aten.is_non_overlapping_and_dense.default(tensor))


def _row_major(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1)


def _in_memory_order(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of one tensor in whatever order needs no copy."""
    if tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj() or not _is_dense(tensor):
        return tensor.reshape(-1)
    return tensor.as_strided((tensor.numel(),), (1,))


def _elements(tensor: torch.Tensor) -> tuple[torch.Tensor, int, str]:
    """The elements that a tensor stores, plain and dense; how many zeros it leaves out; and a note."""
    check_own(tensor)
    tensor = tensor.detach()
    note = ""
    if type(tensor) not in PLAIN:
        note = type(tensor).__name__
        tensor = _unwrapped(tensor)
    if tensor.is_nested:
        return tensor.values(), 0, note or "nested"
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
    if hasattr(tensor, "get_mask"):  # a MaskedTensor: what is masked out has no value
        return tensor.get_data()[tensor.get_mask()]  # type: ignore[no-any-return, attr-defined]
    for unwrap in ("to_local", "full_tensor", "values"):
        method: Callable[[], torch.Tensor] | None = (
            getattr(tensor, unwrap, None) if unwrap != "values" or tensor.is_nested else None
        )
        if method is not None:
            return method().detach()
    if is_wrapper(tensor):
        raise Opaque("what it wraps need not be what it means")
    return elements_of(tensor)


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """The memory of a CPU tensor, row-major (numpy, which torch would need for this, is not there everywhere)."""
    tensor = tensor.contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


def _dtype_of(tensor: torch.Tensor) -> torch.dtype:
    try:
        return tensor.dtype
    except Exception:
        return torch.float32


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
