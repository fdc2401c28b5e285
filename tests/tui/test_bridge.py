"""Threads that wait for the script: bursts make one message, nothing is lost, leaving never waits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from textual.message import Message

from gradscope.tui.bridge import Bridge, Inbox, InputAwaited, OutputCame, ReportsCame, ScriptGone


class Wire:
    """A channel that gives these reports and then blocks until it is shut down."""

    def __init__(self, reports: list[str]) -> None:
        self._reports = list(reports)
        self._closed = threading.Event()

    def receive(self) -> str:
        if self._reports:
            return self._reports.pop(0)
        self._closed.wait()
        raise ConnectionError("closed")

    def shutdown(self) -> None:
        self._closed.set()


@pytest.fixture
def launched() -> Iterator[Any]:
    """A process on a pty that prints and ends."""
    master, slave = os.openpty()
    code = "import sys; sys.stdout.write('x' * 20000 + 'end'); sys.stdout.flush(); sys.exit(5)"
    process = subprocess.Popen([sys.executable, "-I", "-c", code], stdout=slave, stdin=slave)
    os.close(slave)
    wire = Wire(["a", "b"])
    yield SimpleNamespace(process=process, channel=wire, terminal=master, waits_for_input=lambda: False)
    wire.shutdown()
    process.wait()
    os.close(master)


def test_a_burst_makes_one_message() -> None:
    inbox: Inbox[int] = Inbox()
    assert [inbox.put(item) for item in range(4)] == [True, False, False, False]
    assert inbox.take() == [0, 1, 2, 3]
    assert inbox.put(4) is True


def test_a_full_inbox_says_so() -> None:
    inbox: Inbox[int] = Inbox()
    for item in range(3000):
        inbox.put(item)
    assert inbox.full
    inbox.take()
    assert not inbox.full


def test_everything_comes_before_the_end(launched) -> None:
    told: list[Message] = []
    bridge = Bridge(launched, told.append)
    bridge.begin()
    assert bridge.gone.wait(20)
    for _ in range(200):
        if any(isinstance(message, ScriptGone) for message in told):
            break
        threading.Event().wait(0.01)
    assert bridge.reports.take() == ["a", "b"]
    assert b"".join(bridge.output.take()).endswith(b"xend")
    assert [message.returncode for message in told if isinstance(message, ScriptGone)] == [5]
    assert isinstance(told[-1], ScriptGone)
    assert sum(isinstance(message, ReportsCame) for message in told) == 1
    assert sum(isinstance(message, OutputCame) for message in told) == 1


def test_that_the_script_waits_for_input_is_told_once_each_way(monkeypatch) -> None:
    monkeypatch.setattr("gradscope.tui.bridge.GLANCE", 0.001)
    told: list[Message] = []
    answers = iter([False, True, True, True, False, False])
    over = threading.Event()

    def waits() -> bool:
        answer = next(answers, None)
        if answer is None:
            over.set()
        return bool(answer)

    bridge = Bridge(SimpleNamespace(waits_for_input=waits, channel=Wire([])), told.append)  # type: ignore[arg-type]
    thread = threading.Thread(target=bridge._watch_input)
    thread.start()
    assert over.wait(20)
    bridge.stop()
    thread.join(20)
    assert [message.waiting for message in told if isinstance(message, InputAwaited)] == [True, False]


def test_after_mute_nothing_is_posted(launched) -> None:
    told: list[Message] = []
    bridge = Bridge(launched, told.append)
    bridge.mute()
    bridge.begin()
    assert bridge.gone.wait(20)
    bridge.stop()
    assert told == []


def test_messages_of_a_kind_replace_each_other() -> None:
    bridge = Bridge(SimpleNamespace(), lambda message: None)  # type: ignore[arg-type]
    assert ReportsCame(bridge).can_replace(ReportsCame(bridge))
    assert not ReportsCame(bridge).can_replace(OutputCame(bridge))
    assert not OutputCame(bridge).can_replace(ScriptGone(bridge, 0))
