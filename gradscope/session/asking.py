"""Requests that are under way: each has a number, the answer names it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from gradscope.errors import GradscopeError
from gradscope.model.columns import Change
from gradscope.protocol import messages as m

Fetched = Callable[[m.TensorSlice | GradscopeError], None]
"""called once, with the slice or with why there is none"""

Collected = Callable[[int], None]
"""called once all that can be sent has come, with how many tensors could not be had"""


Settled = Callable[[GradscopeError | None], None]
"""called once when a request is answered, or with why it is not"""


class Asking:
    """Numbers requests and hands each answer to whoever asked."""

    def __init__(self, send: Callable[[m.Request], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._slices: dict[int, Fetched] = {}
        self._collecting: dict[int, int] = {}
        """request -> how many tensors it is for"""
        self._looks: dict[int, Settled] = {}
        """requests about what nodes keep"""
        self._early = itertools.count(-1, -1)
        """numbers of what nobody has asked for: nobody is told when it is refused"""
        self._missing = 0
        self._collected: Collected = lambda missing: None

    def explore(
        self, seeds: list[str], root: int, input_nr: int, base: int, changes: list[Change], same_seeds: bool = False
    ) -> int:
        number = next(self._numbers)
        texts = [m.SeedText(text) for text in seeds]
        self._send(m.Explore(number, texts, root, input_nr, base, changes, same_seeds))
        return number

    def check(self, node: int, tape: int) -> None:
        self._send(m.Check(next(self._numbers), node, tape))

    def debug(self, node: int, tape: int) -> None:
        self._send(m.Debug(next(self._numbers), node, tape))

    def read_saved(self, settled: Settled) -> None:
        number = next(self._numbers)
        self._looks[number] = settled
        self._send(m.ReadSaved(number))

    def read_saved_early(self, settled: Settled) -> None:
        """The same when nobody waits for it yet."""
        number = next(self._early)
        self._looks[number] = settled
        self._send(m.ReadSaved(number))

    def inspect(self, node: int, settled: Settled) -> None:
        number = next(self._numbers)
        self._looks[number] = settled
        self._send(m.Inspect(number, node))

    def fetch_saved(self, node: int, place: int, index: list[tuple[int, int, int]], done: Fetched) -> None:
        number = next(self._numbers)
        self._slices[number] = done
        self._send(m.FetchSaved(number, node, place, index))

    def pick_root(self, tensor: int, seed: str) -> int:
        number = next(self._numbers)
        self._send(m.PickRoot(number, tensor, m.SeedText(seed)))
        return number

    def fetch(self, tape: int, tensor: int, index: list[tuple[int, int, int]], done: Fetched) -> None:
        number = next(self._numbers)
        self._slices[number] = done
        self._send(m.Fetch(number, tape, tensor, index))

    def tensors(self, wanted: list[tuple[int, list[int]]], done: Collected) -> None:
        """Ask for whole tensors of several tapes: (tape, its tensors)."""
        self._missing, self._collected = 0, done
        requests = [m.FetchTensors(next(self._numbers), tape, tensors) for tape, tensors in wanted]
        self._collecting = {request.request: len(request.tensors) for request in requests}
        for request in requests:
            self._send(request)

    def answered(self, request: int) -> None:
        """A request about what nodes keep is answered."""
        if settled := self._looks.pop(request, None):
            settled(None)

    def sliced(self, report: m.TensorSlice) -> None:
        if done := self._slices.pop(report.request, None):
            done(report)

    def sent(self, request: int, missing: int) -> None:
        """A `FetchTensors` is answered; `missing` of its tensors did not come."""
        if self._collecting.pop(request, None) is not None:
            self._missing += missing
            if not self._collecting:
                self._collected(self._missing)

    def refused(self, request: int, error: GradscopeError) -> bool:
        """Tell who asked; False when nobody waits for that number."""
        if done := self._slices.pop(request, None):
            done(error)
            return True
        if settled := self._looks.pop(request, None):
            settled(error)
            return request < 0
        if request in self._collecting:
            self.sent(request, self._collecting[request])
            return True
        return False

    def give_up(self, error: GradscopeError) -> None:
        """The other side is gone or runs on: nothing that was asked for will come."""
        slices, self._slices = self._slices, {}
        for done in slices.values():
            done(error)
        looks, self._looks = self._looks, {}
        for settled in looks.values():
            settled(error)
        for request, count in list(self._collecting.items()):
            self.sent(request, count)
