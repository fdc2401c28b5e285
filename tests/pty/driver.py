"""Drives the real program in a terminal: keys go in, the screen comes out."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte

PATIENCE = 60.0
"""seconds that anything may take on a busy machine"""

ROOT = Path(__file__).parents[2]

KEYS = {"enter": "\r", "esc": "\x1b", "tab": "\t", "ctrl+c": "\x03", "ctrl+z": "\x1a", "down": "\x1b[B", "pgdn": "\x1b[6~"}


class Program:
    """`python -m gradscope …` on a terminal of its own."""

    def __init__(
        self,
        arguments: Sequence[str],
        size: tuple[int, int] = (36, 120),
        environment: Mapping[str, str] | None = None,
        cwd: str = ".",
    ) -> None:
        self.screen = pyte.Screen(size[1], size[0])
        self.output = bytearray()
        self.started = time.monotonic()
        self._stream = pyte.ByteStream(self.screen)
        self._code: int | None = None
        kept = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"}
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "LANG", "COLUMNS", "LINES")}
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            command = [sys.executable, "-m", "gradscope", *arguments]
            os.execvpe(command[0], command, {**inherited, **kept, "PYTHONPATH": path, **(environment or {})})
        self.before = termios.tcgetattr(self._terminal)

    # ------------------------------------------------------------ in

    def press(self, *keys: str) -> None:
        """Send keys, each by name or as text."""
        for key in keys:
            os.write(self._terminal, KEYS.get(key, key).encode())
            if key == "esc":  # an Escape with another key right behind it is another key
                until = time.monotonic() + 0.3
                while (left := until - time.monotonic()) > 0:
                    self._read(left)

    def resize(self, rows: int, columns: int) -> None:
        self.screen.resize(rows, columns)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    # ------------------------------------------------------------ out

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait(self, wanted: str | Callable[[str], bool], seconds: float = PATIENCE) -> str:
        """Read until the screen shows a text, or satisfies a predicate."""
        found = wanted if callable(wanted) else lambda text: wanted in text
        until = time.monotonic() + seconds
        while not found(self.text):
            if time.monotonic() > until or not self._read(0.1):
                raise AssertionError(f"never seen: {wanted if isinstance(wanted, str) else 'what was waited for'}\n{self.text}")
        return self.text

    def settle(self, quiet: float = 0.4) -> None:
        """Read until nothing has come for a while: a dialog that has just been drawn also has the keys then."""
        while select.select([self._terminal], [], [], quiet)[0] and self._read(0):
            continue

    def wait_for_file(self, path: Path, seconds: float = PATIENCE) -> None:
        until = time.monotonic() + seconds
        while not path.exists():
            self._read(0.05)
            assert time.monotonic() < until, self.text

    def wait_for_end(self, seconds: float = PATIENCE) -> int:
        """Read until the program is gone; its exit code, 128+N for signal N."""
        until = time.monotonic() + seconds
        while self._code is None:
            more = self._read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else 128 - code
                while more and self._read(0.05, once=True):
                    continue
            assert time.monotonic() < until, f"does not end\n{self.text}"
        return self._code

    def _read(self, seconds: float, once: bool = False) -> bool:
        """Read what comes within so long; False when there is nobody to write any more."""
        ready, _, _ = select.select([self._terminal], [], [], seconds)
        if not ready:
            return not once
        try:
            data = os.read(self._terminal, 1 << 16)
        except OSError:
            time.sleep(0.01)
            return self._code is None and not once
        self.output += data
        self._stream.feed(data)
        return bool(data)

    # ------------------------------------------------------------ end

    def close(self) -> None:
        """End it, whatever it does."""
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._terminal)
