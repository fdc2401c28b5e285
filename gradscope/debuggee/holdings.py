"""Who holds which tensor and module: a search through the variables of frames that runs none of the person's code.

Only `__dict__`s and plain containers are read, so no property, `__getattr__` or `__iter__` of the person is called.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType, FunctionType, GetSetDescriptorType, ModuleType
from typing import Any

from gradscope.debuggee import frame_locals
from gradscope.debuggee.person_code import PERSON, kind

_MOST = 50_000
"""Objects looked at in one search."""
_MOST_ITEMS = 2_000
"""Items of one container looked at."""
_DEPTH = 3
"""Steps from a variable through attributes and containers; modules are followed all the way."""


class Holdings:
    """The places of tensors and modules below some frames, innermost frame first."""

    def __init__(self, frames: Sequence[FrameType]) -> None:
        torch = sys.modules["torch"]
        self._tensor, self._module = torch.Tensor, torch.nn.Module
        self._variables: dict[int, list[str]] = {}
        self._tensors: dict[int, Any] = {}
        self._module_variables: dict[int, str] = {}
        self._modules: dict[int, Any] = {}
        self._parents: dict[int, list[tuple[int, str]]] = {}
        self._owned: dict[int, list[tuple[int, str]]] = {}
        """tensor -> (module, attribute) pairs"""
        self._paths: dict[int, list[tuple[int, str]]] = {}
        self._trained_roots = -1
        self._seen: set[int] = set()
        self._keep: list[Any] = []
        self._left = _MOST
        self._waiting: deque[tuple[str, Any, int]] = deque()
        self._search(frames)

    def add_module(self, module: Any) -> None:
        """Take in a module found elsewhere, with all below it."""
        if id(module) not in self._modules:
            self._take_module(module)
            self._drain()
            self._paths.clear()
            self._trained_roots = -1

    def in_modules(self, tensor: Any) -> bool:
        """Whether some known module holds the tensor."""
        return id(tensor) in self._owned

    def parameters(self) -> Iterator[Any]:
        """The tensors that the known modules hold, in order of the modules."""
        yield from (self._tensors[number] for number in self._owned)

    def variables_of(self, tensor: Any) -> list[str]:
        """Expressions for the tensor, the best first."""
        return self._variables.get(id(tensor), [])

    def paths_of(self, tensor: Any) -> tuple[list[str], list[str]]:
        """The tensor's names in its modules: from the root module, and with the variable that holds the root."""
        short, long = [], []
        for module, attribute in self._owned.get(id(tensor), ()):
            for root, path in self._module_paths(module):
                name = f"{path}.{attribute}" if path else attribute
                short.append(name)
                variable = self._module_variables.get(root)
                if variable and variable != "self":
                    long.append(f"{variable}.{name}")
                elif not variable:
                    long.append(f"{type(self._modules[root]).__name__}.{name}")
        return short, long

    def trained_roots(self) -> int:
        """How many root modules hold tensors that require grad."""
        if self._trained_roots < 0:
            with sys.modules["torch"]._C.DisableTorchFunctionSubclass():
                trained = [owners for number, owners in self._owned.items() if self._tensors[number].requires_grad]
            self._trained_roots = len({self._module_paths(module)[0][0] for owners in trained for module, _ in owners})
        return self._trained_roots

    def knows(self, module: Any) -> bool:
        return id(module) in self._modules

    def module_path(self, module: Any, with_root: bool = False) -> str:
        """Path of the module from its root, after the root's variable if asked.

        A root whose children stand bare (`fc1`, not `net.0`) has the empty path: what it computes itself lies in no module
        that the children do not lie in too. Any other root goes by its variable, else by its class name.
        """
        root, path = self._module_paths(id(module))[0] if self.knows(module) else (id(module), "")
        if not path and not with_root and any(not name[:1].isdigit() for name in (_dict(module) or {}).get("_modules", ())):
            return ""
        variable = self._module_variables.get(root, "self")
        if variable == "self":
            variable = type(self._modules.get(root, module)).__name__
        if path and not path[0].isdigit() and not with_root:
            return path
        return f"{variable}.{path}" if path else variable

    def _module_paths(self, module: int) -> list[tuple[int, str]]:
        """(root, path) pairs, every way that leads to the module, without cycles and at most eight."""
        known = self._paths.get(module)
        if known is not None:
            return known
        self._paths[module] = [(module, "")]  # stops at a cycle
        found: list[tuple[int, str]] = []
        for parent, name in self._parents.get(module, ()):
            for root, path in self._module_paths(parent):
                found.append((root, _joined(path, name)))
        self._paths[module] = found[:8] or [(module, "")]
        return self._paths[module]

    def _search(self, frames: Sequence[FrameType]) -> None:
        later: list[tuple[str, Any]] = []
        for frame in frames:
            for name, value in frame_locals.variables(frame).items():
                if name in ("self", "cls"):
                    later.append((name, value))  # an outer frame may know it by a better name
                elif name.isidentifier() and not name.startswith("__"):
                    self._waiting.append((name, value, 0))
            self._drain()
        namespaces = {id(frame.f_globals): frame.f_globals for frame in frames if kind(frame.f_code.co_filename) == PERSON}
        for namespace in namespaces.values():
            self._waiting.extend((name, value, 0) for name, value in list(namespace.items()) if not name.startswith("__"))
            self._drain()
        self._waiting.extend((name, value, 0) for name, value in later)
        self._drain()

    def _drain(self) -> None:
        while self._waiting and self._left > 0:
            self._left -= 1
            name, value, depth = self._waiting.popleft()
            if issubclass(type(value), self._tensor):
                self._take_tensor(name, value)
            elif issubclass(type(value), self._module):
                self._module_variables.setdefault(id(value), name)
                self._take_module(value)
            elif depth < _DEPTH and id(value) not in self._seen:
                inside = list(_inside(value))
                if inside:
                    self._seen.add(id(value))
                    self._keep.append(value)
                    for step, item in inside:
                        self._waiting.append((name + step, item, depth + 1))
        self._waiting.clear()

    def _take_tensor(self, name: str, tensor: Any) -> None:
        names = self._variables.setdefault(id(tensor), [])
        self._tensors[id(tensor)] = tensor
        if name not in names:
            names.append(name)

    def _take_module(self, module: Any) -> None:
        """Note the module, its tensors and all modules below it."""
        waiting = deque([module])
        while waiting:
            one = waiting.popleft()
            if id(one) in self._modules:
                continue
            self._modules[id(one)] = one
            for step, value in _attributes(one):
                if issubclass(type(value), self._tensor):
                    self._tensors[id(value)] = value
                    self._owned.setdefault(id(value), []).append((id(one), step))
                elif issubclass(type(value), self._module) and value is not one:
                    self._parents.setdefault(id(value), []).append((id(one), step))
                    waiting.append(value)


