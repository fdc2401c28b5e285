"""What every node keeps for backward, read without making any of it anew.

Torch gives a saved tensor in two ways: `_saved_self` unpacks it (checks its version, runs the script's unpack hooks, and under
checkpoint the forward), `_raw_saved_self` is the keeper itself. So the keeper is asked first, and only what has no hook is
unpacked. Nothing that is read here outlives the reading but numbers and names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch

from gradscope.debuggee import tensor_hooks
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.foreign import describe
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.saved_columns import ColumnsOfSaved, OwnerOf
from gradscope.debuggee.storages import version_of
from gradscope.model.saved import EDITED, FREED, HERE, PACKED, RECOMPUTED, SavedColumns

UNTOLD = "torch does not show what this kind of node keeps"
_FREED = "its graph was freed by an earlier backward call"
_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
_SHOWS_KEEPERS = hasattr(torch._C._autograd.SavedTensor, "unpack_hook")
"""Older torch has no way to see whether a saved tensor has a hook, or past an in-place error."""
_CHECKPOINT = "torch.utils.checkpoint"
_DEPTH = 2
"""Steps from an attribute of a ctx through plain containers."""
_MOST_ITEMS = 1_000
"""of one such container that are looked at"""
_TELL_NOTHING = ("CppFunction", "CopySlices")
"""Classes of nodes that may keep tensors and have no getters: of all nodes without a class of their own, and of edited views."""

_Read = Callable[[Any], Any]


@dataclass(slots=True)
class Kept:
    """One saved tensor while it is read."""

    name: str
    state: int = HERE
    tensor: torch.Tensor | None = None
    """with its present elements; of a packed one what it was packed into, where that is a tensor; None where there is none"""
    version_saved: int = -1
    why: str = ""
    """what a person must know of it"""

    @property
    def readable(self) -> bool:
        """It is the very tensor that was saved, whatever happened to its elements since."""
        return self.tensor is not None and self.state in (HERE, EDITED)


@dataclass(slots=True)
class _Getters:
    """What the nodes of one class keep, by the names of its getters."""

    tensors: list[tuple[str, _Read, _Read]]
    """(name, reads the keeper, unpacks)"""
    others: list[str]
    """attributes that are no tensors: `dim`"""
    python: bool
    untold: bool


_torch_types: dict[type, _Getters] = {}
"""of torch's own nodes; a table of the script's classes would keep them alive"""


def getters_of(kind: type) -> _Getters:
    known = _torch_types.get(kind)
    if known is None:
        known = _getters(kind)
        if not known.python:
            _torch_types[kind] = known
    return known


def _getters(kind: type) -> _Getters:
    python = issubclass(kind, torch.autograd.function.BackwardCFunction)
    names = [name for name in dir(kind) if name.startswith("_saved_")]
    keepers = {name for name in dir(kind) if name.startswith("_raw_saved_")}
    tensors: list[tuple[str, _Read, _Read]] = [
        (name.removeprefix("_saved_"), attrgetter(f"_raw{name}"), attrgetter(name)) for name in names if f"_raw{name}" in keepers
    ]
    others = [name.removeprefix("_saved_") for name in names if f"_raw{name}" not in keepers]
    return _Getters(tensors, others, python, untold=kind.__name__ in _TELL_NOTHING)


# ---------------------------------------------------------------- a graph


@modes_off()
def read_saved(captured: Captured, owner_of: OwnerOf | None = None) -> SavedColumns:
    """What all nodes of a graph keep.

    Args:
        captured: the graph, its nodes still alive (their saved tensors may be freed).
        owner_of: what besides the graph holds a storage, by its address (`saved_owners.owners`).
    """
    columns = ColumnsOfSaved(owner_of or {})
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        for number, node in enumerate(captured.nodes):
            kind = type(node)
            getters = _torch_types.get(kind) or getters_of(kind)
            if getters.untold:
                columns.untold[number] = UNTOLD
            elif getters.python or getters.tensors:
                for kept in _read(node, getters):
                    columns.add(number, kept.name, kept.state, kept.tensor, kept.version_saved, kept.readable)
    return columns.packed()


def read_node(node: Any) -> list[Kept]:
    """What one node keeps, in the order of its rows in the columns (parts of composed tensors apart)."""
    return list(_read(node, getters_of(type(node))))


def _read(node: Any, getters: _Getters) -> Iterator[Kept]:
    if getters.python:
        yield from _read_function(node)
        return
    for name, keeper, unpack in getters.tensors:
        try:
            saved = keeper(node)
        except RuntimeError:  # of a list that was freed
            yield Kept(name, FREED, why=_FREED)
            continue
        if isinstance(saved, (tuple, list)):
            yield from _read_list(name, saved, unpack, node)
        elif saved is not None:
            kept = _read_one(name, saved, unpack, node)
            if kept is not None:
                yield kept


def _read_one(name: str, saved: Any, unpack: _Read, node: Any) -> Kept | None:
    """None for an optional tensor that is not there."""
    if not _SHOWS_KEEPERS:
        return _read_blindly(name, unpack, node)
    hook = saved.unpack_hook
    if hook is not None:
        return _packed(name, saved.data, hook)
    tensor = saved.data
    try:
        if unpack(node) is None:
            return None
    except Exception as error:
        if tensor is None:
            return Kept(name, FREED, why=_FREED)
        return _refused(name, tensor, error)
    return Kept(name, HERE, tensor, version_of(tensor))


def _read_blindly(name: str, unpack: _Read, node: Any) -> Kept | None:
    """Where torch does not show keepers: unpack only if no saved tensor of the script has hooks."""
    if tensor_hooks.unpack_hooks:
        return Kept(name, PACKED, why="this torch does not say whether a saved-tensor hook packed it")
    try:
        tensor = unpack(node)
    except Exception as error:
        if _VERSIONS.search(str(error)):
            return _refused(name, None, error)
        return Kept(name, FREED, why=_FREED)
    return None if tensor is None else Kept(name, HERE, tensor, version_of(tensor))


def _refused(name: str, tensor: torch.Tensor | None, error: Exception) -> Kept:
    """A tensor that is there and that torch will not hand out."""
    versions = _VERSIONS.search(str(error))
    if versions is None:
        return Kept(name, HERE, tensor, -1, f"torch will not unpack it: {_first_line(error)}")
    now, saved = map(int, versions.groups())
    why = f"edited in place since it was saved: version {now}, saved at {saved}; torch will refuse this pass"
    return Kept(name, EDITED, tensor, saved, why)


def _read_list(name: str, keepers: Any, unpack: _Read, node: Any) -> Iterator[Kept]:
    """A list of saved tensors, of a C++ node or a custom Function: torch unpacks all of them or none."""
    hooked = not _SHOWS_KEEPERS or any(one is not None and one.unpack_hook is not None for one in keepers)
    error: Exception | None = None
    values: Any = None
    if not hooked:
        try:
            values = unpack(node)
        except Exception as raised:
            error = raised
    if not _SHOWS_KEEPERS:
        yield from _read_list_blindly(name, len(keepers), unpack, node)
        return
    for place, saved in enumerate(keepers):
        one = f"{name}[{place}]"
        if saved is None or (values is not None and values[place] is None):
            continue
        if saved.unpack_hook is not None:
            yield _packed(one, saved.data, saved.unpack_hook)
        elif values is not None:
            yield Kept(one, HERE, saved.data, version_of(saved.data))
        elif (kept := _unpacked_alone(one, saved, error)) is not None:
            yield kept


def _read_list_blindly(name: str, count: int, unpack: _Read, node: Any) -> Iterator[Kept]:
    whole = _read_blindly(name, unpack, node)
    if whole is None:
        return
    if whole.state != HERE:
        for place in range(count):
            yield Kept(f"{name}[{place}]", whole.state, why=whole.why)
        return
    values: Any = whole.tensor
    for place, tensor in enumerate(values):
        if tensor is not None:
            yield Kept(f"{name}[{place}]", HERE, tensor, version_of(tensor))


def _unpacked_alone(name: str, saved: Any, error: Exception | None) -> Kept | None:
    """One of a list that torch would not unpack as a whole.

    An output of the node can only be unpacked by the node itself: of that one is known what the error for the whole list says.
    """
    tensor = saved.data
    try:
        if saved.unpack() is None:
            return None
    except Exception as raised:
        if tensor is None:
            return Kept(name, FREED, why=_FREED)
        if _VERSIONS.search(str(raised)):
            return _refused(name, tensor, raised)
        versions = _VERSIONS.search(str(error)) if error is not None else None
        if error is not None and versions is not None and int(versions[1]) == version_of(tensor):
            return _refused(name, tensor, error)
        return Kept(name, HERE, tensor)
    return Kept(name, HERE, tensor, version_of(tensor))


def _packed(name: str, data: Any, hook: Any) -> Kept:
    """What the unpack hook would be given. It is not run."""
    if type(data).__module__ == _CHECKPOINT or getattr(hook, "__module__", "") == _CHECKPOINT:
        return Kept(name, RECOMPUTED, why="checkpoint kept nothing: the pass runs the forward again to make it")
    tensor = next((one for _, one in tensors_in("", data)), None)
    what = "" if tensor is None else f", as {_brief(tensor)}"
    return Kept(name, PACKED, tensor, why=f"a saved-tensor hook packed it{what}; {describe(hook)} unpacks it in the pass")


def _brief(tensor: torch.Tensor) -> str:
    try:
        return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)} on {tensor.device}"
    except Exception:
        return type(tensor).__name__


def kept_by(node: Any) -> Iterator[torch.Tensor]:
    """The tensors behind a node's keepers: nothing is unpacked, nothing is checked. Of a packed one what it was packed into."""
    getters = getters_of(type(node))
    readers = [attrgetter("_raw_saved_tensors")] if getters.python else [read for _, read, _ in getters.tensors]
    for read in readers if _SHOWS_KEEPERS else ():
        try:
            keeper = read(node)
            found = [one.data for one in keeper if one is not None] if isinstance(keeper, (tuple, list)) else [keeper.data]
        except Exception:  # freed, or none
            continue
        yield from (tensor for tensor in found if isinstance(tensor, torch.Tensor))


# ---------------------------------------------------------------- custom Functions


def _read_function(node: Any) -> Iterator[Kept]:
    """`save_for_backward`, and tensors that the forward left on the ctx itself, where torch does not watch over them."""
    try:
        keepers = node._raw_saved_tensors
    except RuntimeError:
        yield Kept("saved_tensors", FREED, why=_FREED)
    except AttributeError:
        pass
    else:
        yield from _read_list("saved_tensors", keepers or (), attrgetter("saved_tensors"), node)
    for name, value in list(getattr(node, "__dict__", {}).items()):
        for step, tensor in tensors_in("", value):
            yield Kept(f"ctx.{name}{step}", HERE, tensor, -1)


def tensors_in(path: str, value: Any, depth: int = _DEPTH) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in plain containers, each with the way to it: `[0]`, `['k'][1]`."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif depth and type(value) in (list, tuple):
        for place, item in enumerate(value[:_MOST_ITEMS]):
            yield from tensors_in(f"{path}[{place}]", item, depth - 1)
    elif depth and type(value) is dict:
        for key, item in list(value.items())[:_MOST_ITEMS]:
            if type(key) in (str, int):
                yield from tensors_in(f"{path}[{key!r}]", item, depth - 1)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
