"""Lines that were switched off and make something later: they are told right, or not at all, and from then on right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from types import CodeType, FrameType

import pytest
import torch
from origin_ways import install
from test_line_events import UNKNOWN, Case, make
from test_line_events import case as case  # the fixture

from gradscope.debuggee import line_events, resting
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.resting import Resting


@pytest.fixture(autouse=True)
def watched(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.may = False
    monkeypatch.setattr(line_events, "is_traced", lambda code: code.co_filename == __file__)


def scale(tensor: int) -> None:
    make(tensor)


def loop(values: list[int]) -> None:
    for tensor in values:
        make(tensor)


@pytest.mark.parametrize("step", [1.0, 0.0], ids=["seldom", "often"])
def test_a_function_given_tensors_at_last(case: Case, monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    def use() -> None:
        for _ in range(3):
            for _ in range(500):
                scale(0)
            make()
        scale(1)
        scale(2)
        make()

    clock = count(step, step or 1e-9)
    monkeypatch.setattr(resting, "perf_counter", lambda: next(clock))
    case.sure = {4, 5, 6, 7}
    assert case.lines(use) == [("use", 4)] * 3 + [("scale", 1)] * 3 + [("use", 7)]


def test_a_loop_that_runs_unseen_is_not_told_until_it_is_seen(case: Case) -> None:
    def use() -> None:
        loop([0] * 1000 + [1, 1])
        loop([1])
        loop([0] * 1000 + [1])

    assert case.lines(use) == [UNKNOWN, UNKNOWN, ("loop", 2), ("loop", 2)]


def test_a_method_a_closure_and_a_generator(case: Case) -> None:
    class Layer:
        def run(self, tensor: int) -> None:
            make(tensor)

    def maker(more: int) -> Callable[[int], None]:
        def closure(tensor: int) -> None:
            make(tensor + more)

        return closure

    def numbers(tensor: int) -> Iterator[int]:
        yield make(tensor)

    layer, closure = Layer(), maker(0)

    def use() -> None:
        for _ in range(500):
            layer.run(0)
            closure(0)
            list(numbers(0))
        layer.run(1)
        closure(1)
        list(numbers(1))

    case.sure = {5, 6, 7}
    assert case.lines(use) == [("run", 1), ("closure", 1), ("numbers", 1)]


def test_a_line_in_doubt_takes_nothing_of_another(case: Case) -> None:
    """The call's own line is not known to make anything, and the function called runs unseen."""

    def use() -> None:
        for _ in range(500):
            scale(0)
        list(map(scale, [1, 1]))
        scale(1)

    assert case.lines(use) == [UNKNOWN, UNKNOWN, ("scale", 1)]


class Asked:
    """Answers that a line may make nodes, or may not."""

    def __init__(self) -> None:
        self.may = True

    def may_make(self, frame: FrameType, line: int) -> bool:
        return self.may

    def never_makes(self, code: CodeType, line: int) -> bool:
        return False


def test_events_are_turned_on_before_lines_that_make_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1.0]
    monkeypatch.setattr(resting, "perf_counter", lambda: now[0])
    asked, switched = Asked(), []
    rest = Resting(asked, lambda code, on: switched.append((code.co_name, on)), lambda: switched.append(("all", True)))
    frame, code = sys._getframe(), scale.__code__
    asked.may = False
    assert rest.goes_off(code, 0, frame)
    assert (switched, rest.unseen) == ([("scale", False)], {id(code)})
    for _ in range(20):
        rest.prepare(frame.f_code, 7, frame)
    assert rest.unseen  # nothing says that the line makes nodes
    rest.made(frame.f_code, 7)
    rest.prepare(frame.f_code, 7, frame)
    assert (switched[1:], rest.unseen) == ([("scale", True)], set())
    assert rest.stays_off(code, 3, frame)
    now[0] += 1.0
    rest.prepare(frame.f_code, 7, frame)
    assert switched[2:] == [("scale", False), ("scale", True)]
    assert rest.stays_off(code, 3, frame)
    rest.prepare(frame.f_code, 7, frame)  # at once again: that would cost more than the events
    assert switched[4:] == [("scale", False), ("scale", True), ("all", True)]
    assert not rest.goes_off(code, 0, frame)
    assert id(code) not in rest.off


def by_floats_first(v: object, c: float) -> object:
    t = v * c  # type: ignore[operator]
    return t


def test_with_torch() -> None:
    table: Origins = install("lines")
    x = torch.ones(2, requires_grad=True)
    for _ in range(400):
        by_floats_first(1.0, 2.0)
    y = by_floats_first(x, 2.0)
    table.remove()
    assert isinstance(y, torch.Tensor)
    assert y.grad_fn is not None
    origin = table.lookup(y.grad_fn._sequence_nr(), y.grad_fn.name())
    assert origin is not None
    assert (origin.code, origin.line) == ("t = v * c", by_floats_first.__code__.co_firstlineno + 1)
