"""Keep torch.compile as it is: inside compiled code no mode of ours is in force, so nothing is guarded on, traced or broken.

The nodes that compiled code makes belong to the person's line that called it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gradscope.debuggee import torch_import

if TYPE_CHECKING:
    from gradscope.debuggee.origin_table import Origins

_HOME = "torch._dynamo.eval_frame"


def see_compiled(origins: Origins) -> Callable[[], None]:
    """Pause the origins whenever compiled code is entered, from its first import on. Returns the way back."""
    undo: list[Callable[[], None]] = []

    def loaded(module: ModuleType) -> None:
        context: Any = getattr(module, "_TorchDynamoContext", None)
        if context is not None:
            undo.append(_patch(context, origins))

    if _HOME in sys.modules:
        loaded(sys.modules[_HOME])
    else:
        undo.append(torch_import.on_import(_HOME, loaded))

    def back() -> None:
        for step in undo:
            step()

    return back


def _patch(context: Any, origins: Origins) -> Callable[[], None]:
    original = context.__init__

    def enter() -> Callable[[], None]:
        end = origins.span()
        origins.pause()

        def leave() -> None:
            origins.resume()
            end()

        return leave

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.enter_exit_hooks.insert(0, enter)

    context.__init__ = __init__
    return lambda: setattr(context, "__init__", original)
