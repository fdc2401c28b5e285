"""The elements of one grid of a tensor, fetched in blocks as they come into sight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.model.tensors import Value
from gradscope.tui.indexing import Index, Selection

BLOCK = (32, 32)
"""rows and columns of a block"""

LINE_BLOCK = (1, 1024)
"""the same for a vector, which is one row"""

BLOCKS_KEPT = 256


class Tiles:
    """Blocks of a selection by their place; for a small tensor everything is there from the start."""

    def __init__(self, selection: Selection, values: Sequence[Value] | None = None) -> None:
        self.selection = selection
        self.block = BLOCK if len(selection.ranges) == 2 else LINE_BLOCK
        self._values = values
        self._blocks: dict[tuple[int, int], Sequence[Value]] = {}
        self._asked: dict[Index, tuple[int, int]] = {}

    @property
    def rows(self) -> int:
        return self.selection.count(-2)

    @property
    def columns(self) -> int:
        return self.selection.count(-1)

    def value(self, row: int, column: int) -> Value | None:
        """One element, None until it has come."""
        if self._values is not None:
            return self._values[self._offset(row, column)]
        height, width = self.block
        block = self._blocks.get((row // height, column // width))
        if block is None:
            return None
        across = min(width, self.columns - column // width * width)
        return block[row % height * across + column % width]

    def missing(self, rows: range, columns: range) -> Iterator[Index]:
        """What must be asked for before a rectangle can be drawn; each block once."""
        if self._values is not None or not rows or not columns:
            return
        height, width = self.block
        for down in range(rows.start // height, (rows.stop - 1) // height + 1):
            for across in range(columns.start // width, (columns.stop - 1) // width + 1):
                if (down, across) in self._blocks or (down, across) in self._asked.values():
                    continue
                index = self.selection.piece(
                    range(down * height, min((down + 1) * height, self.rows)),
                    range(across * width, min((across + 1) * width, self.columns)),
                )
                self._asked[index] = (down, across)
                yield index

    def take(self, index: Index, values: Sequence[Value]) -> bool:
        """Keep a block that has come; False when it was not asked for here."""
        place = self._asked.pop(index, None)
        if place is None:
            return False
        if len(self._blocks) >= BLOCKS_KEPT:
            self._blocks.pop(next(iter(self._blocks)))
        self._blocks[place] = values
        return True

    def _offset(self, row: int, column: int) -> int:
        offset = 0
        for position, extent in zip(self.selection.place(row, column), self.selection.shape, strict=True):
            offset = offset * extent + position
        return offset
