"""The script's side of the app: starts it, takes what it reports and prints, ends it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.message import Message

from gradscope.errors import GradscopeError
from gradscope.tui.bridge import Bridge, InputAwaited, OutputCame, ReportsCame, ScriptGone
from gradscope.tui.keys_in_order import KeysInOrder

if TYPE_CHECKING:
    from gradscope.session.launcher import Launched
    from gradscope.session.session import Session
    from gradscope.session.terminal import Terminal
    from gradscope.settings import Options

PATIENCE = 2.0
"""seconds between asking a script to end and ending it"""

FRAME = 1 / 30
"""seconds between two looks at the script's output"""

BIG = 1 << 21
"""bytes of columns beyond which a report is read in a thread, so that the screen stays alive"""


class Started(Message):
    """The script runs."""

    def __init__(self, session: Session, launched: Launched, terminal: Terminal) -> None:
        super().__init__()
        self.session, self.launched, self.terminal = session, launched, terminal


class Failed(Message):
    """Something went wrong that a person can be told."""

    def __init__(self, heading: str, error: GradscopeError) -> None:
        super().__init__()
        self.heading, self.error = heading, error


class ReportRead(Message):
    """A big report has been taken in."""


class FormulasRead(Message):
    """Torch's derivative table is here."""


class Hosting(KeysInOrder):
    """Owns session, bridge and terminal. Everything here runs in the UI thread, the workers' bodies apart."""

    def __init__(self, options: Options | None = None, session: Session | None = None) -> None:
        super().__init__()
        self.options = options
        self.session = session
        self.bridge: Bridge | None = None
        self.terminal: Terminal | None = None
        self.follow_script = False
        """the screen closes while the script runs on"""
        self._reading = False
        """a thread has the session"""
        self._waiting: list[Any] = []
        self._quitting = False
        self._catching_up = False

    # ------------------------------------------------------------ for the subclasses

    def refresh_view(self) -> None:
        """Show what the session says now."""

    def load(self) -> None:
        """Import what the first paint does without; in a thread."""

    def warm(self, session: Session) -> None:
        """Work out what drawing a big pass needs; in a thread."""

    async def started(self) -> None:
        """A script runs, or failed to."""

    def output_came(self) -> None:
        """The script's terminal shows something new."""

    @property
    def screen_rows(self) -> int:
        """How many rows the tape shows."""
        return 40

    # ------------------------------------------------------------ start

    @work(thread=True, exclusive=True, exit_on_error=False, group="start")
    def start_script(self, again: Session | None = None) -> None:
        """Start the script; what that needs is imported here, after the first paint."""
        assert self.options is not None
        rows, columns = self.size.height, self.size.width
        try:
            from gradscope.session.starting import start
            from gradscope.session.terminal import Terminal

            session, launched = start(self.options, (rows, columns), again)
            self.load()
            self.post_message(Started(session, launched, Terminal(rows, columns)))
        except GradscopeError as error:
            self.post_message(Failed("The script could not be started", error))
        except Exception as fault:
            self.post_message(Failed("A fault of gradscope's own", own_fault(fault)))

    @on(Started)
    async def _run_begins(self, event: Started) -> None:
        self.session, self.terminal = event.session, event.terminal
        if event.session.library is not None:
            event.session.library.on_ready = self._tell_formulas
        self.bridge = bridge = Bridge(event.launched, self.post_message)
        self.terminal.reply = bridge.write
        await self.started()
        bridge.begin()
        self.refresh_view()

    def _tell_formulas(self) -> None:
        """In the thread that read them."""
        with suppress(RuntimeError):  # the screen has closed this very moment
            self.post_message(FormulasRead())

    @on(FormulasRead)
    def _formulas_read(self) -> None:
        if not self._reading:
            self.refresh_view()

    # ------------------------------------------------------------ reports

    @on(ReportsCame)
    def _take_reports(self, event: ReportsCame) -> None:
        if event.bridge is self.bridge:
            self._waiting += event.bridge.reports.take()
            self._take_waiting()

    def _take_waiting(self) -> None:
        """Give the session what has come, a big report in a thread."""
        session, changed = self.session, False
        while self._waiting and session is not None and not self._reading:
            report = self._waiting.pop(0)
            if _weight(report) > BIG:
                self._reading = True
                self._read_big(session, report)
            else:
                session.handle(report)
                self._mark_printed(report)
                changed = True
        if changed and not self._reading:
            self.refresh_view()

    @work(thread=True, exclusive=True, exit_on_error=False, group="read")
    def _read_big(self, session: Session, report: Any) -> None:
        try:
            session.handle(report)
            self.warm(session)
        finally:
            self.post_message(ReportRead())

    @on(ReportRead)
    def _big_read(self) -> None:
        self._reading = False
        self.refresh_view()
        self._take_waiting()

    def _mark_printed(self, report: Any) -> None:
        """What an exploring pass printed is shown marked."""
        printed = getattr(getattr(report, "tape", None), "printed", "")
        if printed and self.terminal is not None:
            self.terminal.mark(printed)
            self.output_came()

    # ------------------------------------------------------------ output

    @on(OutputCame)
    def _take_output(self, event: OutputCame) -> None:
        if event.bridge is not self.bridge or self.terminal is None:
            return
        for data in event.bridge.output.take():
            self.terminal.feed(data)
        if not self._catching_up:
            self._catch_up()

    def _catch_up(self) -> None:
        """Draw some of what has come, and go on later if there is more."""
        self._catching_up = self.terminal is not None and self.terminal.catch_up()
        self.output_came()
        if self._catching_up:
            self.set_timer(FRAME, self._catch_up)

    @on(InputAwaited)
    def _input_awaited(self, event: InputAwaited) -> None:
        if event.bridge is self.bridge and self.session is not None:
            self.session.waiting = event.waiting
            self.refresh_view()

    def type_to_script(self, data: bytes) -> None:
        if self.bridge is not None:
            self.bridge.write(data)

    def resize_script(self, rows: int, columns: int) -> None:
        """The script's terminal is as large as the person's."""
        if self.bridge is not None and self.terminal is not None:
            self.bridge.launched.resize(rows, columns)
            self.terminal.resize(rows, columns)

    # ------------------------------------------------------------ end

    @on(ScriptGone)
    def _script_gone(self, event: ScriptGone) -> None:
        if event.bridge is not self.bridge or self.session is None:
            return
        if self._reading:
            self.set_timer(FRAME, lambda: self.post_message(event))
            return
        self._waiting += event.bridge.reports.take()
        self._take_waiting()
        self.session.exited(event.returncode)
        if self._quitting:
            self.exit(self.exit_code)
        else:
            self.refresh_view()

    @property
    def exit_code(self) -> int:
        """The script's own, as far as it is known."""
        gone = self.session.view().exit if self.session is not None else None
        return gone.code if gone is not None else 0

    def end_script(self) -> None:
        """Ask the script to end, make it end, then leave."""
        self._quitting = True
        if self.bridge is None:
            self.exit(self.exit_code)
            return
        self.bridge.launched.terminate()
        self.set_timer(PATIENCE, self.bridge.launched.kill)

    def run_again(self) -> None:
        """End the script if it lives, and start it anew."""
        before, self.session = self.session, None
        self._let_go()
        self.start_script(before)

    def _let_go(self) -> None:
        if self.bridge is not None:
            self.bridge.stop()
            if self.bridge.launched.poll() is None:
                self.bridge.launched.kill()
            self.bridge = None
        self._waiting.clear()
        self._reading = False


def _weight(report: Any) -> int:
    """How many bytes of columns there are to read."""
    tape, graph = getattr(report, "tape", None), getattr(report, "graph", None)
    return len(getattr(tape, "contribution_edge", b"")) * 4 + len(getattr(graph, "edge_target", b"")) * 4


def own_fault(fault: BaseException) -> GradscopeError:
    """A bug of ours, as a person is told of it; the log has the rest."""
    import logging

    logging.getLogger("gradscope").error("own fault", exc_info=fault)
    return GradscopeError(f"{type(fault).__name__}: {fault}", "this is a bug of gradscope", "please report it")
