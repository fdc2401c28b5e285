"""Which stretch of sequence numbers belongs to which origin: packed columns, disjoint and sorted by start."""

from __future__ import annotations

from array import array
from bisect import bisect_right


class Spans:
    """Half-open stretches [start, end) with a value and a run each, appended nearly in order and looked up by number."""

    def __init__(self, most: int = 4_000_000) -> None:
        self.most = most
        self._check_at = 0
        self.starts = array("q")
        self.ends = array("q")
        self.values = array("i")
        self.runs = array("q")
        """which run of its line made the stretch; 0 where unknown"""

    def __len__(self) -> int:
        return len(self.starts)

    def find(self, number: int) -> int:
        """The value of the stretch that holds the number, or -1."""
        at = self.place(number)
        return self.values[at] if at >= 0 else -1

    def place(self, number: int) -> int:
        """Which stretch holds the number, or -1."""
        at = bisect_right(self.starts, number) - 1
        return at if at >= 0 and number < self.ends[at] else -1

    def add(self, start: int, end: int, value: int, run: int = 0) -> None:
        """Append a stretch that comes after all others."""
        self.starts.append(start)
        self.ends.append(end)
        self.values.append(value)
        self.runs.append(run)
        if end > self._check_at:
            self._check_at = end + self.most // 2
            self.forget()

    def enclose(self, start: int, end: int, value: int, run: int = 0) -> None:
        """Append a stretch round some that are there already: they keep their numbers, this one takes what they leave."""
        first = len(self.starts)
        while first and self.ends[first - 1] > start:
            first -= 1
        inner = list(zip(self.starts[first:], self.ends[first:], self.values[first:], self.runs[first:], strict=True))
        del self.starts[first:], self.ends[first:], self.values[first:], self.runs[first:]
        for inner_start, inner_end, inner_value, inner_run in inner:
            self._append(start, inner_start, value, run)
            self._append(inner_start, inner_end, inner_value, inner_run)
            start = max(start, inner_end)
        self._append(start, end, value, run)

    def forget(self) -> None:
        """Where there are too many drop the older half: nodes that old are seldom asked for, and memory has bounds."""
        if len(self.starts) <= self.most:
            return
        half = len(self.starts) // 2
        del self.starts[:half], self.ends[:half], self.values[:half], self.runs[:half]

    def _append(self, start: int, end: int, value: int, run: int) -> None:
        if start < end:
            self.starts.append(start)
            self.ends.append(end)
            self.values.append(value)
            self.runs.append(run)
