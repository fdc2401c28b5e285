"""What the nodes of a graph keep for backward: the wire form, and what it adds up to.

A saved tensor often is no memory of its own: a parameter, an input, or what another node saved as well. Bytes are counted by
storage, each once, whoever shares it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import UNKNOWN
from gradscope.model.tensors import TensorColumns

HERE, FREED, PACKED, RECOMPUTED, EDITED = range(5)
"""States of a saved tensor: it can be read; its graph was freed; a saved-tensor hook packed it; checkpoint makes it anew; it was
edited in place since it was saved, so that torch will refuse to use it"""

STATES = ("here", "freed", "packed", "recomputed", "edited")
"""their names"""


@dataclass(slots=True)
class SavedColumns:
    """One row a saved tensor, by node and in the order in which the node names them. Byte strings are int32 unless said.

    A tensor that is made of several (sparse, nested, a wrapper subclass) has a row for each further part: `self.indices`.
    """

    node: bytes = b""
    names: list[str] = field(default_factory=list)
    """`self`, `weight`, `result`; `tensors[1]` of a list; `saved_tensors[0]` and `ctx.mask` of a custom Function"""
    name: bytes = b""
    """index into `names`"""
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    shape: bytes = b""
    """UNKNOWN where the tensor is not here, or has no plain shape"""
    dtypes: list[str] = field(default_factory=list)
    dtype: bytes = b""
    state: bytes = b""
    """uint8: HERE, FREED, PACKED, RECOMPUTED, EDITED"""
    version_saved: bytes = b""
    """int64: the tensor's `_version` when it was saved; -1 where torch does not say"""
    version_now: bytes = b""
    """int64"""
    storage: bytes = b""
    """index into `storage_bytes`, for a packed tensor of what it was packed into; UNKNOWN where no tensor is here"""
    storage_bytes: list[int] = field(default_factory=list)
    """bytes of each storage that something saved lies in"""
    storage_owner: list[str] = field(default_factory=list)
    """what else holds it: `parameter fc1.weight`, `leaf x`, `root loss`; empty where only the graph is known to"""
    storage_device: list[str] = field(default_factory=list)
    """where it lies: `cpu`, `cuda:0`"""
    untold: dict[int, str] = field(default_factory=dict)
    """node -> why what it keeps is not told, or not all of it"""


@dataclass(frozen=True, slots=True)
class Saved:
    """One saved tensor."""

    row: int
    name: str
    shape: tuple[int, ...] | None
    """None where the tensor is not here, or has no plain shape"""
    dtype: str
    bytes: int
    """of the storage it lies in, which may be larger than the tensor; 0 where it is not here"""
    storage: int
    """UNKNOWN where it is not here"""
    shared: list[int]
    """the other nodes that keep the same storage"""
    owner: str
    """what else holds it: `parameter fc1.weight`; empty where only the graph is known to"""
    device: str
    state: int
    """HERE, FREED, PACKED, RECOMPUTED or EDITED"""
    version_saved: int
    """-1 where torch does not say"""
    version_now: int

    @property
    def text(self) -> str:
        """The state's name."""
        return STATES[self.state]


@dataclass(frozen=True, slots=True)
class Looked:
    """What one node keeps, looked into while the script stood still."""

    node: int
    tensors: TensorColumns
    """a row for each saved tensor that could be read"""
    places: list[int]
    """for each row of `tensors` its place among the node's saved tensors"""
    attributes: list[tuple[str, str]]
    notes: list[str]


