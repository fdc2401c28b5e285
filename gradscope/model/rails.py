"""The lines beside the rows of the tape, as `git log --graph` draws them: which row's gradient goes on to which later row.

A row takes the leftmost lane that waits for it, and the other waiting lanes merge into it. Its first edge keeps its lane; each
further edge joins a lane that already waits for the same row, or takes the smallest free lane. The lanes that are open at some
rows are kept, so that any page is drawn without drawing what comes before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

STRIDE = 64
"""Open lanes are kept at least so many rows apart (farther where more lanes are open: memory stays linear in the rows)."""
MOST_LANES = 12
"""Lanes beyond are cut, and `…` says so."""

FREE = -1


class Rail(NamedTuple):
    """One row's cells: two for a lane. The sign of the row's state goes to `column`, where `text` has a `●`."""

    text: str
    column: int

    def draw(self, glyph: str) -> str:
        """The cells with the caller's one-cell sign in the row's own place."""
        return self.text[: self.column] + glyph + self.text[self.column + 1 :]


class _Lanes:
    """Which row each lane waits for, before some row."""

    def __init__(self, row: int, lanes: Sequence[int] = ()) -> None:
        self.row = row
        self.lanes = list(lanes)
        self.waiting: dict[int, list[int]] = {}
        self.free: list[int] = []
        for lane, target in enumerate(self.lanes):
            if target == FREE:
                self.free.append(lane)
            else:
                self.waiting.setdefault(target, []).append(lane)
        heapify(self.free)

    def take(self, targets: Sequence[int]) -> tuple[int, list[int], list[int]]:
        """Place the row: its lane, the lanes that merged into it, the lanes that its further edges go to."""
        lanes, waiting = self.lanes, self.waiting
        merged = waiting.pop(self.row, None)
        if merged is None:
            own, merged = self._open(), []
        elif len(merged) == 1:
            own, merged = merged[0], []
        else:
            merged.sort()
            own, *merged = merged
            for lane in merged:
                lanes[lane] = FREE
                heappush(self.free, lane)
        joined = []
        if targets:
            lanes[own] = targets[0]
            for target in targets[1:]:
                if target in waiting:
                    joined.append(waiting[target][0])
                elif target != targets[0]:
                    lane = self._open()
                    lanes[lane] = target
                    waiting[target] = [lane]
                    joined.append(lane)
            waiting.setdefault(targets[0], []).append(own)
        else:
            lanes[own] = FREE
            heappush(self.free, own)
        self.row += 1
        return own, merged, joined

    def next_lane(self) -> int:
        """The lane that the row would take."""
        waiting = self.waiting.get(self.row)
        return min(waiting) if waiting else self.free[0] if self.free else len(self.lanes)

    def _open(self) -> int:
        if self.free:
            return heappop(self.free)
        self.lanes.append(FREE)
        return len(self.lanes) - 1


class Rails:
    """Rails of `count` rows. `targets(row)` gives the rows, all greater, that a row's edges go to: each once, in slot order."""

    def __init__(self, count: int, targets: Callable[[int], Sequence[int]]) -> None:
        self._count = count
        self._targets = targets
        self._kept: list[tuple[int, list[int]]] = [(0, [])]
        """(row, lanes before it), ascending"""
        self._ahead = _Lanes(0)
        """stands where the last kept lanes are, or beyond"""
        self._pages: dict[int, list[Rail]] = {}
        """rails from the kept lanes of this number up to the next ones; only the last few pages"""

    def __len__(self) -> int:
        return self._count

    def rail(self, row: int) -> Rail:
        """The cells of one row: `●─╮`, `│ ●`, `●─╯`.

        Raises:
            IndexError: there is no such row.
        """
        if not 0 <= row < self._count:
            raise IndexError(f"row {row} of {self._count}")
        self._reach(min(self._count, row + STRIDE))
        number = bisect_right(self._kept, row, key=lambda kept: kept[0]) - 1
        start = self._kept[number][0]
        page = self._pages.get(number)
        if page is None or row - start >= len(page):
            page = self._page(number)
        return page[row - start]

    def lane_before(self, row: int) -> Rail:
        """A heading above `row`: the open lanes go through, the sign stands in the lane that the row will take."""
        self._reach(row)
        start, kept = self._kept[bisect_right(self._kept, row, key=lambda kept: kept[0]) - 1]
        lanes = _Lanes(start, kept)
        while lanes.row < row:
            lanes.take(self._targets(lanes.row))
        return _draw(lanes.lanes, lanes.lanes, lanes.next_lane(), [], [])

    def _reach(self, row: int) -> None:
        """Keep open lanes up to a row."""
        ahead, targets, last = self._ahead, self._targets, self._kept[-1][0]
        while ahead.row < row:
            ahead.take(targets(ahead.row))
            if ahead.row - last >= STRIDE and ahead.row - last >= len(ahead.lanes):
                last = ahead.row
                self._kept.append((last, list(ahead.lanes)))

    def _page(self, number: int) -> list[Rail]:
        start, kept = self._kept[number]
        end = self._kept[number + 1][0] if number + 1 < len(self._kept) else self._ahead.row
        lanes = _Lanes(start, kept)
        page = []
        while lanes.row < end:
            before = lanes.lanes[:MOST_LANES]
            own, merged, joined = lanes.take(self._targets(lanes.row))
            page.append(_draw(before, lanes.lanes, own, merged, joined))
        if len(self._pages) >= 8:
            self._pages.pop(next(iter(self._pages)))
        self._pages[number] = page
        return page


def _draw(before: Sequence[int], after: Sequence[int], own: int, merged: Sequence[int], joined: Sequence[int]) -> Rail:
    """The cells of a row from the lanes before and after it."""
    ends = (*merged, *joined)
    left, right = min((own, *ends)), max((own, *ends))
    shown = min(max(len(before), len(after), right + 1), MOST_LANES)
    cells = []
    for lane in range(shown):
        above = lane < len(before) and before[lane] != FREE
        below = lane < len(after) and after[lane] != FREE
        if lane == own:
            cells.append("●")
        elif lane in ends:
            cells.append(_end_sign(lane in merged, lane in joined, above, lane == left, lane == right))
        elif left < lane < right:
            cells.append("┼" if above and below else "─")
        else:
            cells.append("│" if above and below else " ")
        cells.append("─" if left <= lane < right else " ")
    if max(right + 1, _open_count(after)) <= shown:
        text = "".join(cells).rstrip()
        return Rail(text, 2 * own)
    text = "".join(cells)
    return Rail(text + "…", 2 * own) if own < shown else Rail(text + "●", len(text))


def _end_sign(merges: bool, opens: bool, above: bool, leftmost: bool, rightmost: bool) -> str:
    """Where a horizontal line meets a lane."""
    up, down = above or merges, opens
    if up and down:
        return "├" if leftmost else "┤" if rightmost else "┼"
    if up:
        return "╰" if leftmost else "╯" if rightmost else "┴"
    return "╭" if leftmost else "╮" if rightmost else "┬"


def _open_count(lanes: Sequence[int]) -> int:
    """Lanes up to the last open one."""
    count = len(lanes)
    while count and lanes[count - 1] == FREE:
        count -= 1
    return count
