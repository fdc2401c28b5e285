"""Which nodes run Python that is not torch's own, and which of it gets its hands on gradients.

A graph without foreign Python needs hardly a sandbox: nothing but the engine runs. Where there is some, the record keeps copies,
and the sandbox saves what such code can reach.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gradscope.debuggee import donated_buffers, tensor_hooks
from gradscope.debuggee.code_places import name_of, own_function, own_functions
from gradscope.debuggee.engine import AccumulateGrad
from gradscope.debuggee.parts import is_foreign
from gradscope.debuggee.reducers import refusal_of_python
from gradscope.model.places import UNKNOWN


@dataclass(slots=True)
class Foreign:
    """What runs Python in this graph."""

    why: dict[int, str] = field(default_factory=dict)
    """node -> description"""
    touches_gradients: bool = False
    """Custom Functions and hooks get gradients and may edit them; an unpack hook does not."""
    hooked: set[tuple[int, int]] = field(default_factory=set)
    """(node, input_nr) whose arriving gradient a tensor hook sees; input_nr -1 for a hook of the whole node"""
    python_nodes: list[Any] = field(default_factory=list)
    functions: list[Any] = field(default_factory=list)
    """the Python that runs: hooks, backwards of custom Functions"""
    packed: list[Any] = field(default_factory=list)
    """what pack hooks of the person's made of saved tensors"""
    refusal: str = ""

    def __bool__(self) -> bool:
        return bool(self.why)

    def note(self, node: int, what: str) -> None:
        present = self.why.get(node)
        self.why[node] = f"{present}, {what}" if present else what

    def release(self) -> None:
        self.python_nodes.clear()
        self.functions.clear()
        self.packed.clear()


@dataclass(slots=True)
class _Type:
    """What all nodes of one class have in common."""

    python: str = ""
    """Description of a custom Function; empty for torch's own nodes."""
    refusal: str = ""
    function: Any = None
    unpack_hooks: Callable[[Any], Any] | None = None
    """Reads the unpack hooks of what a node saved; None when it saves nothing."""


_REFUSALS = {
    "torch.utils.checkpoint.CheckpointFunction": "reentrant checkpoint runs a whole backward call inside one node, "
    "and that cannot be tried without touching .grad",
}


TELLS_HOOKS = hasattr(torch._C._autograd.SavedTensor, "unpack_hook")
"""This version of torch shows the unpack hooks of what is saved."""
_UNTOLD = "this version of torch does not tell which unpack hooks (saved_tensors_hooks, checkpoint) run in this pass"

_torch_types: dict[type, _Type] = {}
"""Those of torch's own nodes, which never change. The script's classes are looked at anew: a table would keep them alive."""


def find_foreign(nodes: Sequence[Any]) -> Foreign:
    foreign = Foreign()
    if tensor_hooks.watching and tensor_hooks.unpack_hooks and not TELLS_HOOKS:
        foreign.refusal = _UNTOLD
    types: dict[type, _Type] = {}
    tables, unpack_hooks = bool(tensor_hooks.tables), tensor_hooks.unpack_hooks
    for number, node in enumerate(nodes):
        kind = types.get(type(node)) or _torch_types.get(type(node))
        if kind is None:
            kind = _describe_type(type(node))
            (types if kind.python else _torch_types)[type(node)] = kind
        if kind.python:
            _note_function(foreign, number, node, kind)
        if unpack_hooks and kind.unpack_hooks is not None:
            hook = kind.unpack_hooks(node)
            if hook is not None and (type(hook) is not tuple or any(hook)):
                _note_unpack_hook(foreign, number, hook)
                foreign.packed.extend(_packed(node))
        if type(node) is AccumulateGrad:
            _note_hooks(foreign, number, 0, node.variable._backward_hooks)
            if is_foreign(node.variable):
                foreign.note(number, f"{type(node.variable).__name__}, which computes with its own __torch_dispatch__")
        elif tables:
            for output_nr, table in node.metadata.get(tensor_hooks.METADATA_KEY, ()):
                _note_hooks(foreign, number, output_nr, tensor_hooks.tables.get(table))
        if tensor_hooks.node_hooks:
            _note_hooks(foreign, number, UNKNOWN, hooks_of(node))
    return foreign


def hooks_of(node: Any) -> dict[Any, Any]:
    """The hooks registered on the node itself: there is no other way to see them than to register one more."""
    found: dict[Any, Any] = {}
    key = tensor_hooks.new_key()
    with tensor_hooks.registering(key):
        for register in (node.register_hook, node.register_prehook):
            table = register(_nothing)
            tensor_hooks.unregister(table, key)
            found.update((number, hook) for number, hook in table.items() if number >= 0)
    return found


