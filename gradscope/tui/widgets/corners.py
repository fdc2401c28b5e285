"""The corners of tensors that are too big to be written out, as far as they have been asked for."""

from __future__ import annotations

from collections.abc import Hashable

from gradscope.tui.widgets.slice_grid import Slice

KEPT = 64

Part = Slice | str
"""a corner, or why there is none"""


class Corners:
    """Knows what came, and what is under way. An answer is taken only while it is waited for."""

    def __init__(self) -> None:
        self._parts: dict[Hashable, Part] = {}
        self._under_way: dict[Hashable, Hashable] = {}
        """what the answer will name -> what it is the corner of"""

    def of(self, tensor: Hashable) -> Part | None:
        """None while it is not here."""
        return self._parts.get(tensor)

    def asking(self, answer: Hashable, tensor: Hashable) -> bool:
        """Note that an answer is under way; False where it is already."""
        if answer in self._under_way:
            return False
        self._under_way[answer] = tensor
        return True

    def awaited(self, answer: Hashable) -> Hashable | None:
        """What an answer that has come is about; None when nobody waits for it any more."""
        return self._under_way.pop(answer, None)

    def keep(self, tensor: Hashable, part: Part) -> None:
        """Beyond `KEPT` the oldest is let go."""
        if len(self._parts) >= KEPT:
            self._parts.pop(next(iter(self._parts)))
        self._parts[tensor] = part

    def clear(self) -> None:
        """Another stop: its tensors are others, whatever their numbers."""
        self._parts.clear()
        self._under_way.clear()
