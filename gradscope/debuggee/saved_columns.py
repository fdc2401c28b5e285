"""Rows of saved tensors as columns, with the storages that they lie in."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from gradscope.debuggee.interned import Interned
from gradscope.debuggee.storages import version_of
from gradscope.model.places import UNKNOWN
from gradscope.model.saved import SavedColumns

OwnerOf = Mapping[int, str]
"""address of a storage -> what besides the graph holds it"""
Storage = tuple[int, int, str]
"""its address, bytes and device"""

_PLAIN = (torch.Tensor, torch.nn.Parameter)


class ColumnsOfSaved:
    """The columns while they are filled. Holds numbers and names only."""

    def __init__(self, owner_of: OwnerOf) -> None:
        self._owner_of = owner_of
        self._node, self._name, self._shape, self._dtype = array("i"), array("i"), array("i"), array("i")
        self._state, self._saved, self._now, self._storage = array("B"), array("q"), array("q"), array("i")
        self._names: Interned[str] = Interned()
        self._shapes: Interned[tuple[int, ...]] = Interned()
        self._dtypes: Interned[str] = Interned()
        self._dtype_names: dict[torch.dtype, int] = {}
        self._storages: dict[int, int] = {}
        self._columns = SavedColumns()
        self.untold = self._columns.untold

    def add(self, node: int, name: str, state: int, tensor: torch.Tensor | None, version_saved: int, readable: bool) -> None:
        """One saved tensor, with a row for each further tensor that it is made of.

        Args:
            node: what keeps it.
            name: what the node calls it.
            state: HERE, FREED, …
            tensor: the tensor, or what it was packed into; None where there is none.
            version_saved: -1 where torch does not say.
            readable: False where `tensor` is not the one that was saved, and only its memory counts.
        """
        now, parts = -1, ([("", UNKNOWN)] if tensor is None else self._parts(tensor))
        if tensor is not None and readable:
            now = version_of(tensor)
        for place, (part, storage) in enumerate(parts):
            self._node.append(node)
            self._name.append(self._names.number(name + part))
            self._state.append(state)
            self._storage.append(storage)
            self._saved.append(-1 if place else version_saved)
            self._now.append(-1 if place else now)
            whole = None if place or not readable else tensor
            shape = None if whole is None else _shape(whole)
            self._shape.append(UNKNOWN if shape is None else self._shapes.number(shape))
            self._dtype.append(UNKNOWN if whole is None else self._dtype_number(whole))

    def packed(self) -> SavedColumns:
        columns = self._columns
        columns.node, columns.name, columns.state = self._node.tobytes(), self._name.tobytes(), self._state.tobytes()
        columns.shape, columns.dtype = self._shape.tobytes(), self._dtype.tobytes()
        columns.version_saved, columns.version_now = self._saved.tobytes(), self._now.tobytes()
        columns.storage = self._storage.tobytes()
        columns.names, columns.shapes, columns.dtypes = self._names.values, self._shapes.values, self._dtypes.values
        return columns

    def _dtype_number(self, tensor: torch.Tensor) -> int:
        number = self._dtype_names.get(tensor.dtype)
        if number is None:
            number = self._dtype_names[tensor.dtype] = self._dtypes.number(str(tensor.dtype).removeprefix("torch."))
        return number

    def _parts(self, tensor: torch.Tensor) -> list[tuple[str, int]]:
        if type(tensor) in _PLAIN and tensor.layout == torch.strided:
            return [("", self._storage_number(_storage(tensor)))]
        return [(part, self._storage_number(storage)) for part, storage in storages_of(tensor)]

    def _storage_number(self, storage: Storage | None) -> int:
        if storage is None:
            return UNKNOWN
        address, count, device = storage
        number = self._storages.get(address)
        if number is None:
            columns = self._columns
            number = self._storages[address] = len(columns.storage_bytes)
            columns.storage_bytes.append(count)
            columns.storage_device.append(device)
            columns.storage_owner.append(self._owner_of.get(address, ""))
        return number


def storages_of(tensor: torch.Tensor) -> Iterator[tuple[str, Storage | None]]:
    """The storages of a tensor, each with the part of it that lies there: "" for the first one, `.indices`.

    None where a part has no memory that torch would tell of.
    """
    for place, (part, plain) in enumerate(_plain_parts(tensor, "")):
        yield part if place else "", _storage(plain)


def _plain_parts(tensor: Any, path: str) -> Iterator[tuple[str, Any]]:
    try:
        parts = [(name.strip("_"), getattr(tensor, name)) for name in _part_names(tensor)]
        parts = [(name, part() if callable(part) else part) for name, part in parts]
    except Exception:
        parts = []
    if not parts:
        yield path, tensor
    for name, part in parts:
        yield from _plain_parts(part, f"{path}.{name}")


def _part_names(tensor: Any) -> tuple[str, ...]:
    if tensor.layout == torch.sparse_coo:
        return "_values", "_indices"
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return "values", "crow_indices", "col_indices"
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return "values", "ccol_indices", "row_indices"
    if is_traceable_wrapper_subclass(tensor):
        return tuple(tensor.__tensor_flatten__()[0])
    return ()


def _storage(tensor: torch.Tensor) -> Storage | None:
    """A meta tensor has a size and no memory."""
    try:
        storage = tensor.untyped_storage()
        device = storage.device
        return storage._cdata, 0 if device.type == "meta" else storage.nbytes(), str(device)
    except Exception:  # mkldnn, functorch's wrappers
        return None


def _shape(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """None where there is no plain one: of strided nested tensors and symbolic ones."""
    try:
        shape = tuple(tensor.shape)
    except Exception:
        return None
    return shape if all(type(extent) is int for extent in shape) else None
