"""Finds stretches of a sequence that repeat one pattern again and again: the blocks of a deep net, the rounds of a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

LONGEST_PATTERN = 5_000
TRIES = 4
"""How many distances to a later equal item are tried as the pattern's length."""


class Repeat(NamedTuple):
    """From `start`, `period` items repeat `rounds` times."""

    start: int
    period: int
    rounds: int


def find_repeats(items: Sequence[int]) -> Iterator[Repeat]:
    """Repeats that do not overlap, from left to right; of those that begin at an item the one that covers most."""
    later = _next_equal(items)
    start, count = 0, len(items)
    while start < count:
        best = Repeat(start, 1, 1)
        again = start
        for _ in range(TRIES):
            again = later[again]
            period = again - start
            if again >= count or period > LONGEST_PATTERN:
                break
            rounds = _rounds(items, start, period)
            if rounds > 1 and rounds * period > best.rounds * best.period:
                best = Repeat(start, period, rounds)
        if best.rounds > 1:
            yield best
        start += best.period * best.rounds


def _rounds(items: Sequence[int], start: int, period: int) -> int:
    end, count = start, len(items)
    while end + period < count and items[end] == items[end + period]:
        end += 1
    return (end - start) // period + 1


def _next_equal(items: Sequence[int]) -> list[int]:
    """For each item the place of the next equal one, or the length of the sequence."""
    later = [len(items)] * len(items)
    seen: dict[int, int] = {}
    for place in range(len(items) - 1, -1, -1):
        later[place] = seen.get(items[place], len(items))
        seen[items[place]] = place
    return later
