"""Saved tensors made by hand, for a model, a session or an export to read."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.model.saved import HERE, SavedColumns


@dataclass(frozen=True)
class Row:
    node: int
    name: str
    storage: int
    """-1 where the tensor is not here"""
    state: int = HERE
    shape: tuple[int, ...] = (2,)
    versions: tuple[int, int] = (0, 0)


def saved_columns(rows: Sequence[Row], storages: Sequence[tuple[int, str]]) -> SavedColumns:
    """Columns of float32 tensors; storages as (bytes, what else holds it)."""
    names, shapes = sorted({row.name for row in rows}), sorted({row.shape for row in rows})
    here = [row.storage >= 0 for row in rows]

    def pack(numbers: Sequence[int], kind: str = "i") -> bytes:
        return array(kind, numbers).tobytes()

    return SavedColumns(
        node=pack([row.node for row in rows]),
        names=names,
        name=pack([names.index(row.name) for row in rows]),
        shapes=shapes,
        shape=pack([shapes.index(row.shape) if known else -1 for row, known in zip(rows, here, strict=True)]),
        dtypes=["float32"],
        dtype=pack([0 if known else -1 for known in here]),
        state=bytes(row.state for row in rows),
        version_saved=pack([row.versions[0] for row in rows], "q"),
        version_now=pack([row.versions[1] for row in rows], "q"),
        storage=pack([row.storage for row in rows]),
        storage_bytes=[count for count, _ in storages],
        storage_owner=[owner for _, owner in storages],
        storage_device=["cpu" for _ in storages],
        untold={},
    )
