"""Which optimizer steps which tensor, and what to call it: `SGD[0]`, `opt_G.Adam[0]` where several are at work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gradscope.debuggee import optimizers


@dataclass(frozen=True, slots=True)
class Place:
    """Where an optimizer holds a tensor."""

    owner: str
    """optimizer and parameter group: `SGD[0]`"""
    number: int
    """in the group"""

    @property
    def text(self) -> str:
        return f"{self.owner}.params[{self.number}]"


class Owners:
    """The optimizers at work in one backward call: those a variable holds, and those that step one of its leaves.

    Others belong to functions that have returned, and may be garbage.
    """

    def __init__(self, name_of: Callable[[Any], str], ends: Iterable[Any]) -> None:
        """Look at all optimizers there are. `name_of` gives the variable that holds one, `ends` are the call's leaves."""
        leaves = {id(tensor) for tensor in ends if tensor is not None}
        everyone = optimizers.all_of_them(sys.modules["torch"])
        named = [one for one in everyone if name_of(one)]
        others = [one for one in everyone if not name_of(one) and any(id(p) in leaves for _, _, p in optimizers.parameters(one))]
        self._at_work = [*named, *others]
        owned: dict[int, tuple[int, int, int]] = {}
        for which, optimizer in enumerate(self._at_work):
            for group, number, tensor in optimizers.parameters(optimizer):
                owned.setdefault(id(tensor), (which, group, number))
        self._labels = self._labelled(sorted({which for which, _, _ in owned.values()}), name_of)
        self._owned = owned

    def place(self, tensor: Any) -> Place | None:
        """Where the tensor is held; where two optimizers hold it, in the one with a name, or the older one."""
        found = self._owned.get(id(tensor))
        if found is None:
            return None
        which, group, number = found
        return Place(f"{self._labels[which]}[{group}]", number)

    def parameters(self) -> Iterator[Any]:
        """All that the optimizers at work step."""
        for optimizer in self._at_work:
            for _, _, tensor in optimizers.parameters(optimizer):
                yield tensor

    def _labelled(self, owning: list[int], name_of: Callable[[Any], str]) -> dict[int, str]:
        kinds = {which: type(self._at_work[which]).__name__ for which in owning}
        if len(owning) < 2:
            return kinds
        labels: dict[int, str] = {}
        for which, kind in kinds.items():
            name = name_of(self._at_work[which])
            alike = sum(other == kind and not name_of(self._at_work[place]) for place, other in kinds.items() if place <= which)
            labels[which] = f"{name}.{kind}" if name else kind if alike == 1 else f"{kind}#{alike}"
        return labels
