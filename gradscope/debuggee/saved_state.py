"""What Python code in a backward pass can change, saved and put back: tensors, generators, containers.

Putting back is in place and leaves version counters as they were, or the script's own call would fail with torch's in-place
error. Only what really changed is written, and named.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    FrameType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch

from gradscope.debuggee import frame_locals, person_code
from gradscope.debuggee.engine import version_keeper
from gradscope.debuggee.exactness import same_bits
from gradscope.debuggee.parts import TRACED

_SCANNED = 10_000
"""Objects whose contents are looked at in one go."""
_MOST_ITEMS = 100_000
"""Containers longer than that are not copied, and no more things than that are looked at."""


@dataclass(slots=True)
class Living:
    """What the garbage collector knows: found in one scan."""

    modules: list[torch.nn.Module]
    leaves: list[torch.Tensor]
    optimizers: list[Any]
    generators: list[torch.Generator]

    @classmethod
    def find(cls) -> Living:
        found = cls([], [], [], [])
        everything = gc.get_objects()
        kinds = set(map(type, everything))
        tensors = {kind for kind in kinds if issubclass(kind, torch.Tensor) and kind.__name__ not in TRACED}
        modules = {kind for kind in kinds if issubclass(kind, torch.nn.Module)}
        optimizers = {kind for kind in kinds if issubclass(kind, torch.optim.Optimizer)}
        wanted = tensors | modules | optimizers
        for thing in [thing for thing in everything if type(thing) in wanted]:
            if type(thing) in modules:
                found.modules.append(thing)
            elif type(thing) in optimizers:
                found.optimizers.append(thing)
            elif thing.requires_grad and thing.is_leaf:
                found.leaves.append(thing)
        holders = [thing for thing in everything if type(thing) not in _HOLD_NONE]
        found.generators = list({id(generator): generator for generator in _generators(holders)}.values())
        return found


_HOLD_NONE = {
    *(FunctionType, BuiltinFunctionType, GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType, GenericAlias),
    *(type, property, staticmethod, classmethod, weakref.ref),
}
"""Types of which there are very many objects, none of which holds a generator itself."""


def _generators(holders: list[Any]) -> Iterator[torch.Generator]:
    """The person's own generators. The collector does not track them, but what holds them, running frames apart."""
    for start in range(0, len(holders), _SCANNED):
        yield from [thing for thing in gc.get_referents(*holders[start : start + _SCANNED]) if type(thing) is torch.Generator]
    here = threading.get_ident()
    frames = [sys._getframe(1), *(frame for thread, frame in sys._current_frames().items() if thread != here)]
    while frames:  # no variable may keep a frame, least of all this one's
        frame: FrameType | None = frames.pop()
        while frame is not None:
            yield from (value for value in frame_locals.variables(frame).values() if type(value) is torch.Generator)
            frame = frame.f_back


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensor, or those that a container holds."""
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set)) else ()
    return [item for item in items if isinstance(item, torch.Tensor)]


class Tensors:
    """Contents of tensors."""

    def __init__(self) -> None:
        self._saved: list[tuple[torch.Tensor, torch.Tensor, str]] = []
        self._versions: list[Any] = []
        self._seen: set[int] = set()

    def save(self, tensor: torch.Tensor | None, name: str) -> None:
        if tensor is None or id(tensor) in self._seen:
            return
        self._seen.add(id(tensor))
        try:
            copy = tensor.detach().clone()
            counter = version_keeper(tensor) if not tensor.is_inference() else None
        except Exception:  # fake, lazy: no contents
            return
        self._saved.append((tensor, copy, name))
        if counter is not None:
            self._versions.append(counter)

    def restore(self) -> list[str]:
        changed = []
        with torch.no_grad():
            for tensor, copy, name in self._saved:
                try:
                    if not same_bits(tensor.detach(), copy):
                        tensor.detach().copy_(copy)
                        changed.append(name)
                except Exception:
                    changed.append(f"{name} (not put back)")
        for counter in self._versions:
            counter.__exit__(None, None, None)
        return changed


class Generators:
    """States of all random number generators."""

    def __init__(self, own: Iterable[torch.Generator] = (), *, python: bool = False) -> None:
        everything = [torch.default_generator, *_device_generators(), *own]
        self._states = [(generator, generator.get_state()) for generator in everything]
        self._random = random.getstate() if python else None
        numpy = sys.modules.get("numpy.random") if python else None
        self._numpy = (numpy, numpy.get_state()) if numpy is not None else None

    def restore(self) -> None:
        for generator, state in self._states:
            generator.set_state(state)
        if self._random is not None:
            random.setstate(self._random)
        if self._numpy is not None:
            self._numpy[0].set_state(self._numpy[1])


def _device_generators() -> Iterator[torch.Generator]:
    for backend in (torch.cuda, getattr(torch, "xpu", None)):
        if backend is not None and backend.is_initialized():
            yield from backend.default_generators
    if "torch.mps" in sys.modules and torch.backends.mps.is_available():
        yield torch.mps._get_default_mps_generator()


class Containers:
    """Contents of lists, dicts, sets and deques, and of names that functions bind."""

    def __init__(self) -> None:
        self._saved: dict[int, tuple[Any, Any]] = {}
        self._cells: dict[int, tuple[Any, Any]] = {}
        self._globals: list[tuple[dict[str, Any], str, Any]] = []
        self._classes: dict[int, tuple[type, dict[str, Any]]] = {}
        self._functions: set[int] = set()
        self._left = _MOST_ITEMS

    @property
    def complete(self) -> bool:
        """Everything that was met could be looked at."""
        return self._left >= 0

    def save_function(self, function: Any) -> None:
        """What the function can write at arm's length: its closure, the globals it names, the object it is bound to."""
        while hasattr(function, "func"):  # functools.partial
            for value in (*function.args, *function.keywords.values()):
                self.save(value)
            function = function.func
        owner = getattr(function, "__self__", None)
        function = getattr(function, "__func__", function)
        if owner is not None and not isinstance(function, BuiltinFunctionType):
            self._save_object(owner)
        if not isinstance(function, FunctionType):
            self._save_object(function)
            call = vars(type(function)).get("__call__")
            if isinstance(call, FunctionType):
                self.save_function(call)
            return
        if id(function) in self._functions:
            return
        self._functions.add(id(function))
        for cell in function.__closure__ or ():
            self._save_cell(cell)
        for name in function.__code__.co_names:
            if name in function.__globals__:
                self._save_global(function, name, function.__globals__[name])
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.save(value)

    def _save_global(self, function: FunctionType, name: str, value: Any) -> None:
        if isinstance(value, ModuleType):
            if _is_persons(getattr(value, "__file__", None)):
                named = [attribute for attribute in function.__code__.co_names if attribute in vars(value)]
                for attribute in named:
                    self._save_name(vars(value), attribute)
        elif not isinstance(value, type):
            self._save_name(function.__globals__, name)
        else:
            self.save_class(value)

    def _save_name(self, namespace: dict[str, Any], name: str) -> None:
        if not isinstance(namespace[name], (ModuleType, type, FunctionType)):
            self._globals.append((namespace, name, namespace[name]))
            self.save(namespace[name])

    def save_class(self, kind: type) -> None:
        """What a class of the person's keeps in its attributes, as counters do."""
        if id(kind) in self._classes or not _is_persons(getattr(sys.modules.get(kind.__module__), "__file__", None)):
            return
        attributes = {name: value for name, value in vars(kind).items() if _is_data(name, value)}
        self._classes[id(kind)] = kind, attributes
        for value in attributes.values():
            self.save(value)

    def _save_cell(self, cell: Any) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # empty
            return
        self._cells[id(cell)] = cell, value
        self.save(value)

    def _save_object(self, owner: Any) -> None:
        attributes = getattr(owner, "__dict__", None)
        if type(attributes) is dict:
            self.save(attributes)

    def save(self, value: Any, depth: int = 3) -> None:
        """Remember what a container holds, and what the containers in it hold."""
        self._left -= 1
        if self._left < 0:
            return
        if isinstance(value, FunctionType):
            self.save_function(value)
            return
        attributes = getattr(value, "__dict__", None) if not isinstance(value, (type, ModuleType, torch.Tensor)) else None
        if type(attributes) is dict and depth > 0 and not isinstance(value, torch.nn.Module):
            self.save(attributes, depth - 1)
        if not isinstance(value, (list, dict, set, deque, bytearray)) or id(value) in self._saved or len(value) > _MOST_ITEMS:
            return
        self._saved[id(value)] = value, _copy(value)
        if depth > 0:
            for item in list(value.values()) if isinstance(value, dict) else list(value):
                self.save(item, depth - 1)

    def restore(self) -> bool:
        """Put back what changed; says whether anything had."""
        changed = False
        for cell, value in self._cells.values():
            if _contents(cell) is not value:
                cell.cell_contents = value
                changed = True
        for namespace, name, value in self._globals:
            if namespace.get(name) is not value:
                namespace[name] = value
                changed = True
        for kind, attributes in self._classes.values():
            changed = _restore_class(kind, attributes) or changed
        for container, copy in self._saved.values():
            if not _same_items(container, copy):
                _fill(container, copy)
                changed = True
        return changed