def _joined(path: str, name: str) -> str:
    """A path and one more step; the wrapper that torch.compile puts round a module does not count."""
    if name == "_orig_mod":
        return path
    return f"{path}.{name}" if path and not name.startswith("[") else path + name


def is_module(thing: Any) -> bool:
    """Whether it is an nn.Module whose `__init__` has run."""
    return "_modules" in (_dict(thing) or ())


def _attributes(module: Any) -> Iterator[tuple[str, Any]]:
    """Parameters, buffers and submodules by name; also those in plain lists and dicts, which torch does not look into."""
    attributes = _dict(module) or {}
    for registry in ("_parameters", "_modules", "_buffers"):
        yield from list((attributes.get(registry) or {}).items())
    for name, value in list(attributes.items()):
        if name.startswith("_"):
            continue
        if isinstance(value, list | tuple | dict) and len(value) <= _MOST_ITEMS:
            for step, item in _inside(value):
                yield name + step, item
        else:
            yield name, value


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """What one step further in is called, and what it is: items of plain containers, attributes of plain objects."""
    made = type(value)
    if issubclass(made, str | bytes | int | float | complex | type | ModuleType | FunctionType | type(None)):
        return
    if issubclass(made, dict):
        for key, item in list(dict.items(value))[:_MOST_ITEMS]:
            if type(key) in (str, int, bool, float, tuple):
                yield f"[{key!r}]", item
    elif issubclass(made, list):
        for number, item in enumerate(list.__getitem__(value, slice(0, _MOST_ITEMS))):
            yield f"[{number}]", item
    elif issubclass(made, tuple):
        fields = getattr(made, "_fields", None)
        for number, item in enumerate(tuple.__getitem__(value, slice(0, _MOST_ITEMS))):
            yield (f".{fields[number]}" if isinstance(fields, tuple) and number < len(fields) else f"[{number}]"), item
    elif issubclass(made, deque):
        for number, item in enumerate(list(deque.__iter__(value))[:_MOST_ITEMS]):
            yield f"[{number}]", item
    else:
        for name, item in list((_dict(value) or {}).items())[:_MOST_ITEMS]:
            if type(name) is str and not name.startswith("__"):
                yield f".{name}", item


def _dict(thing: Any) -> dict[str, Any] | None:
    """The attributes an object holds itself, read past anything its class defines."""
    for one in type(thing).__mro__:
        getter = type.__getattribute__(one, "__dict__").get("__dict__")
        if getter is not None:
            found = getter.__get__(thing) if type(getter) is GetSetDescriptorType else None
            return found if isinstance(found, dict) else None
    return None
