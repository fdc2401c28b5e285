"""Requests that are under way: each has a number, the answer names it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from gradscope.errors import GradscopeError
from gradscope.protocol import messages as m

Fetched = Callable[[m.TensorSlice | GradscopeError], None]
"""called once, with the slice or with why there is none"""

Collected = Callable[[list[int]], None]
"""called once everything has arrived, with the numbers of the tensors that could not be had"""


class Asking:
    """Numbers requests and hands each answer to whoever asked."""

    def __init__(self, send: Callable[[m.Request], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._slices: dict[int, Fetched] = {}
        self._tensors: dict[int, Collected] = {}

    def explore(self, seeds: list[m.SeedText], root: int, input_nr: int) -> int:
        number = next(self._numbers)
        self._send(m.Explore(number, seeds, root, input_nr))
        return number

    def pick_root(self, tensor: int, seed: str) -> int:
        number = next(self._numbers)
        self._send(m.PickRoot(number, tensor, m.SeedText(seed)))
        return number

    def fetch(self, tape: int, tensor: int, index: list[tuple[int, int, int]], done: Fetched) -> None:
        number = next(self._numbers)
        self._slices[number] = done
        self._send(m.Fetch(number, tape, tensor, index))

    def tensors(self, tape: int, tensors: list[int], done: Collected) -> None:
        number = next(self._numbers)
        self._tensors[number] = done
        self._send(m.FetchTensors(number, tape, tensors))

    def sliced(self, report: m.TensorSlice) -> None:
        if done := self._slices.pop(report.request, None):
            done(report)

    def collected(self, report: m.TensorsDone) -> None:
        if done := self._tensors.pop(report.request, None):
            done(list(report.missing))

    def refused(self, request: int, error: GradscopeError) -> bool:
        """Tell who asked; False when nobody waits for that number."""
        if slice_done := self._slices.pop(request, None):
            slice_done(error)
            return True
        if tensors_done := self._tensors.pop(request, None):
            tensors_done([])
            return False
        return False

    def give_up(self, error: GradscopeError) -> None:
        """The other side is gone or runs on: nothing that was asked for will come."""
        slices, tensors = self._slices, self._tensors
        self._slices, self._tensors = {}, {}
        for done in slices.values():
            done(error)
        for finished in tensors.values():
            finished([])
