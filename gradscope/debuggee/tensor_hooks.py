"""Knows which tensors of the script have hooks or keep their gradient, without a frame of ours in the script's calls.

`Tensor.register_hook` makes an `OrderedDict` for the first hook of a tensor: the name `OrderedDict` in `torch._tensor` is ours,
makes a real one, and notes a number for it on the tensor's node. The same name in `torch.autograd.function` tells that a node got
a hook of its own. `Tensor.retain_grad` is reached through a descriptor that notes the tensor (weakly) and gives torch's method.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any

import torch

METADATA_KEY = "gradscope.hooks"
"""In `node.metadata`: (output_nr, number of the hook table) pairs. Numbers only: an object would leak the graph."""

tables: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Every `_backward_hooks` table of an inner tensor of the script, by number."""
node_hooks = False
"""The script has registered a hook on some node itself."""
_ours = threading.local()
_retaining: dict[int, weakref.ref[torch.Tensor]] = {}
_numbers = count(1)


def install() -> Callable[[], None]:
    """Start to take notes. The answer takes the patches out again."""
    patched: list[tuple[Any, str, Any]] = []
    factories: dict[str, Any] = {"torch._tensor": _table, "torch.autograd.function": _node_table}
    for name, factory in factories.items():
        owner: Any = sys.modules[name]
        if hasattr(owner, "OrderedDict"):
            patched.append((owner, "OrderedDict", owner.OrderedDict))
            owner.OrderedDict = factory
    keep: Any = torch.Tensor
    keep.retain_grad = _Noted(torch._C.TensorBase.retain_grad)

    def uninstall() -> None:
        for owner, name, original in patched:
            setattr(owner, name, original)
        del keep.retain_grad

    return uninstall


@contextmanager
def registering() -> Iterator[None]:
    """The hooks that this thread registers on nodes are ours."""
    _ours.registering = True
    try:
        yield
    finally:
        _ours.registering = False


def _node_table(*arguments: Any) -> OrderedDict[Any, Any]:
    global node_hooks
    if not getattr(_ours, "registering", False):
        node_hooks = True
    return OrderedDict(*arguments)


def _table(*arguments: Any) -> OrderedDict[Any, Any]:
    table: OrderedDict[Any, Any] = OrderedDict(*arguments)
    frame = sys._getframe(1)
    if frame.f_code.co_name == "register_hook":
        _note(frame, table)
    return table


def _note(frame: FrameType, table: OrderedDict[Any, Any]) -> None:
    try:
        tensor = frame.f_locals["self"]
        node = tensor.grad_fn
        if node is not None:
            number = next(_numbers)
            tables[number] = table
            node.metadata[METADATA_KEY] = (*node.metadata.get(METADATA_KEY, ()), (tensor.output_nr, number))
    except Exception:  # the script's call must go on whatever kind of tensor this is
        return


class _Noted:
    """A method of tensors that is torch's own, and says who asked for it."""

    def __init__(self, method: Any) -> None:
        self._method = method

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
