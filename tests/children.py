"""Real children of the launcher, driven by the smallest session that can be."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from gradscope.protocol.channel import Closed
from gradscope.protocol.messages import Configure, Refused, Report, Request
from gradscope.session.launcher import Launched

PATIENCE = 180.0
DRIVER = Path(__file__).parent / "process" / "headless_driver.py"
ROOT = Path(__file__).parents[1]

_ADDRESS = re.compile("0x[0-9a-f]{6,}")

NEVER = Configure(stop_at="never")
RECORD = Configure(stop_at="never", record=-1)

Kind = TypeVar("Kind")

_KNOWN: dict[object, Outcome] = {}
"""what plain python did"""


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    reports: list[Report] = field(default_factory=list)

    def only(self, kind: type[Kind]) -> Kind:
        (found,) = self.all(kind)
        return found

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [report for report in self.reports if isinstance(report, kind)]

    @property
    def seen(self) -> tuple[int, str, str]:
        """Without the addresses of objects."""
        return self.code, _ADDRESS.sub("0x…", self.out), _ADDRESS.sub("0x…", self.err)


class Scripts:
    """Writes scripts into a folder and runs them there, plainly and under gradscope."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str, name: str = "script.py") -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return str(path)

    def plain(self, *arguments: str, stdin: str = "") -> Outcome:
        return self._run([sys.executable, *arguments], dict(os.environ), stdin)

    def headless(self, *arguments: str, configure: Configure | None = None, stdin: str = "") -> Outcome:
        kept = self.folder / "reports"
        settings = msgspec.json.encode(configure or NEVER).decode()
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        # What PYTHONPATH gives to the driver the script sees as well; plain runs see it too (`same`).
        outcome = self._run([sys.executable, str(DRIVER), str(kept), settings, *arguments], environment, stdin)
        outcome.reports = msgspec.msgpack.decode(kept.read_bytes(), type=list[Report]) if kept.exists() else []
        assert [r for r in outcome.all(Refused) if "fault of gradscope" in r.hint] == []
        return outcome

    def same(self, *arguments: str, stdin: str = "", configures: Sequence[Configure] = (NEVER,)) -> Outcome:
        """Run both ways; assert that nobody can tell the difference by exit code, stdout or stderr. The last run's outcome."""
        plain = self._plain_once(arguments, stdin)
        for configure in configures:
            ours = self.headless(*arguments, stdin=stdin, configure=configure)
            assert ours.seen == plain.seen
        return ours

    def _plain_once(self, arguments: tuple[str, ...], stdin: str) -> Outcome:
        """Plain python; what it did with the very same files, words and environment is not asked again."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_CURRENT_TEST": ""}
        files = tuple((path.relative_to(self.folder), path.read_text()) for path in sorted(self.folder.rglob("*.py")))
        key = (files, arguments, stdin, tuple(environment.items()))
        known = _KNOWN.get(key)
        if known is None:
            known = self._run([sys.executable, *arguments], environment, stdin)
            if str(self.folder) not in known.out + known.err:
                _KNOWN[key] = known
        return known

    def _run(self, command: list[str], environment: dict[str, str], stdin: str) -> Outcome:
        done = subprocess.run(
            command, cwd=self.folder, env=environment, input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        return Outcome(128 - done.returncode if done.returncode < 0 else done.returncode, done.stdout, done.stderr)


class Live:
    """A script on a terminal of its own, driven step by step by a test."""

    def __init__(self, launched: Launched) -> None:
        self.launched = launched
        self.reports: list[Report] = []
        self.printed = b""
        self._taken = 0

    def send(self, request: Request) -> None:
        self.launched.channel.send(request)

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [report for report in self.reports if isinstance(report, kind)]

    def type(self, text: str) -> None:
        assert self.launched.terminal is not None
        os.write(self.launched.terminal, text.encode())

    def wait_for(self, kind: type[Kind]) -> Kind:
        """The next report of this kind, after the last one waited for."""

        def came() -> Kind | None:
            for place in range(self._taken, len(self.reports)):
                report = self.reports[place]
                if isinstance(report, kind):
                    self._taken = place + 1
                    return report
            return None

        return self._until(came, kind.__name__)

    def wait_for_text(self, text: str) -> None:
        self._until(lambda: text.encode() in self.printed or None, repr(text))

    def end(self) -> int:
        """Take everything until the script is gone: its exit code."""
        return self._until(lambda: self.launched.poll(), "the end", drain=True)

    def _until(self, found: Callable[[], Kind | None], what: str, drain: bool = False) -> Kind:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            value = found()
            moved = self._pump()
            if value is not None and not (drain and moved):
                return value
        raise AssertionError(f"{what} did not come: {self.reports} {self.printed[-2000:]!r}")

    def _pump(self) -> bool:
        """Take what is there now; False when there was nothing for a while."""
        terminal, channel = self.launched.terminal, self.launched.channel
        watched = [fd for fd in (terminal, channel.fileno()) if fd is not None and fd >= 0]
        readable, _, _ = select.select(watched, [], [], 0.02)
        if terminal in readable:
            try:
                self.printed += os.read(terminal, 1 << 16)
            except OSError:  # the script has let go of its terminal
                readable.remove(terminal)
        if channel.fileno() in readable:
            try:
                while (report := channel.poll()) is not None:
                    self.reports.append(report)
            except Closed:
                channel.close()
        return bool(readable)


Start = Callable[..., Live]
