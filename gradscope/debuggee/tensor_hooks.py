"""Knows which tensors of the script have hooks or keep their gradient, without a frame of ours in the script's calls.

`Tensor.register_hook` makes an `OrderedDict` for the first hook of a tensor: the name `OrderedDict` in `torch._tensor` is ours,
makes a real one, and notes a number for it on the tensor's node. `Tensor.retain_grad` is reached through a descriptor that notes
the tensor (weakly) and gives torch's method. Of hooks of nodes and of saved tensors we only note that there are any.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

import torch

from gradscope.debuggee.untraced import untraced

METADATA_KEY = "gradscope.hooks"
"""In `node.metadata`: (output_nr, number of the hook table) pairs. Numbers only: an object would leak the graph."""

tables: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Every `_backward_hooks` table of an inner tensor of the script, by number."""
hooked: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()
"""The tensor that each of these tables was made for."""
node_hooks = False
"""The script has registered a hook on some node itself."""
watching = False
"""Notes are being taken."""
unpack_hooks = True
"""Some saved tensor may have hooks; False once we watch, until the script makes some."""
_keys = count(1)
_retaining: dict[int, weakref.ref[torch.Tensor]] = {}
_numbers = count(1)


def install() -> Callable[[], None]:
    """Start to take notes. The answer takes the patches out again."""
    global unpack_hooks, watching
    unpack_hooks, watching = False, True
    patched: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, name: str, ours: Any) -> None:
        if hasattr(owner, name):
            patched.append((owner, name, vars(owner)[name]))
            setattr(owner, name, ours)

    saved: Any = torch._C._autograd
    patch(sys.modules["torch._tensor"], "OrderedDict", _Table)
    patch(saved, "_push_saved_tensors_default_hooks", _noting(saved._push_saved_tensors_default_hooks, "unpack_hooks"))
    patch(saved.SavedTensor, "register_hooks", _noting(saved.SavedTensor.register_hooks, "unpack_hooks"))
    patch(_mixin(), "_register_hook", staticmethod(_noting(_mixin()._register_hook, "node_hooks")))
    keep: Any = torch.Tensor
    keep.retain_grad = _Noted(torch._C.TensorBase.retain_grad)

    def uninstall() -> None:
        for owner, name, original in patched:
            setattr(owner, name, original)
        del keep.retain_grad
        globals().update(unpack_hooks=True, watching=False)

    return uninstall


def _mixin() -> Any:
    """Where nodes look for the function that puts a hook into their table."""
    return sys.modules["torch.autograd.function"]._HookMixin


def _noting(original: Callable[..., Any], what: str) -> Callable[..., Any]:
    @untraced
    def note(*arguments: Any) -> Any:
        globals()[what] = True
        return original(*arguments)

    return note


@contextmanager
def registering(key: int) -> Iterator[None]:
    """Inside, the hooks that this thread registers on nodes are ours: what it gets for a handle is the node's table of hooks.

    Torch's own handles cost more than all the rest of registering a hook, and there are as many as nodes. `unregister` takes a
    hook out again. Only one thread at a time may be here: it holds the server's turn.

    Args:
        key: of our hook in each table; one hook a table.
    """
    mixin, here = _mixin(), threading.get_ident()
    original = mixin._register_hook

    def register(table: OrderedDict[Any, Any] | None, hook: Any) -> tuple[Any, Any]:
        if threading.get_ident() != here:
            return original(table, hook)  # type: ignore[no-any-return]
        if table is None:
            table = OrderedDict()
        table[key] = hook
        return table, table

    mixin._register_hook = staticmethod(register)
    try:
        yield
    finally:
        mixin._register_hook = staticmethod(original)


def unregister(table: Any, key: int) -> None:
    """Take our hook out of a node's table."""
    table.pop(key, None)


def new_key() -> int:
    """A key of ours: below zero, as torch's handles count up from 0."""
    return -next(_keys)


class OurHook(partial[Any]):
    """A hook of ours on the tensor of a leaf, which must not be taken for the script's."""


@untraced
def _table(kind: type, *arguments: Any) -> OrderedDict[Any, Any]:
    table: OrderedDict[Any, Any] = OrderedDict(*arguments)
    frame = sys._getframe(2)
    if frame.f_code.co_name == "register_hook":
        _note(frame, table)
    return table


class _Tables(type):
    """The class of a name that makes real `OrderedDict`s, and that they all are instances of."""

    __call__ = _table

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, OrderedDict)


class _Table(OrderedDict[Any, Any], metaclass=_Tables):
    pass


def _note(frame: FrameType, table: OrderedDict[Any, Any]) -> None:
    try:
        tensor = frame.f_locals["self"]
        node = tensor.grad_fn
        if node is not None:
            number = next(_numbers)
            tables[number], hooked[number] = table, tensor
            node.metadata[METADATA_KEY] = (*node.metadata.get(METADATA_KEY, ()), (tensor.output_nr, number))
    except Exception:  # the script's call must go on whatever kind of tensor this is
        return


class _Noted:
    """A method of tensors that is torch's own, and says who asked for it."""

    def __init__(self, method: Any) -> None:
        self._method = method

    @untraced
    def __get__(self, tensor: Any, owner: type | None = None) -> Any:
        if tensor is None:
            return self._method
        number = id(tensor)
        _retaining[number] = weakref.ref(tensor, lambda _: _retaining.pop(number, None))
        return self._method.__get__(tensor, owner)


def retaining() -> list[torch.Tensor]:
    """The live inner tensors that keep their gradient."""
    tensors = [reference() for reference in list(_retaining.values())]
    return [tensor for tensor in tensors if tensor is not None and not tensor.is_leaf and tensor.retains_grad]
