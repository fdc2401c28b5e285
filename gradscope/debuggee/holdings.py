"""Who holds which tensor and module: a search through the variables of frames that runs none of the person's code.

Only `__dict__`s and plain containers are read, so no property, `__getattr__` or `__iter__` of the person is called.
"""

from __future__ import annotations

import inspect
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

from gradscope.debuggee import frame_locals
from gradscope.debuggee.leaf_lines import Scope
from gradscope.debuggee.person_code import PERSON, kind

_MOST = 50_000
"""Objects looked at in one search."""
_MOST_ITEMS = 2_000
"""Items of one container looked at."""
_LARGEST_KEY = 1 << 32
"""Integers from here on are taken for ids, hashes and times: no names."""
_DEPTH = 4
"""Steps from a variable through attributes and containers; modules are followed all the way."""


class Holdings:
    """The places of tensors, modules and optimizers below some frames, innermost frame first.

    Modules may be added that no frame holds. Those are at work in a call only if they hold one of its `ends`, its leaves;
    others belong to functions that have returned, and may be garbage.
    """

    def __init__(self, frames: Sequence[FrameType], ends: Iterable[Any] = ()) -> None:
        torch = sys.modules["torch"]
        self._tensor, self._module, self._optimizer = torch.Tensor, torch.nn.Module, torch.optim.Optimizer
        self._ends = {id(tensor) for tensor in ends if tensor is not None}
        self._variables: dict[int, list[str]] = {}
        self._tensors: dict[int, Any] = {}
        self._module_variables: dict[int, str] = {}
        self._optimizer_variables: dict[int, str] = {}
        self._scopes: dict[int, Scope] = {}
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
        self._scope: Scope | None = None
        self._search(frames)
        self._in_view = set(self._modules)

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
        """The tensors that the modules at work hold, in order of the modules."""
        at_work = self._roots_at_work()
        for number, owners in self._owned.items():
            if any(root in at_work for module, _ in owners for root, _ in self._module_paths(module)):
                yield self._tensors[number]

    def tensors(self) -> list[Any]:
        """All that were found, those of variables first."""
        return list(self._tensors.values())

    def variables_of(self, tensor: Any) -> list[str]:
        """Expressions for the tensor, the best first."""
        return self._variables.get(id(tensor), [])

    def scope_of(self, tensor: Any) -> Scope | None:
        """Where the first of its variables is found; None when it is no plain variable."""
        return self._scopes.get(id(tensor))

    def optimizer_name(self, optimizer: Any) -> str:
        """The variable that holds the optimizer, or an empty string."""
        return self._optimizer_variables.get(id(optimizer), "")

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
        """How many root modules at work hold tensors that require grad."""
        if self._trained_roots < 0:
            with sys.modules["torch"]._C.DisableTorchFunctionSubclass():
                trained = [owners for number, owners in self._owned.items() if self._tensors[number].requires_grad]
            roots = {self._module_paths(module)[0][0] for owners in trained for module, _ in owners}
            self._trained_roots = len(roots & self._roots_at_work())
        return self._trained_roots

    def _roots_at_work(self) -> set[int]:
        """Root modules of those that a frame holds, and of those that hold an end of the call."""
        modules = self._in_view | {module for end in self._ends for module, _ in self._owned.get(end, ())}
        return {root for module in modules for root, _ in self._module_paths(module)}

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
            self._scope = _scope_of(frame)
            for name, value in frame_locals.variables(frame).items():
                if name in ("self", "cls"):
                    later.append((name, value))  # an outer frame may know it by a better name
                elif name.isidentifier() and not name.startswith("__"):
                    self._waiting.append((name, value, 0))
            self._drain()
        namespaces = {id(frame.f_globals): frame.f_globals for frame in frames if kind(frame.f_code.co_filename) == PERSON}
        for namespace in namespaces.values():
            file = next(frame.f_code.co_filename for frame in frames if frame.f_globals is namespace)
            self._scope = Scope(file, None, namespace)
            self._waiting.extend((name, value, 0) for name, value in list(namespace.items()) if not name.startswith("__"))
            self._drain()
        self._scope = None
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
                if issubclass(type(value), self._optimizer):
                    self._optimizer_variables.setdefault(id(value), name)
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
        if self._scope is not None and not names and name.isidentifier() and name not in _closed_over(self._scope):
            self._scopes[id(tensor)] = self._scope
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


def _scope_of(frame: FrameType) -> Scope | None:
    code = frame.f_code
    if code.co_flags & inspect.CO_OPTIMIZED:
        return Scope(code.co_filename, code, frame.f_globals)
    return Scope(code.co_filename, None, frame.f_globals) if code.co_name == "<module>" else None


def _closed_over(scope: Scope) -> tuple[str, ...]:
    """Variables that belong to a function round this one."""
    return scope.code.co_freevars if scope.code is not None else ()


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
    if issubclass(made, str | bytes | int | float | complex | type | ModuleType | FunctionType | type(None)) or _is_ours(made):
        return
    if issubclass(made, dict):
        for key, item in list(dict.items(value))[:_MOST_ITEMS]:
            if _is_telling(key):
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
        yield from _slots(value)


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that a class keeps in `__slots__`."""
    for one in type(value).__mro__[:-1]:
        attributes = type.__getattribute__(one, "__dict__")
        for name, member in list(attributes.items()) if "__slots__" in attributes else ():
            if type(member) is MemberDescriptorType and not name.startswith("__"):
                try:
                    yield f".{name}", member.__get__(value)
                except AttributeError:  # not set
                    continue


def _is_telling(key: Any) -> bool:
    """Whether a person would know the item by this key: not by the id of some object."""
    if type(key) is tuple:
        return all(map(_is_telling, key))
    return type(key) in (str, bool, float) or (type(key) is int and abs(key) < _LARGEST_KEY)


def _is_ours(made: type) -> bool:
    """Gradscope's own objects, which the person's frames may hold by way of the garbage collector."""
    home = type.__getattribute__(made, "__dict__").get("__module__")
    return type(home) is str and home.startswith("gradscope.")


def _dict(thing: Any) -> dict[str, Any] | None:
    """The attributes an object holds itself, read past anything its class defines."""
    for one in type(thing).__mro__:
        getter = type.__getattribute__(one, "__dict__").get("__dict__")
        if getter is not None:
            found = getter.__get__(thing) if type(getter) is GetSetDescriptorType else None
            return found if isinstance(found, dict) else None
    return None