def _is_persons(file: str | None) -> bool:
    return file is not None and person_code.kind(file) == person_code.PERSON


def _is_data(name: str, value: Any) -> bool:
    """Neither Python's own names nor methods."""
    return not (name.startswith("__") or hasattr(type(value), "__get__") or isinstance(value, (type, ModuleType)))


def _restore_class(kind: type, earlier: dict[str, Any]) -> bool:
    present = {name: value for name, value in vars(kind).items() if _is_data(name, value)}
    new = [name for name in present if name not in earlier]
    other = {name: value for name, value in earlier.items() if name not in present or present[name] is not value}
    for name in new:
        delattr(kind, name)
    for name, value in other.items():
        setattr(kind, name, value)
    return bool(new or other)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _contents


def _copy(container: Any) -> Any:
    if isinstance(container, dict):
        return list(container.items())
    return bytes(container) if isinstance(container, bytearray) else list(container)


def _same_items(container: Any, copy: Any) -> bool:
    """By identity: comparing values could run the person's code."""
    if len(container) != len(copy):
        return False
    if isinstance(container, bytearray):
        return bool(bytes(container) == copy)
    if isinstance(container, set):
        return {id(item) for item in container} == {id(item) for item in copy}
    if isinstance(container, dict):
        return all(a is c and b is d for (a, b), (c, d) in zip(container.items(), copy, strict=True))
    return all(a is b for a, b in zip(container, copy, strict=True))


def _fill(container: Any, copy: Any) -> None:
    if isinstance(container, (list, bytearray)):
        container[:] = copy
        return
    container.clear()
    add: Callable[[Any], None] = container.extend if isinstance(container, deque) else container.update
    add(copy)
