"""Line events lead each count to the line that made it, with no torch: a counter stands for autograd's number."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest
from origin_ways import Traced

from gradscope.debuggee import line_events
from gradscope.debuggee.code_position import position
from gradscope.debuggee.line_events import LineEvents
from gradscope.debuggee.monitoring import free_tool
from gradscope.debuggee.spans import Spans

UNKNOWN = ("", 0)

made = 0


def make(count: int = 1) -> int:
    """Stands for a call of torch's: its own lines are not watched."""
    global made
    made += count
    return count


class Case:
    """Notes what runs between `start` and `stop`."""

    def __init__(self) -> None:
        self.spans = Spans()
        self.places: list[tuple[str, int]] = []
        self.may = True
        self.sure: set[int] = set()
        """lines that may always make something"""
        self.never: set[int] = set()
        self.asked: list[int] = []
        self.tool: Any = free_tool() or Traced()
        self.events = LineEvents(lambda: made, self._place_of, self.spans, self, self.tool.switch, self.tool.restart)

    def start(self) -> None:
        self.tool.begin(self.events)
        self.events.begin(sys._getframe(1))

    def stop(self) -> None:
        self.events.end(sys._getframe(1))
        self.tool.end()

    def line_of(self, number: int) -> tuple[str, int]:
        """Function, and line from the line of its `def`."""
        place = self.spans.find(number)
        return self.places[place] if place >= 0 else UNKNOWN

    def lines(self, function: Callable[[], object]) -> list[tuple[str, int]]:
        """Where each thing was made that the function made."""
        first = made
        self.start()
        function()
        self.stop()
        return [self.line_of(number) for number in range(first, made)]

    def _place_of(self, frame: FrameType, at: int) -> int:
        line = at if at > 0 else position(frame.f_code, ~at)[0]
        self.places.append((frame.f_code.co_name, line - frame.f_code.co_firstlineno))
        return len(self.places) - 1

    def may_make(self, frame: FrameType, line: int) -> bool:
        at = line - frame.f_code.co_firstlineno if line else 0
        self.asked.append(at)
        return self.may or at in self.sure or bool(frame.f_locals.get("tensor"))

    def never_makes(self, code: CodeType, line: int) -> bool:
        return line - code.co_firstlineno in self.never


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    own = {make.__code__, Case.stop.__code__, Case.start.__code__, Case.lines.__code__}
    monkeypatch.setattr(line_events, "is_traced", lambda code: code.co_filename == __file__ and code not in own)
    return Case()


def one_line() -> None:
    make()
    make(2)


def callee() -> int:
    make()
    return make()


def around() -> None:
    make() + callee() + make()
    make()


def over_lines() -> None:
    make(
        1,
    )
    (
        callee()
        + make()
    )  # fmt: skip


def loop() -> None:
    for _ in range(3):
        make()
        make()


def recursion(depth: int = 2) -> None:
    make()
    if depth:
        recursion(depth - 1)
        make()


def test_lines_and_what_is_called_in_them(case: Case) -> None:
    assert case.lines(one_line) == [("one_line", 1), ("one_line", 2), ("one_line", 2)]
    assert case.lines(around) == [("around", 1), ("callee", 1), ("callee", 2), ("around", 1), ("around", 2)]


def test_statements_over_several_lines(case: Case) -> None:
    assert case.lines(over_lines) == [("over_lines", 1), ("callee", 1), ("callee", 2), ("over_lines", 6)]


def test_loops_take_one_stretch_for_each_run(case: Case) -> None:
    assert case.lines(loop) == [("loop", 2), ("loop", 3)] * 3
    assert len(case.places) == 2  # the place is looked up once for each line as long as the frame stays the same
    assert len(case.spans) == 6


def test_recursion(case: Case) -> None:
    down, up = ("recursion", 1), ("recursion", 4)
    assert case.lines(recursion) == [down, down, down, up, up]


def test_generators_and_comprehensions(case: Case) -> None:
    def numbers() -> Iterator[int]:
        make()
        yield 1
        make()

    def use() -> None:
        for _ in numbers():
            make()
        [make() for _ in range(2)]
        sum(make() for _ in range(2))

    found = case.lines(use)
    assert found[:3] == [("numbers", 1), ("use", 2), ("numbers", 3)]
    assert {line for name, line in found[3:5] if name == "use"} <= {3}
    assert found[5:] == [("<genexpr>", 0), ("<genexpr>", 0)]


def test_exceptions(case: Case) -> None:
    def fails() -> None:
        make()
        raise ValueError

    class Odd:
        def __getattr__(self, name: str) -> Any:
            make()
            raise AttributeError(name)

    odd = Odd()

    def use() -> None:
        try:
            fails()
        except ValueError:
            make()
        hasattr(odd, "x") or make()  # the exception ends in C: no other line runs

    assert case.lines(use) == [("fails", 1), ("use", 4), ("__getattr__", 1), ("use", 5)]


def test_decorators_and_sorting_keys(case: Case) -> None:
    def deco(function: Callable[[], None]) -> Callable[[], None]:
        def wrapper() -> None:
            make()
            function()
            make()

        return wrapper

    @deco
    def inner() -> None:
        make()

    def use() -> None:
        inner()
        sorted([1, 2], key=lambda _: make()), make()

    assert case.lines(use) == [
        ("wrapper", 1), ("inner", 2), ("wrapper", 3), ("<lambda>", 0), ("<lambda>", 0), ("use", 2)
    ]  # fmt: skip


def test_pauses(case: Case) -> None:
    first = made
    case.start()
    make()
    case.events.end(sys._getframe())
    make()  # unseen
    case.events.begin(sys._getframe())
    make()
    case.stop()
    here = sys._getframe().f_lineno - sys._getframe().f_code.co_firstlineno
    assert [case.spans.find(number) >= 0 for number in range(first, made)] == [True, False, True]
    assert [case.line_of(number)[1] for number in (first, first + 2)] == [here - 6, here - 2]


def test_other_threads_are_left_alone(case: Case) -> None:
    before = made
    case.start()
    thread = threading.Thread(target=one_line)
    thread.start()
    thread.join()
    case.stop()
    assert all(name != "one_line" for name, _ in case.places)
    assert made == before + 3


def idle() -> int:
    total = 0
    for number in range(5000):
        total += number
        total -= number
    make()
    return total


def test_lines_that_make_nothing_are_switched_off_where_nothing_could_be_made(case: Case) -> None:
    case.may, case.sure = False, {5}
    assert case.lines(idle) == [("idle", 5)]
    assert {1, 2, 3, 4, 5} >= set(case.asked) >= {3, 4}
    assert len(case.asked) <= 5  # once for each: then they are off


def test_lines_that_may_make_something_stay_on(case: Case) -> None:
    assert case.lines(idle) == [("idle", 5)]
    assert 12 <= len(case.asked) <= 24  # each asked at 100, 200, 400, … runs


def test_lines_that_never_make_anything_are_off_at_once(case: Case) -> None:
    case.never = {2, 3, 4}
    assert case.lines(idle) == [("idle", 5)]
    assert case.asked == []


def small() -> int:
    return 7


def test_a_function_that_makes_nothing_is_left_for_good(case: Case) -> None:
    def use() -> None:
        for _ in range(1000):
            small()
        make()

    case.may, case.sure = False, {3}
    assert case.lines(use) == [("use", 3)]
    assert case.asked.count(0) <= 4  # then nothing of it is seen
