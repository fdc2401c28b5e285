"""A session with a real child, driven by a test in one thread."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gradscope.protocol.channel import Closed
from gradscope.protocol.messages import Recorded
from gradscope.session.launcher import Launched
from gradscope.session.session import Session
from gradscope.session.starting import start
from gradscope.session.terminal import Terminal
from gradscope.session.view import State, View
from gradscope.settings import Options

PATIENCE = 120.0
"""seconds for what takes a tenth of them on a busy machine"""


class Living:
    """Reads what the child reports and prints until what a test waits for is there."""

    def __init__(self, session: Session, launched: Launched) -> None:
        self.session, self.launched = session, launched
        self.errors: list[Exception] = []
        self.terminal = Terminal()
        session.on_error = self.errors.append
        self._speaks = True

    def until(self, done: Callable[[View], bool]) -> View:
        """Pump until `done`; fails when the script is over first, or after PATIENCE."""
        deadline = time.monotonic() + PATIENCE
        while not done(view := self.session.view()):
            assert time.monotonic() < deadline, f"waited in vain: {view.state}, busy {view.busy}, {self.text}"
            assert view.exit is None or not self._over(), f"the script is over: {view.exit}, {self.text}"
            self._pump()
        return view

    def stopped(self) -> View:
        """Until the script stands still and nothing is being recorded."""
        return self.until(lambda view: view.state is State.STOPPED and view.busy is None)

    def stopped_with_tape(self) -> View:
        return self.until(lambda view: view.state is State.STOPPED and view.busy is None and view.tape is not None)

    def ended(self) -> View:
        """Until the process is gone."""
        return self.until(lambda view: view.exit is not None and self._over())

    def type(self, text: str) -> None:
        assert self.launched.terminal is not None
        os.write(self.launched.terminal, text.encode())

    @property
    def text(self) -> str:
        while self.terminal.catch_up(1.0):
            pass
        return self.terminal.text

    def _over(self) -> bool:
        return self.launched.poll() is not None and not self._speaks

    def _pump(self) -> None:
        over = self.launched.poll() is not None
        self._read_terminal(0.0 if over or self._speaks else 0.05)
        if not self._speaks:
            return
        try:
            report = self.launched.channel.poll(0.0 if over else 0.05)
        except Closed:
            report, over = None, self.launched.wait(PATIENCE) is not None
        if report is not None:
            self.session.handle(report)
            if isinstance(report, Recorded) and report.tape.printed:
                self.terminal.mark(report.tape.printed)
        elif over:
            self._speaks = False
            self._read_terminal(0.0)
            self.session.exited(self.launched.process.returncode)

    def _read_terminal(self, seconds: float) -> None:
        master = self.launched.terminal
        while master is not None and select.select([master], [], [], seconds)[0]:
            try:
                data = os.read(master, 1 << 16)
            except OSError:
                return  # Linux: the last one that had it open is gone
            if not data:
                return
            self.terminal.feed(data)


@contextmanager
def living(script: Path, *arguments: str, **more: object) -> Iterator[Living]:
    """A script under gradscope; killed at the end if it still lives."""
    session, launched = start(Options(str(script), arguments=arguments, **more), (24, 80))  # type: ignore[arg-type]
    try:
        yield Living(session, launched)
    finally:
        if launched.poll() is None:
            launched.kill()
            launched.wait(PATIENCE)
        launched.close()
