"""The debuggee's end of the socket, which may close at any time: then the script goes on alone."""

from __future__ import annotations

import select
import time
from collections import deque

from gradscope.debuggee.interrupts import Interrupts
from gradscope.protocol.channel import Channel, Closed
from gradscope.protocol.messages import Cancel, Progress, Report, Request, Resume

_SECONDS_BETWEEN_NEWS = 0.1


class Link:
    """Sends reports and takes requests in order. Not thread-safe: whoever uses it holds the server's turn."""

    def __init__(self, channel: Channel[Request, Report]) -> None:
        self.interrupts = Interrupts()
        self.live = True
        self._channel = channel
        self._early: deque[Request] = deque()
        """came while a pass was running"""
        self._more = False
        """the channel may have taken in more than it has given out"""
        self._told = 0.0
        self._readable = select.poll()
        self._readable.register(channel.fileno(), select.POLLIN)

    def send(self, report: Report) -> None:
        """Tell the session."""
        if not self.live:
            return
        with self.interrupts:
            try:
                self._channel.send(report)
            except Closed:
                self.close()

    @property
    def news_due(self) -> bool:
        """Enough time has gone by since the last ones."""
        return time.monotonic() - self._told >= _SECONDS_BETWEEN_NEWS

    def send_now_and_then(self, report: Report) -> None:
        """Tell news that the next ones outdate."""
        if self.news_due:
            self._told = time.monotonic()
            self.send(report)

    def poll(self) -> Request | None:
        """A request that is here already, else None. Costs next to nothing when there is none."""
        if self._early:
            return self._early.popleft()
        return self._poll()

    def receive(self) -> Request | None:
        """Wait for a request; None when the session is gone.

        Raises:
            KeyboardInterrupt, or whatever the script's handler of SIGINT raises.
        """
        request = self.poll()
        while request is None and self.live:
            self.interrupts.wait_readable(self._channel.fileno())
            request = self._poll()
        return request

    def give_up(self, what: str, done: int, total: int) -> bool:
        """Show how far a pass is. True when the person does not want the rest."""
        self.send_now_and_then(Progress(what, done, total))
        while (request := self._poll()) is not None:
            if isinstance(request, Cancel):
                return True
            self._early.append(request)
        return self.interrupts.pending

    def to_go_on(self) -> bool:
        """While something else than a pass is under way: whether the script is to run on, or nobody is there any more."""
        while (request := self._poll()) is not None:
            self._early.append(request)
        return not self.live or any(isinstance(request, Resume) for request in self._early)

    def close(self) -> None:
        """Never speak again."""
        self.live = False
        self._channel.close()

    def _poll(self) -> Request | None:
        if not self.live or not (self._more or self._readable.poll(0)):
            return None
        with self.interrupts:
            try:
                request = self._channel.poll()
            except Closed:
                self.close()
                return None
        self._more = request is not None
        return request
