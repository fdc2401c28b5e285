"""The tensors that `autograd.grad` is about to give: torch has no place where they could be seen on their way to the script.

They are in a tuple that the engine has made just now, so it is among the youngest objects that Python's garbage collector knows.
Where it is not found there (a collection came in between), nothing is said.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import torch

_MOST = 100_000
"""young objects; more are not looked through"""

Shapes = tuple["tuple[int, ...] | None", ...]
"""of what is asked for, None where that is not known"""


def shapes_of(inputs: Sequence[Any]) -> Shapes:
    """What the gradients for these `inputs` will look like."""
    return tuple(tuple(one.shape) if isinstance(one, torch.Tensor) and not one.is_nested else None for one in inputs)


def given(shapes: Shapes) -> list[Any]:
    """The gradients, called right after the engine has made them and before anything else is done."""
    if not shapes or gc.get_count()[0] > _MOST:
        return []
    for thing in reversed(gc.get_objects(generation=0)):
        if type(thing) is tuple and len(thing) == len(shapes) and all(map(_fits, thing, shapes)):
            return [one for one in thing if one is not None]
    return []


def _fits(one: Any, shape: tuple[int, ...] | None) -> bool:
    if one is None:
        return True
    if type(one) is not torch.Tensor or one.requires_grad or one.is_nested:
        return False
    return shape is None or tuple(one.shape) == shape
