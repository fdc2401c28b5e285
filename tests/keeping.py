"""What nodes keep for backward, made by hand: the wire columns of saved tensors and of a node that was looked into."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from graphs import Table

from gradscope.model.places import UNKNOWN
from gradscope.model.saved import HERE, SavedColumns, SavedTable
from gradscope.protocol.messages import Inspected


@dataclass(frozen=True)
class Kept:
    """One saved tensor."""

    node: int
    name: str
    storage: int = UNKNOWN
    """place in the list of storages"""
    shape: tuple[int, ...] | None = (2,)
    dtype: str = "float32"
    state: int = HERE
    versions: tuple[int, int] = (0, 0)
    """when saved, now"""


def table(kept: Sequence[Kept], storages: Sequence[tuple[int, str]] = ()) -> SavedTable:
    """A table of these tensors; `storages` are (bytes, owner)."""
    names = list(dict.fromkeys(one.name for one in kept))
    shapes = list(dict.fromkeys(one.shape for one in kept if one.shape is not None))
    dtypes = list(dict.fromkeys(one.dtype for one in kept))
    packed = {
        "node": array("i", [one.node for one in kept]),
        "name": array("i", [names.index(one.name) for one in kept]),
        "shape": array("i", [UNKNOWN if one.shape is None else shapes.index(one.shape) for one in kept]),
        "dtype": array("i", [UNKNOWN if one.shape is None else dtypes.index(one.dtype) for one in kept]),
        "state": array("B", [one.state for one in kept]),
        "version_saved": array("q", [one.versions[0] for one in kept]),
        "version_now": array("q", [one.versions[1] for one in kept]),
        "storage": array("i", [one.storage for one in kept]),
    }
    return SavedTable(
        SavedColumns(
            names=names,
            shapes=shapes,
            dtypes=dtypes,
            storage_bytes=[size for size, _ in storages],
            storage_owner=[owner for _, owner in storages],
            storage_device=["cpu" for _ in storages],
            **{name: column.tobytes() for name, column in packed.items()},
        )
    )


def inspected(
    node: int,
    tensors: Sequence[tuple[Sequence[float], tuple[int, ...]]],
    attributes: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
) -> Inspected:
    """A node that was looked into: (values, shape) of each tensor; fewer values than the shape has are a sample."""
    summaries = Table()
    for values, shape in tensors:
        summaries.add(values, shape)
    return Inspected(1, node, summaries.columns(), list(range(len(tensors))), list(attributes), list(notes))
