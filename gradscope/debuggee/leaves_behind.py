"""The leaves behind a tensor: what its gradient would reach."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

MOST = 2_000
"""nodes looked at, from the tensor on"""

Leaves = tuple["weakref.ref[Any]", ...]


def leaves_behind(tensors: Iterable[Any], most: int = MOST) -> Leaves:
    """Weak references to the leaves that these tensors depend on, as far as a bounded walk finds them.

    Nothing is kept of the nodes. Call it where no function mode or subclass is asked.
    """
    found: dict[int, weakref.ref[Any]] = {}
    waiting: list[Any] = []
    for tensor in tensors:
        if not tensor.requires_grad:
            continue
        if tensor.grad_fn is None and tensor._base is not None:  # a view made under no_grad says that it requires a gradient
            tensor = tensor._base
        if tensor.grad_fn is not None:
            waiting.append(tensor.grad_fn)
        elif tensor.requires_grad:
            found[id(tensor)] = weakref.ref(tensor)
    seen = set(waiting)
    at = 0
    while at < len(waiting) and at < most:
        node = waiting[at]
        at += 1
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = weakref.ref(variable)
            continue
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return tuple(found.values())


def alive(leaves: Leaves) -> bool:
    """Whether they can be taken for those of another run of the same line: none is known to have died."""
    return all(leaf() is not None for leaf in (*leaves[:1], *leaves[-1:]))