def _nothing(*_: Any) -> None:
    pass


def _describe_type(kind: type) -> _Type:
    if not issubclass(kind, torch.autograd.function.BackwardCFunction):
        return _Type(unpack_hooks=_unpack_hooks_reader(kind))
    function = getattr(kind, "_forward_cls", None)
    if function is None:
        return _Type(kind.__name__)
    backward = getattr(function, "backward", None)
    return _Type(
        python=f"{function.__name__}{place_of(backward)}",
        refusal=_REFUSALS.get(f"{function.__module__}.{function.__name__}", "")
        or refusal_of_python(function)
        or donated_buffers.refusal_of(function),
        function=backward,
        unpack_hooks=_unpack_hooks_reader(kind),
    )


def _unpack_hooks_reader(kind: type) -> Callable[[Any], Any] | None:
    names = [name for name in dir(kind) if name.startswith("_raw_saved_")]
    if not names or not TELLS_HOOKS:
        return None
    quick = operator.attrgetter(*(f"{name}.unpack_hook" for name in names))

    def read(node: Any) -> Any:
        try:
            return quick(node)
        except Exception:  # a list of saved tensors, or none
            return tuple(hook for name in names for hook in _of_each_saved(node, name, "unpack_hook"))

    return read


def unpack_hooks_of(node: Any) -> list[Any]:
    """The hooks that unpack what a node saved."""
    if not tensor_hooks.unpack_hooks:
        return []
    kind = _torch_types.get(type(node)) or _describe_type(type(node))
    found = None if kind.unpack_hooks is None else kind.unpack_hooks(node)
    return [hook for hook in (found if type(found) is tuple else (found,)) if hook is not None]


def _of_each_saved(node: Any, name: str, attribute: str) -> list[Any]:
    """An attribute of each tensor that a node saved under one name; nothing where torch does not tell, or it is freed."""
    try:
        saved = getattr(node, name)
        return [getattr(one, attribute) for one in (saved if isinstance(saved, (tuple, list)) else (saved,)) if one is not None]
    except Exception:
        return []


def kept_tensors(node: Any) -> list[torch.Tensor]:
    """What the node of a custom Function saved for its backward, read past its unpack hooks: packed things are none."""
    try:
        if not TELLS_HOOKS:
            return [] if tensor_hooks.unpack_hooks else [one for one in node.saved_tensors if one is not None]
        saved = [one.data for one in node._raw_saved_tensors if one is not None]
    except Exception:  # freed
        return []
    return [tensor for tensor in saved if isinstance(tensor, torch.Tensor)]


def _packed(node: Any) -> list[Any]:
    """The containers that saved tensors of the node were packed as."""
    names = [name for name in dir(node) if name.startswith("_raw_saved_")]
    return [data for name in names for data in _of_each_saved(node, name, "data") if isinstance(data, (list, dict, set))]


def _note_function(foreign: Foreign, number: int, node: Any, kind: _Type) -> None:
    foreign.note(number, kind.python)
    foreign.python_nodes.append(node)
    foreign.touches_gradients = True
    if kind.function is not None:
        foreign.functions.append(kind.function)
    foreign.refusal = foreign.refusal or kind.refusal


def _note_unpack_hook(foreign: Foreign, number: int, hooks: Any) -> None:
    hook = next(filter(None, hooks)) if type(hooks) is tuple else hooks
    foreign.functions.append(hook)
    foreign.note(number, f"unpack hook {describe(hook)}")


def _note_hooks(foreign: Foreign, node: int, input_nr: int, table: Any) -> None:
    hooks = [hook for hook in list(table.values()) if type(hook) is not tensor_hooks.OurHook] if table else ()
    if not hooks:
        return
    foreign.hooked.add((node, input_nr))
    foreign.touches_gradients = True
    for hook in hooks:
        foreign.functions.append(hook)
        for function in own_functions(hook):
            foreign.note(node, f"hook {describe(function)}")
        foreign.refusal = foreign.refusal or refusal_of_python(hook)


def describe(function: Callable[..., Any] | None) -> str:
    """`clip (train.py:3)`"""
    return f"{name_of(function)}{place_of(function)}"


def place_of(function: Any) -> str:
    function = own_function(function)
    code = getattr(function, "__code__", None) or getattr(getattr(function, "__func__", None), "__code__", None)
    return f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code is not None else ""
