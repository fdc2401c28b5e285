"""Line events go under a tool number that nobody else has; where there is none the function mode does the work."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gradscope.debuggee import monitoring, origins
from gradscope.debuggee.mode_origins import ModeOrigins
from gradscope.debuggee.monitoring import Tool, free_tool

EVENTS = ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "PY_UNWIND", "PY_THROW", "LINE", "CALL")


class Fake(SimpleNamespace):
    """`sys.monitoring` as far as a tool needs it."""

    def __init__(self, **taken: str) -> None:
        super().__init__(events=SimpleNamespace(**{name: 1 << place for place, name in enumerate(EVENTS)}), DISABLE=object())
        self.tools = {int(number.lstrip("n")): name for number, name in taken.items()}
        self.callbacks: dict[int, Any] = {}
        self.everywhere = 0
        self.local: dict[Any, int] = {}

    def get_tool(self, number: int) -> str | None:
        return self.tools.get(number)

    def use_tool_id(self, number: int, name: str) -> None:
        assert number not in self.tools
        self.tools[number] = name

    def free_tool_id(self, number: int) -> None:
        del self.tools[number]

    def register_callback(self, number: int, event: int, callback: Any) -> None:
        self.callbacks[event] = callback

    def set_events(self, number: int, events: int) -> None:
        self.everywhere = events

    def set_local_events(self, number: int, code: Any, events: int) -> None:
        self.local[code] = events


def test_numbers_that_python_gives_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for taken, number in (({}, 4), ({"n4": "other"}, 3), ({"n0": "pdb", "n1": "coverage", "n2": "cProfile"}, 4)):
        monkeypatch.setattr(sys, "monitoring", Fake(**taken), raising=False)
        tool = free_tool()
        assert tool is not None
        assert tool._number == number


def test_the_mode_where_none_is_free_or_python_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "monitoring", Fake(n3="one", n4="two"), raising=False)
    assert free_tool() is None
    table = origins.install(torch)
    table.remove()
    assert isinstance(table, ModeOrigins)
    monkeypatch.delattr(sys, "monitoring")
    assert free_tool() is None


def test_a_tool_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    monkeypatch.setattr(sys, "monitoring", fake, raising=False)
    handlers: Any = SimpleNamespace(
        enter=1, leave=2, line=3, thrown=4, unwound=5, call=6, disable=None, forget=lambda: fake.local.clear()
    )
    tool = Tool(4)
    tool.begin(handlers)
    code = test_a_tool_leaves_nothing_behind.__code__
    tool.switch(code, True)
    events = fake.events
    assert handlers.disable is fake.DISABLE
    assert fake.tools == {4: "gradscope"}
    assert fake.everywhere == events.PY_START | events.PY_UNWIND | events.PY_THROW
    assert fake.local == {code: events.LINE | events.PY_RETURN | events.PY_YIELD | events.PY_RESUME | events.CALL}
    assert [fake.callbacks[getattr(events, name)] for name in EVENTS] == [1, 1, 2, 2, 5, 4, 3, 6]
    tool.end()
    assert (fake.tools, fake.everywhere, fake.local) == ({}, 0, {})
    assert set(fake.callbacks.values()) == {None}
    assert monitoring._NUMBERS == (4, 3)
