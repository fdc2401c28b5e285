"""Summaries of gradients, kept as columns: one row a tensor, no Python object a row.

A pass over a million nodes has a million tensors; a column of eight-byte numbers each is what a debugger can afford.
`TensorColumns` is what crosses the wire and lies in a snapshot, `TensorTable` is how the rest of gradscope reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Value = float | int | bool | complex

KNOWN_NORM, KNOWN_RANGE, KNOWN_MEAN, KNOWN_COUNTS = 1, 2, 4, 8

NO_TENSOR = -1
"""The tensor number of an undefined gradient (None in Python)."""

INLINE_VALUES = 64
"""Tensors of at most this many elements carry all their values in the summary."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of one tensor without fetching it. `None` where torch refuses to say (see `note`)."""

    shape: tuple[int, ...]
    dtype: str
    """Without the `torch.` in front: `float32`."""
    device: str
    norm: float | None
    """The 2-norm, accumulated in float64 (of the moduli for complex tensors)."""
    min: float | None
    """Over the elements that are not NaN, infinities included; `None` for complex and empty tensors."""
    max: float | None
    mean: float | None
    """Over all elements, in float64: NaN when one of them is."""
    nan: int | None
    """How many elements are NaN; likewise `inf` (either sign) and `zero`."""
    inf: int | None
    zero: int | None
    values: tuple[Value, ...] | None
    """All elements in row-major order when there are at most `INLINE_VALUES`; exact (every float dtype fits a float64)."""
    note: str = ""

    @property
    def numel(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count


@dataclass(slots=True)
class TensorColumns:
    """The wire form. Byte strings are packed native-endian columns; `shape`, `dtype`, `device` index the lists."""

    shapes: list[tuple[int, ...]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    shape: bytes = b""
    """int32 a row"""
    dtype: bytes = b""
    """int32 a row"""
    device: bytes = b""
    """int32 a row"""
    norm: bytes = b""
    """float64 a row; so are min, max, mean"""
    min: bytes = b""
    max: bytes = b""
    mean: bytes = b""
    nan: bytes = b""
    """int64 a row; so are inf, zero"""
    inf: bytes = b""
    zero: bytes = b""
    known: bytes = b""
    """uint8 a row: sum of KNOWN_NORM, KNOWN_RANGE, KNOWN_MEAN, KNOWN_COUNTS"""
    value_start: bytes = b""
    """int64 a row: index of the first value in `values`, counted in 8-byte cells; -1 when values were not sent"""
    values: bytes = b""
    """8-byte cells: float64 for floating dtypes, int64 for integers and bool, two float64 for complex"""
    held: bytes = b""
    """uint8 a row: 1 while the debuggee can give the tensor itself"""
    notes: dict[int, str] = field(default_factory=dict)


class TensorTable:
    """Reads `TensorColumns`."""

    def __init__(self, columns: TensorColumns) -> None:
        self.columns = columns
        self._shape = memoryview(columns.shape).cast("i")
        self._dtype = memoryview(columns.dtype).cast("i")
        self._device = memoryview(columns.device).cast("i")
        self.norm = memoryview(columns.norm).cast("d")
        """The columns that lists, bars and conditions scan; index by tensor number."""
        self.min = memoryview(columns.min).cast("d")
        self.max = memoryview(columns.max).cast("d")
        self.mean = memoryview(columns.mean).cast("d")
        self.nan = memoryview(columns.nan).cast("q")
        self.inf = memoryview(columns.inf).cast("q")
        self.zero = memoryview(columns.zero).cast("q")
        self.known = memoryview(columns.known)
        self._start = memoryview(columns.value_start).cast("q")
        self._floats = memoryview(columns.values).cast("d")
        self._integers = memoryview(columns.values).cast("q")

    def __len__(self) -> int:
        return len(self._shape)

    def shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.columns.shapes[self._shape[tensor]])

    def dtype(self, tensor: int) -> str:
        return self.columns.dtypes[self._dtype[tensor]]

    def numel(self, tensor: int) -> int:
        count = 1
        for extent in self.columns.shapes[self._shape[tensor]]:
            count *= extent
        return count

    def held(self, tensor: int) -> bool:
        return bool(self.columns.held[tensor])

    def values(self, tensor: int) -> tuple[Value, ...] | None:
        """All elements, row-major, or None when the tensor is too big to carry them."""
        start = self._start[tensor]
        if start < 0:
            return None
        count, dtype = self.numel(tensor), self.dtype(tensor)
        if dtype.startswith("complex"):
            cells = self._floats[start : start + 2 * count]
            return tuple(complex(cells[i], cells[i + 1]) for i in range(0, 2 * count, 2))
        if dtype == "bool":
            return tuple(bool(cell) for cell in self._integers[start : start + count])
        if dtype.startswith(("int", "uint")):
            return tuple(self._integers[start : start + count])
        return tuple(self._floats[start : start + count])

    def summary(self, tensor: int) -> Summary:
        """The summary of one tensor.

        Raises:
            IndexError: there is no such row (`NO_TENSOR` included: an undefined gradient has no summary).
        """
        if not 0 <= tensor < len(self):
            raise IndexError(f"tensor {tensor} of {len(self)}")
        known = self.known[tensor]
        return Summary(
            shape=self.shape(tensor),
            dtype=self.dtype(tensor),
            device=self.columns.devices[self._device[tensor]],
            norm=self.norm[tensor] if known & KNOWN_NORM else None,
            min=self.min[tensor] if known & KNOWN_RANGE else None,
            max=self.max[tensor] if known & KNOWN_RANGE else None,
            mean=self.mean[tensor] if known & KNOWN_MEAN else None,
            nan=self.nan[tensor] if known & KNOWN_COUNTS else None,
            inf=self.inf[tensor] if known & KNOWN_COUNTS else None,
            zero=self.zero[tensor] if known & KNOWN_COUNTS else None,
            values=self.values(tensor),
            note=self.columns.notes.get(tensor, ""),
        )
