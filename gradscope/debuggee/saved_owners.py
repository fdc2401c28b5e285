"""What besides the graph holds the memory of what nodes keep: that memory stays when the graph goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.saved_columns import storages_of
from gradscope.debuggee.subject import Subject

_KINDS = {"parameter": "parameter", "tensor": "leaf", "input": "input"}
"""`Leaf.kind` -> what a person calls it"""


@modes_off()
def owners(subject: Subject, held: Iterable[tuple[Any, str]] = ()) -> dict[int, str]:
    """Addresses of storages, each with its first holder.

    Args:
        subject: its leaves come first, then its roots.
        held: other tensors that somebody holds, with what to call them (`Names.held`).
    """
    found: dict[int, str] = {}
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        for tensor, name in (*_ends(subject), *held):
            for _, storage in storages_of(tensor):
                if storage is not None:
                    found.setdefault(storage[0], name)
    return found


def _ends(subject: Subject) -> Iterator[tuple[Any, str]]:
    for captured, leaf in zip(subject.captured.leaves, subject.columns.leaves, strict=False):
        if captured.variable is not None:
            yield captured.variable, f"{_KINDS.get(leaf.kind, leaf.kind)} {leaf.name}"
    for tensor, root in zip(subject.captured.live_roots, subject.columns.roots, strict=True):
        if isinstance(tensor, torch.Tensor):
            yield tensor, f"root {root.name}"
