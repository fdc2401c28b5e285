"""Which optimizers there are, and which parameters they step."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from gradscope.debuggee import alive

_watched: dict[int, weakref.ref[Any]] | None = None
"""in the order in which they were made"""
_GATE = "_patch_step_function"
"""A method that every optimizer calls once when it is made, copied or unpickled."""


def watch(torch: Any) -> Callable[[], None]:
    """Note optimizers as they are made, which saves a search of all objects at each stop. Returns the way back."""
    global _watched
    base = torch.optim.Optimizer
    original = vars(base).get(_GATE)
    if original is None or _watched is not None:
        return lambda: None
    watched: dict[int, weakref.ref[Any]] = {}
    _watched = watched
    numbers = itertools.count()

    def add(optimizer: Any) -> None:
        number = next(numbers)
        watched[number] = weakref.ref(optimizer, lambda _: watched.pop(number, None))

    def note(self: Any) -> None:
        add(self)
        original(self)

    for optimizer in alive.instances(base):
        add(optimizer)
    setattr(base, _GATE, note)

    def undo() -> None:
        global _watched
        _watched = None
        setattr(base, _GATE, original)

    return undo


def all_of_them(torch: Any) -> list[Any]:
    """Every optimizer there is, the oldest first where they were watched. Some may be garbage that waits for collection."""
    if _watched is None:
        return alive.instances(torch.optim.Optimizer)
    found = [reference() for reference in list(_watched.values())]
    return list({id(optimizer): optimizer for optimizer in found if optimizer is not None}.values())


def parameters(optimizer: Any) -> Iterator[tuple[int, int, Any]]:
    """(parameter group, place in it, parameter)."""
    for number, group in enumerate(getattr(optimizer, "__dict__", {}).get("param_groups", ())):
        for place, tensor in enumerate(group.get("params", ())):
            yield number, place, tensor
