"""Threads that wait for the script: its reports, its output, its end. They touch no widget; each posts one message."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from textual.message import Message

if TYPE_CHECKING:
    from gradscope.session.launcher import Launched

CHUNK = 1 << 16
LAST_WORDS = 0.5
"""seconds that reports and output may still come after the process is gone; a grandchild may hold both open for ever"""

GLANCE = 0.3
"""seconds between two looks at whether the script waits for input"""

FULL = 2048
"""pieces of output that wait at most: a script that prints faster than the screen takes waits, as at any terminal"""

Item = TypeVar("Item")
Post = Callable[[Message], Any]


@dataclass
class ReportsCame(Message):
    """The inbox of reports has something."""

    bridge: Bridge

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ReportsCame)


@dataclass
class OutputCame(Message):
    """The inbox of output has something."""

    bridge: Bridge

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, OutputCame)


@dataclass
class InputAwaited(Message):
    """The script has begun to wait for something to be typed, or waits no longer."""

    bridge: Bridge
    waiting: bool


@dataclass
class ScriptGone(Message):
    """The process has ended, and all it had to say has been posted."""

    bridge: Bridge
    returncode: int


class Inbox(Generic[Item]):
    """What one thread has read and the screen has not yet taken: a burst makes one message."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._told = False

    def put(self, item: Item) -> bool:
        """Add one; True when the screen must be told."""
        self._items.append(item)
        told, self._told = self._told, True
        return not told

    @property
    def full(self) -> bool:
        return len(self._items) > FULL

    def take(self) -> list[Item]:
        """All of them, in order. The next one is told anew."""
        self._told = False
        items = []
        while self._items:
            items.append(self._items.popleft())
        return items


class Bridge:
    """The waiting side of one launched script: four threads, until the script is gone."""

    def __init__(self, launched: Launched, post: Post) -> None:
        self.launched = launched
        self.reports: Inbox[Any] = Inbox()
        self.output: Inbox[bytes] = Inbox()
        self.gone = threading.Event()
        """the process has ended, and its last words are in the inboxes"""
        self._post: Post | None = post
        self._reports_done = threading.Event()
        self._output_done = threading.Event()
        self._stopped = False

    def begin(self) -> None:
        """Start waiting. The threads are daemons, not workers of Textual's: leaving must never wait for a script."""
        threads = {"reports": self._read_reports, "output": self._read_output, "input": self._watch_input, "end": self._wait}
        for name, wait in threads.items():
            threading.Thread(target=wait, name=f"gradscope-{name}", daemon=True).start()

    def mute(self) -> None:
        """Nobody takes messages any more; the inboxes go on filling."""
        self._post = None

    def stop(self) -> None:
        """Wake the readers and let go of the script."""
        self._stopped = True
        self.mute()
        self.launched.channel.shutdown()

    def write(self, data: bytes) -> None:
        """Give the script's terminal what was typed."""
        if self.launched.terminal is not None:
            with suppress(OSError):  # the script is gone
                os.write(self.launched.terminal, data)

    # ------------------------------------------------------------ threads

    def _read_reports(self) -> None:
        """Until the other side closes the socket."""
        try:
            while not self._stopped:
                if self.reports.put(self.launched.channel.receive()):
                    self._tell(ReportsCame(self))
        except Exception:  # the socket is closed, by either side; what is no report ends the talk likewise
            return
        finally:
            self._reports_done.set()

    def _read_output(self) -> None:
        """Until the terminal has no writer any more."""
        terminal = self.launched.terminal
        try:
            while not self._stopped and terminal is not None and (data := _read(terminal)):
                if self.output.put(data):
                    self._tell(OutputCame(self))
                while self.output.full and not self._stopped:
                    time.sleep(0.005)
        finally:
            self._output_done.set()

    def _watch_input(self) -> None:
        """Look now and then whether the script reads its terminal."""
        waiting = False
        while not self._stopped and not self.gone.wait(GLANCE):
            before, waiting = waiting, self.launched.waits_for_input()
            if waiting != before:
                self._tell(InputAwaited(self, waiting))

    def _wait(self) -> None:
        """Until the process is gone."""
        returncode = self.launched.process.wait()
        self._reports_done.wait(LAST_WORDS)
        self._output_done.wait(LAST_WORDS)
        self.gone.set()
        self._tell(ScriptGone(self, returncode))

    def _tell(self, message: Message) -> None:
        post = self._post
        if post is not None:
            with suppress(RuntimeError):  # the screen has closed this very moment
                post(message)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, CHUNK)
    except OSError as error:
        if error.errno in (errno.EIO, errno.EBADF):  # no writer is left
            return b""
        raise
