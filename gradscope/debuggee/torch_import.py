"""Tells when the script has imported torch, or a part of it that torch itself imports late.

Nothing of ours imports torch earlier: what the script sets before that must count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_UNSEEN = "<frozen importlib._bootstrap>"
"""Python leaves frames of this file out when it prints an error that came out of an import."""


def on_torch(callback: Callable[[ModuleType], None]) -> None:
    """Call `callback` with the module once the script has imported torch."""
    on_import("torch", callback)


def on_import(name: str, callback: Callable[[ModuleType], None]) -> Callable[[], None]:
    """Call `callback` with the module of that name once it has been imported. Returns what calls that off."""
    finder = _Finder(name, callback)
    sys.meta_path.insert(0, finder)

    def call_off() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return call_off


class _Finder(MetaPathFinder):
    def __init__(self, wanted: str, callback: Callable[[ModuleType], None]) -> None:
        self._wanted, self._callback = wanted, callback

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Let the others find it, and load it in their stead. A script may only ask whether it is there."""
        if name != self._wanted:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self._loaded)
                return spec
        return None

    def _loaded(self, module: ModuleType) -> None:
        sys.meta_path.remove(self)
        self._callback(module)


class _Loader(Loader):
    """Loads a module as its own loader does, then says so."""

    def __init__(self, loader: Loader, loaded: Callable[[ModuleType], None]) -> None:
        self._loader, self._loaded = loader, loaded

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._loaded(module)

    exec_module.__code__ = exec_module.__code__.replace(co_filename=_UNSEEN)