class SavedTable:
    """Reads `SavedColumns`.

    Bytes are *own* where only the graph is known to hold the storage: that memory is given back with the graph. The rest belongs
    to parameters, leaves, inputs, roots or variables, and stays.
    """

    def __init__(self, columns: SavedColumns) -> None:
        self.columns = columns
        self.node = memoryview(columns.node).cast("i")
        """by row; rows of a node stand together"""
        self.storage = memoryview(columns.storage).cast("i")
        """by row"""
        self.state = memoryview(columns.state)
        """by row"""
        self._name = memoryview(columns.name).cast("i")
        self._shape = memoryview(columns.shape).cast("i")
        self._dtype = memoryview(columns.dtype).cast("i")
        self._version_saved = memoryview(columns.version_saved).cast("q")
        self._version_now = memoryview(columns.version_now).cast("q")

    def __len__(self) -> int:
        return len(self.node)

    # ------------------------------------------------------------ one node

    def rows_of(self, node: int) -> range:
        """The rows of a node; the place of a tensor among those of its node is its place in this range."""
        return self._rows.get(node, range(0))

    def of_node(self, node: int) -> list[Saved]:
        """All that a node keeps."""
        return [self._saved(row) for row in self.rows_of(node)]

    def why_untold(self, node: int) -> str:
        """Why what the node keeps is not told, or not all of it; else empty."""
        return self.columns.untold.get(node, "")

    def bytes_of_node(self, node: int, own: bool = False) -> int:
        """Bytes of the storages that a node keeps, each once; with `own` only of those that nothing else is known to hold."""
        return self.bytes_of_nodes((node,), own)

    # ------------------------------------------------------------ many

    def bytes_of_nodes(self, nodes: Iterable[int], own: bool = False) -> int:
        """The same for several nodes together: a storage that two of them share counts once."""
        storages = {self.storage[row] for node in nodes for row in self.rows_of(node)}
        return self._sum(storages, own)

    @cached_property
    def total(self) -> int:
        """Bytes of all that the graph keeps, each storage once."""
        return sum(self.columns.storage_bytes)

    @cached_property
    def own(self) -> int:
        """Those of them that nothing else is known to hold."""
        return self._sum(range(len(self.columns.storage_bytes)), own=True)

    @cached_property
    def by_device(self) -> dict[str, int]:
        """Bytes of all that the graph keeps, by device."""
        found: dict[str, int] = {}
        for device, count in zip(self.columns.storage_device, self.columns.storage_bytes, strict=True):
            found[device] = found.get(device, 0) + count
        return found

    def by_bytes(self, own: bool = True) -> list[int]:
        """The nodes that keep something, by the bytes that only the graph holds (all bytes without `own`), largest first.

        Ties go by all bytes, then by number.
        """
        mine = {node: self.bytes_of_node(node, own=True) if own else 0 for node in self._rows}
        everything = {node: self.bytes_of_node(node) for node in self._rows}
        return sorted(self._rows, key=lambda node: (-mine[node], -everything[node], node))

    def by_module(self, graph: BackwardGraph, own: bool = False) -> dict[str, int]:
        """Bytes that the nodes of each module keep, those of the modules in it included; "" is the whole graph."""
        storages: dict[str, set[int]] = {}
        for node, rows in self._rows.items():
            origin = graph.origin(node)
            parts = origin.module.split(".") if origin is not None and origin.module else []
            for length in range(len(parts) + 1):
                storages.setdefault(".".join(parts[:length]), set()).update(self.storage[row] for row in rows)
        return {module: self._sum(held, own) for module, held in storages.items()}

    # ------------------------------------------------------------ inside

    def _sum(self, storages: Iterable[int], own: bool) -> int:
        columns = self.columns
        return sum(
            columns.storage_bytes[storage]
            for storage in storages
            if storage != UNKNOWN and not (own and columns.storage_owner[storage])
        )

    def _saved(self, row: int) -> Saved:
        columns, storage, shape = self.columns, self.storage[row], self._shape[row]
        known = storage != UNKNOWN
        return Saved(
            row=row,
            name=columns.names[self._name[row]],
            shape=None if shape == UNKNOWN else tuple(columns.shapes[shape]),
            dtype="" if self._dtype[row] == UNKNOWN else columns.dtypes[self._dtype[row]],
            bytes=columns.storage_bytes[storage] if known else 0,
            storage=storage,
            shared=[node for node in self._keepers.get(storage, ()) if node != self.node[row]] if known else [],
            owner=columns.storage_owner[storage] if known else "",
            device=columns.storage_device[storage] if known else "",
            state=self.state[row],
            version_saved=self._version_saved[row],
            version_now=self._version_now[row],
        )

    @cached_property
    def _rows(self) -> dict[int, range]:
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for row, node in enumerate(self.node):
            starts.setdefault(node, row)
            ends[node] = row + 1
        return {node: range(start, ends[node]) for node, start in starts.items()}

    @cached_property
    def _keepers(self) -> dict[int, Sequence[int]]:
        """storage -> the nodes that keep it, each once."""
        found: dict[int, array[int]] = {}
        for node, storage in zip(self.node, self.storage, strict=True):
            if storage != UNKNOWN:
                keepers = found.setdefault(storage, array("i"))
                if not keepers or keepers[-1] != node:
                    keepers.append(node)
        return dict(found)
