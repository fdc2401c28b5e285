"""Tensors with a graph that are alive, for a stop where the script has called nothing: the person picks one as the root."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import FrameType, FunctionType, ModuleType
from typing import Any

from gradscope.debuggee import frame_locals
from gradscope.debuggee.person_code import PERSON, kind
from gradscope.debuggee.person_code import frames as frames_of
from gradscope.model.places import Origin
from gradscope.protocol.messages import LiveTensor

_ITEMS = 1000
"""how far into a container"""


@dataclass(frozen=True, slots=True)
class Scope:
    """Variables and where they are."""

    variables: dict[str, Any]
    where: str
    """`main() in train.py:12`"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tensor that could be differentiated."""

    tensor: Any
    shown: LiveTensor
    sequence: int
    """torch counts nodes as they are made: the higher, the later"""

    @property
    def likelihood(self) -> tuple[bool, bool, int]:
        """A scalar that is called a loss comes first, then other scalars, then what was made last."""
        scalar = all(extent == 1 for extent in self.shown.shape)
        return (scalar and "loss" in self.shown.name.lower(), scalar, self.sequence)


def find(torch: Any, scopes: Iterable[Scope], origin_of: Callable[[int], Origin | None]) -> list[Candidate]:
    """Look through variables, innermost first, and one level into what they hold; the likeliest root first.

    Args:
        torch: the module.
        scopes: variables, and where they are.
        origin_of: by a node's sequence number, the line that made it, where known.
    """
    found: dict[int, Candidate] = {}
    with torch._C.DisableTorchFunctionSubclass():
        for scope in scopes:
            for name, tensor in _tensors(torch.Tensor, scope.variables):
                if tensor.grad_fn is not None and id(tensor) not in found:
                    found[id(tensor)] = _candidate(tensor, name, scope.where, origin_of(tensor.grad_fn._sequence_nr()))
    return sorted(found.values(), key=lambda candidate: candidate.likelihood, reverse=True)


def scope_of(frame: FrameType) -> Scope:
    """The variables of a frame, also of one that has returned."""
    code = frame.f_code
    function = getattr(code, "co_qualname", code.co_name)
    place = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    return Scope(frame_locals.variables(frame), _in(function, place))


def _in(function: str, place: str) -> str:
    return place if function == "<module>" else f"{function}() in {place}"


def own_frames(innermost: FrameType | None) -> list[FrameType]:
    """The frames of the person's own code on the stack, innermost first."""
    return [frame for frame in frames_of(innermost) if kind(frame.f_code.co_filename) == PERSON]


def _candidate(tensor: Any, name: str, where: str, origin: Origin | None) -> Candidate:
    node = tensor.grad_fn
    if origin is not None:
        where = _in(origin.function, f"{os.path.basename(origin.file)}:{origin.line}")
    shown = LiveTensor(
        name=name,
        where=where,
        shape=shape_of(tensor),
        dtype=str(tensor.dtype).removeprefix("torch."),
        op=node.name().rpartition("::")[2],
    )
    return Candidate(tensor, shown, node._sequence_nr())


def shape_of(tensor: Any) -> tuple[int, ...]:
    """Its shape; () where it has none."""
    try:
        return tuple(int(extent) for extent in tensor.shape)
    except RuntimeError:  # a nested tensor has no shape
        return ()


def _tensors(tensor_type: type, variables: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in list(variables.items()):
        if name.startswith("__"):
            continue
        if isinstance(value, tensor_type):
            yield name, value
        else:
            yield from _inside(tensor_type, name, value)


def _inside(tensor_type: type, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that a variable holds. Runs no property and no method of the person's."""
    if isinstance(value, dict):
        for key, item in islice(list(value.items()), _ITEMS):
            if isinstance(item, tensor_type):
                yield f"{name}[{key!r}]", item
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value[:_ITEMS]):
            if isinstance(item, tensor_type):
                yield f"{name}[{index}]", item
    elif not isinstance(value, (ModuleType, FunctionType, type)):
        for attribute, item in list(getattr(value, "__dict__", {}).items()):
            if isinstance(item, tensor_type):
                yield f"{name}.{attribute}", item
