"""What gradscope is inside the script's process: one server, which the script's own threads come to."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING

from gradscope.debuggee import hidden_frames, line_stop, live_roots
from gradscope.debuggee.last_frames import LastFrames
from gradscope.debuggee.link import Link
from gradscope.debuggee.sources import Sources
from gradscope.debuggee.stops import Stops
from gradscope.errors import UsageError
from gradscope.model.conditions import Condition, parse
from gradscope.protocol import messages as m

if TYPE_CHECKING:
    from gradscope.debuggee.backward_call import BackwardCall
    from gradscope.debuggee.calls import Calls

NO_TORCH = "the script has not imported torch"


class Server:
    """One for the process. It has no thread of its own."""

    def __init__(self, link: Link, configure: m.Configure) -> None:
        self.link = link
        self.configure = configure
        self.stops = Stops(configure.stop_at)
        self.sources = Sources(link)
        self.conditions: dict[str, Condition] = {}
        """armed conditions by their text"""
        self.turn = threading.RLock()
        """backward calls of several threads take turns"""
        self._script = os.path.abspath(sys.argv[0]) if os.path.exists(sys.argv[0]) else ""
        """python takes `__file__` away before the end is told"""
        self._count = 0
        self._told: tuple[int, str] | None = None
        """the last call that the session was told of, if it raised, and the exception"""
        self._calls: Calls | None = None
        self._last_frames = LastFrames()
        self._disarm: Callable[[], None] = lambda: None
        self._reached = False
        """the line that is waited for has run"""
        self._inside: FrameType | None = None
        """the frame that has come to a line which makes a backward call"""
        self.set_breaks(configure.breaks)
        self._arm()

    # ------------------------------------------------------------ what happens in the script

    def torch_imported(self, torch: ModuleType) -> None:
        from gradscope.debuggee.calls import Calls

        self._calls = Calls(self)
        self._hide_frames_at_the_end()
        with self.turn:
            self.link.send(m.TorchImported(str(torch.__version__)))
        if self.stops.wanted and not self.configure.record:
            self._last_frames.watch()

    def called(self, number: int) -> None:
        """A backward call was met: hear what the session wants meanwhile."""
        self._count = number
        self._last_frames.release()
        while (request := self.link.poll()) is not None:
            match request:
                case m.StopSoon():
                    self.stops.soon()
                case m.SetBreaks():
                    self.set_breaks(request.breaks)

    def main_has_run(self) -> None:
        """The script's own code is through, its namespace is alive. After an error or without a backward call one stops here."""
        error = getattr(sys, "last_value", None)
        if self.link.live and isinstance(error, Exception):
            self._failed(error)
        elif self.link.live and error is None and not (self._count or self.configure.record) and self.stops.wanted:
            self._stop_at_the_end()

    def _failed(self, error: Exception) -> None:
        """Python has printed its traceback, and nothing is torn down yet."""
        if self._calls is None:
            return
        wanted = not self.configure.record and (self.stops.errors or bool(self.conditions))
        try:
            self._calls.bare_stops.after_error(error, told=self._told == (self._count, repr(error)), stops=wanted)
        except Exception as fault:
            self.fault(fault)

    def _stop_at_the_end(self) -> None:
        place, main = self.stops.place, self._last_frames.main
        detail = "" if place is None or self._reached else f"{place.file}:{place.line} was not reached"
        frames = [*reversed(self._last_frames.frames), *([] if main is None else [main])]
        scopes = [live_roots.scope_of(frame) for frame in frames] or [
            live_roots.Scope(vars(sys.modules["__main__"]), "the script")
        ]
        file, line = (self._script, 0) if main is None else (main.f_code.co_filename, main.f_lineno)
        call = m.Call(0, "none", file, line, "<module>", "")
        self._stop_without_call(call, "end", detail, scopes, frames[0] if frames else None)
        self._last_frames.release()

    def exiting(self) -> None:
        """The last of the script's atexit functions."""
        error = getattr(sys, "last_value", None)
        with self.turn:
            if error is not None:
                self.link.send(_died(error))
            self.link.send(m.Ending(self._count))
            self.link.close()

    def detach(self) -> None:
        """In a forked child: never speak or stop again."""
        self.turn = threading.RLock()  # another thread of the parent may have held it
        self.link.close()
        self._disarm()
        self._last_frames.release()
        if self._calls is not None:
            self._calls.detach()

    def told_of(self, call: int, error: BaseException | None) -> None:
        """The session knows how this call ended."""
        self._told = None if error is None else (call, repr(error))

    @property
    def calls(self) -> int:
        """How many backward calls the script has made so far."""
        return self._count

    def fault(self, error: Exception) -> None:
        """Something of ours went wrong. The script must not suffer; the person is told."""
        with self.turn:
            why = "".join(traceback.format_exception_only(type(error), error)).strip()
            where = traceback.extract_tb(error.__traceback__)[-1:]
            place = f" ({where[0].name}, line {where[0].lineno})" if where else ""
            self.link.send(m.Refused(0, "gradscope could not look at this call", why + place, "this is a fault of gradscope's"))

    # ------------------------------------------------------------ what the person wants

    def resume(self, resume: m.Resume) -> None:
        """The script goes on to where the person wants the next stop."""
        self._inside, self._reached = None, False
        self.stops.set(resume.stop_at)
        self.stops.errors = resume.errors
        self._arm()

    def set_breaks(self, texts: list[str]) -> None:
        """Arm these conditions and no others.

        Raises:
            UsageError: one of them is none.
        """
        try:
            self.conditions = {text: parse(text) for text in texts}
        except ValueError as error:
            raise UsageError("this is no condition to stop at", str(error)) from error

    # ------------------------------------------------------------ lines

    def is_at_place(self, call: BackwardCall) -> bool:
        """Was this call made from the line that is waited for?"""
        place = self.stops.place
        if place is None or self._inside is None:
            return False
        frame = call.script_frame
        while frame is not None:
            if frame is self._inside:
                statement = place.statement(frame.f_code.co_filename)
                return statement.line <= frame.f_lineno <= statement.last
            frame = frame.f_back
        return False

    def _arm(self) -> None:
        self._disarm()
        self._disarm = lambda: None
        if self.stops.place is not None and self.link.live:
            self._disarm = line_stop.arm(self.stops.place, self._line_reached)

    def _line_reached(self, frame: FrameType) -> None:
        place = self.stops.place
        if place is None or not self.link.live:
            return
        code = frame.f_code
        self._reached = True
        statement = place.statement(code.co_filename)
        if statement.calls_backward:
            self._inside = frame
            return
        if self.configure.record:
            self.stops.set("first")
            self._arm()
            return
        # Stays armed while we stop: when its trace function returns, Python 3.11 writes a frame's variables back from the dict
        # that `frame_locals` otherwise empties.
        function = getattr(code, "co_qualname", code.co_name)
        call = m.Call(0, "none", code.co_filename, frame.f_lineno, function, "", thread=threading.current_thread().name)
        scopes = [live_roots.scope_of(one) for one in live_roots.own_frames(frame)]
        self._stop_without_call(call, "line", "", scopes, frame)

    def _stop_without_call(
        self, call: m.Call, reason: str, detail: str, scopes: list[live_roots.Scope], frame: FrameType | None
    ) -> None:
        if self._calls is not None:
            self._calls.bare_stops.at(call, reason, detail, scopes, frame)
            return
        with self.turn, self.link.interrupts:
            self.link.send(m.Stopped(call, reason, detail or NO_TORCH))
            self.link.send(m.LiveTensors([]))
            self.sources.send([call.file])
            try:
                while (request := self.link.receive()) is not None:
                    if isinstance(request, m.Resume):
                        self.resume(request)
                        break
                    if isinstance(request, m.Explore | m.PickRoot):
                        self.link.send(m.Refused(request.request, "there is nothing to explore", NO_TORCH))
            finally:
                self.link.send(m.Resumed())

    def _hide_frames_at_the_end(self) -> None:
        """Python prints an uncaught error in C, from its traceback: take our frames out before."""
        shown = sys.excepthook

        def excepthook(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
            hidden_frames.strip(error)
            shown(kind, error, error.__traceback__)

        sys.excepthook = excepthook


def _died(error: BaseException) -> m.Died:
    """What python has just printed."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    places = traceback.extract_tb(error.__traceback__)
    file, line = (places[-1].filename, places[-1].lineno or 0) if places else ("", 0)
    return m.Died(type(error).__qualname__, str(error), "".join(lines), file, line)
