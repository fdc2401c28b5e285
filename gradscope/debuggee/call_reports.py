"""Keeps the reports of calls that run at the same time apart.

The session takes a report for one of the call that was told of last. So while one thread's call is being recorded, what there is
to say of another thread's waits until the first one has been told to its end.
"""

from __future__ import annotations

from collections import deque

from gradscope.debuggee.link import Link
from gradscope.protocol.messages import Report, Request


class CallReports:
    """The line in which calls wait. Whoever uses it holds the server's turn."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._line: deque[OneCall] = deque()

    def begin(self) -> OneCall:
        """A call is about to be told."""
        call = OneCall(self)
        self._line.append(call)
        return call

    def may_speak(self, call: OneCall) -> bool:
        return self._line[0] is call

    def go_on(self) -> None:
        """Those at the head that have ended leave, and the next one speaks."""
        while self._line and self._line[0].ended:
            self._line.popleft()
            if self._line:
                self._line[0].speak()


class OneCall:
    """The link, as far as one call has need of it."""

    def __init__(self, calls: CallReports) -> None:
        self.ended = False
        self._calls = calls
        self._waiting: list[Report] = []

    def send(self, report: Report) -> None:
        if not self.ended and not self._calls.may_speak(self):
            self._waiting.append(report)
        else:
            self._calls.link.send(report)

    def receive(self) -> Request | None:
        return self._calls.link.receive()

    def give_up(self, what: str, done: int, total: int) -> bool:
        return self._calls.link.give_up(what, done, total)

    def speak(self) -> None:
        """Say all that has waited."""
        for report in self._waiting:
            self._calls.link.send(report)
        self._waiting.clear()

    def end(self) -> None:
        """All has been said of this call."""
        self.ended = True
        self._calls.go_on()
