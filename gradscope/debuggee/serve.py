"""The debuggee's end of the socket: decides at each backward call what happens, and speaks for the script at its end."""

from __future__ import annotations

import sys
import threading
import traceback
from types import ModuleType

from gradscope.debuggee.last_frames import LastFrames
from gradscope.debuggee.stops import Stops
from gradscope.protocol.channel import Channel, Closed
from gradscope.protocol.messages import (
    Configure,
    Died,
    Ending,
    Report,
    Request,
    TorchImported,
)

_SECONDS_BETWEEN_NEWS = 0.1
"""of calls that go by"""


class Server:
    """One for the process. It has no thread of its own: the script's threads come to it."""

    def __init__(self, channel: Channel[Request, Report], configure: Configure) -> None:
        self._channel = channel
        self.configure = configure
        self.stops = Stops(configure.stop_at)
        self.calls = 0
        self._turn = threading.RLock()
        """backward calls of several threads take turns"""
        self._live = True
        self._told = 0.0
        self._last_frames = LastFrames()

    # ------------------------------------------------------------ what happens in the script

    def torch_imported(self, torch: ModuleType) -> None:
        self.send(TorchImported(str(torch.__version__)))
        if self.stops.wanted and not self.configure.record:
            self._last_frames.watch()

    def main_has_run(self) -> None:
        """The script's own code is through; its namespace is alive."""

    def exiting(self) -> None:
        """The last of the script's atexit functions."""
        if not self._live:
            return
        error = getattr(sys, "last_value", None)
        if error is not None:
            self.send(_died(error))
        self.send(Ending(self.calls))
        self.detach()

    def detach(self) -> None:
        """Never speak or stop again: in forked children, and when the session is gone."""
        self._live = False
        self._channel.close()

    def send(self, report: Report) -> None:
        """Tell the session; without one the script goes on alone."""
        if not self._live:
            return
        try:
            self._channel.send(report)
        except Closed:
            self.detach()


def _died(error: BaseException) -> Died:
    """What python has just printed."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    places = traceback.extract_tb(error.__traceback__)
    file, line = (places[-1].filename, places[-1].lineno or 0) if places else ("", 0)
    return Died(type(error).__qualname__, str(error), "".join(lines), file, line)
