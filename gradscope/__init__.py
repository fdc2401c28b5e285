"""gradscope: a terminal debugger for PyTorch backward passes.

Names are looked up when they are first used (PEP 562), so that importing gradscope costs nothing and never imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscope.export.snapshot import read as load
    from gradscope.model.report import Report

__version__ = "0.1.0"

__all__ = ["Report", "__version__", "load"]

_WHERE = {
    "load": ("gradscope.export.snapshot", "read"),
    "Report": ("gradscope.model.report", "Report"),
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'gradscope' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _WHERE[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
