"""Which nodes run Python that is not torch's own, and which of it gets its hands on gradients.

A graph without foreign Python needs hardly a sandbox: nothing but the engine runs. Where there is some, the record keeps copies,
and the sandbox saves what such code can reach.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

METADATA_KEY = "gradscope.hooks"
"""In `node.metadata`: the numbers of the hook tables of its output tensors (numbers only, an object would leak the graph)."""

hook_tables: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Every `_backward_hooks` dictionary that a script made, by number. See `intercept`."""

_AccumulateGrad: Any = torch._C._functions.AccumulateGrad


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
    refusal: str = ""

    def __bool__(self) -> bool:
        return bool(self.why)

    def note(self, node: int, what: str) -> None:
        present = self.why.get(node)
        self.why[node] = f"{present}, {what}" if present else what

    def release(self) -> None:
        self.python_nodes.clear()


@dataclass(slots=True)
class _Type:
    """What all nodes of one class have in common."""

    python: str
    """Description of a custom Function; empty for torch's own nodes."""
    refusal: str
    raw_saved: tuple[str, ...]


_types: dict[type, _Type] = {}


def find_foreign(nodes: Sequence[Any]) -> Foreign:
    foreign = Foreign()
    hooks_anywhere = bool(hook_tables)
    for number, node in enumerate(nodes):
        kind = _types.get(type(node))
        if kind is None:
            kind = _types[type(node)] = _describe_type(type(node))
        if kind.python:
            foreign.note(number, kind.python)
            foreign.python_nodes.append(node)
            foreign.touches_gradients = True
            if kind.refusal and not foreign.refusal:
                foreign.refusal = kind.refusal
        for name in kind.raw_saved:
            hook = _unpack_hook(node, name)
            if hook:
                foreign.note(number, hook)
                break
        if type(node) is _AccumulateGrad:
            _note_hooks(foreign, number, 0, node.variable._backward_hooks)
        elif hooks_anywhere and METADATA_KEY in node.metadata:
            for output_nr, table in node.metadata[METADATA_KEY]:
                _note_hooks(foreign, number, output_nr, hook_tables.get(table))
    return foreign


def _describe_type(kind: type) -> _Type:
    if not issubclass(kind, torch.autograd.function.BackwardCFunction):
        raw = tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))
        return _Type("", "", raw)
    function = getattr(kind, "_forward_cls", None)
    if function is None:
        return _Type(kind.__name__, "", ())
    name = function.__name__
    return _Type(f"{name}{place_of(getattr(function, 'backward', None))}", _refusals.get(f"{function.__module__}.{name}", ""), ())


_refusals = {
    "torch.utils.checkpoint.CheckpointFunction": "reentrant checkpoint runs a whole backward call inside one node, "
    "which cannot be tried without touching .grad",
    "torch.nn.parallel.distributed._DDPSink": "DistributedDataParallel with static_graph=True or find_unused_parameters=True",
    "torch.distributed.fsdp._fully_shard._fsdp_param_group.RegisterPostBackwardFunction": "FSDP needs every rank to run the pass together",
}


def _unpack_hook(node: Any, name: str) -> str:
    try:
        saved = getattr(node, name)
    except Exception:  # freed, or not saved after all
        return ""
    for one in saved if isinstance(saved, tuple) else (saved,):
        hook = getattr(one, "unpack_hook", None)
        if hook is not None:
            return f"unpack hook {describe(hook)}"
    return ""


def _note_hooks(foreign: Foreign, node: int, input_nr: int, table: Any) -> None:
    if not table:
        return
    foreign.hooked.add((node, input_nr))
    foreign.touches_gradients = True
    for hook in table.values():
        foreign.note(node, f"hook {describe(hook)}")


def describe(function: Callable[..., Any] | None) -> str:
    """`clip (train.py:3)`"""
    inner: Any = function
    while not hasattr(inner, "__code__") and hasattr(inner, "func"):
        inner = inner.func  # functools.partial
    name = getattr(inner, "__qualname__", None) or type(inner).__name__
    return f"{name.replace('<locals>.', '')}{place_of(inner)}"


def place_of(function: Any) -> str:
    code = getattr(function, "__code__", None) or getattr(getattr(function, "__func__", None), "__code__", None)
    return f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code is not None else ""
