"""What the nodes of a graph keep for backward: the wire form, and what it adds up to.

A saved tensor often is no memory of its own: a parameter, an input, or what another node saved as well. Bytes are counted by
storage, each once, whoever shares it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HERE, FREED, PACKED, RECOMPUTED, EDITED = range(5)
"""States of a saved tensor: it can be read; its graph was freed; a saved-tensor hook packed it; checkpoint makes it anew; it was
edited in place since it was saved, so that torch will refuse to use it"""


@dataclass(slots=True)
class SavedColumns:
    """One row a saved tensor, by node and in the order in which the node names them. Byte strings are int32 unless said."""

    node: bytes = b""
    names: list[str] = field(default_factory=list)
    """`self`, `weight`, `result`; `tensors[1]` of a list; `saved_tensors[0]` and `ctx.mask` of a custom Function"""
    name: bytes = b""
    """index into `names`"""
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    shape: bytes = b""
    """UNKNOWN where the tensor is not here"""
    dtypes: list[str] = field(default_factory=list)
    dtype: bytes = b""
    state: bytes = b""
    """uint8: HERE, FREED, PACKED, RECOMPUTED, EDITED"""
    version_saved: bytes = b""
    """int64: the tensor's `_version` when it was saved; -1 where torch does not say"""
    version_now: bytes = b""
    """int64"""
    storage: bytes = b""
    """index into `storage_bytes`; UNKNOWN where the tensor is not here"""
    storage_bytes: list[int] = field(default_factory=list)
    """bytes of each storage that something saved lies in"""
    storage_owner: list[str] = field(default_factory=list)
    """what else holds it: `parameter fc1.weight`, `leaf x`, `root loss`; empty where only the graph is known to"""


class SavedTable:
    """Reads `SavedColumns`."""

    def __init__(self, columns: SavedColumns) -> None:
        self.columns = columns
        self.node = memoryview(columns.node).cast("i")
        """by row; rows of a node stand together"""

    def __len__(self) -> int:
        return len(self.node)
