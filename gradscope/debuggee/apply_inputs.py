"""Remembers what custom Functions were applied to, so that their forward can be run again: weakly, as numbers of calls go up.

`Function.apply` calls one small function of torch's just before its node is made. A tensor is held by a weak reference and its
version, plain values as they are: what has died or was edited since is told, never guessed.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from gradscope.debuggee.engine import gradient_edge
from gradscope.debuggee.untraced import skip

_MOST = 1 << 16
"""calls that are remembered; the oldest are forgotten"""
_PLAIN = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)

_calls: dict[int, tuple[Any, ...]] = {}
"""sequence number of the node on the main thread -> its arguments"""


class _Tensor:
    """A tensor as it was."""

    __slots__ = ("reference", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.reference = weakref.ref(tensor)
        self.version = -1 if tensor.is_inference() else tensor._version


class _Other:
    """What is neither a tensor nor plain."""

    __slots__ = ("kind", "reference")

    def __init__(self, value: Any) -> None:
        self.kind = type(value).__name__
        try:
            self.reference: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self.reference = _nothing


def _nothing() -> None:
    return None


def install() -> Callable[[], None]:
    """Begin to take notes, below those of the origins: install this first. The answer takes it out again."""
    home: Any = sys.modules.get("torch._functorch.utils")
    original = getattr(home, "unwrap_dead_wrappers", None)
    applied: Any = getattr(torch.autograd.Function.apply, "__func__", None)
    if original is None or not hasattr(applied, "__code__"):
        return _calls.clear  # torch 2.14 does all this in C
    autograd: Any = torch.autograd
    number, code = autograd._get_sequence_nr, applied.__code__
    main = threading.main_thread().ident

    def unwrap_dead_wrappers(args: Any) -> Any:
        frame = sys._getframe(1)
        if frame.f_code is not code and frame.f_back is not None:
            frame = frame.f_back  # the origins' own wrapper
        if frame.f_code is code and threading.get_ident() == main:
            _note(number(), args)
        return original(args)

    skip(unwrap_dead_wrappers.__code__)
    home.unwrap_dead_wrappers = unwrap_dead_wrappers

    def uninstall() -> None:
        if home.unwrap_dead_wrappers is unwrap_dead_wrappers:
            home.unwrap_dead_wrappers = original
        _calls.clear()

    return uninstall


def _note(sequence_nr: int, args: tuple[Any, ...]) -> None:
    try:
        _calls[sequence_nr] = tuple(map(_kept, args))
        if len(_calls) > _MOST:
            del _calls[next(iter(_calls))]
    except Exception:  # the script's call must go on whatever it is given
        return


def _kept(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _Tensor(value)
    if isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(isinstance(one, _PLAIN) for one in value)):
        return value
    return _Other(value)


def inputs_of(node: Any, names: list[str]) -> list[Any] | str:
    """What the Function of this node was applied to, or why that is not known any more.

    Args:
        node: of a custom Function.
        names: of the forward's arguments, as far as it has some.
    """
    kept = _calls.get(node._sequence_nr())
    if kept is None:
        return _saved_inputs(node, names)
    if len(kept) != len(node.needs_input_grad):
        return "its inputs are not known"
    found: list[Any] = []
    edges = iter(node.next_functions)
    for place, one in enumerate(kept):
        name = names[place] if place < len(names) else f"input {place}"
        value = one.reference() if isinstance(one, (_Tensor, _Other)) else one
        if isinstance(one, _Other) and value is None:
            return f"its inputs are not kept: {name} is a {one.kind}"
        if isinstance(one, _Tensor):
            edge = next(edges, None)
            if value is None:
                return f"its inputs are gone: {name} was freed"
            if one.version < 0 or value._version != one.version:
                return f"its inputs are gone: {name} was edited in place since"
            if edge is None or not _same_end(value, edge, node.needs_input_grad[place]):
                return "its inputs are not known"
        found.append(value)
    return found


def _saved_inputs(node: Any, names: list[str]) -> list[Any] | str:
    """The inputs among what the node has saved, where all of them are there: each is known by the edge that leads to it.

    That is all there is where a call was not seen: long ago, in another thread, or as torch calls Functions in C (2.14).
    """
    saved = [tensor for tensor in node.saved_tensors if tensor is not None and tensor.requires_grad]
    ends: dict[Any, torch.Tensor] = {
        (edge.node, edge.output_nr): tensor for edge, tensor in zip(map(gradient_edge, saved), saved, strict=True)
    }
    edges = (edge for edge in node.next_functions if edge[0] is not None)
    found: list[Any] = []
    for place, needed in enumerate(node.needs_input_grad):
        tensor = ends.get(next(edges, (None, 0))) if needed else None
        if tensor is None:
            name = names[place] if place < len(names) else f"input {place}"
            return f"its call was not seen, and {name} is not among the tensors that it saved"
        found.append(tensor)
    return found


def _same_end(tensor: torch.Tensor, edge: Any, needed: bool) -> bool:
    """Whether the node's edge leads to this tensor: another thread's node may have the same number."""
    if not tensor.requires_grad or not needed:
        return edge[0] is None or not needed
    end = gradient_edge(tensor)
    return end.node is edge[0] and end.output_nr == edge[1]
