"""Starts the script in a process of its own, on a terminal of its own, and knows how to end it."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from gradscope.errors import GradscopeError, UsageError
from gradscope.protocol.channel import Channel, session_end
from gradscope.protocol.messages import Report, Request
from gradscope.session.waiting import waits_for_input

STACK = 1 << 30
"""Freeing a deep graph recurses in C++: a million nodes need more than the shell's usual 8 MiB."""

VARIABLE = "GRADSCOPE_DEBUGGEE"
"""What the child must know, as `descriptor:stack:terminal:path`; it removes it before the script runs."""

_STARTUP = str(Path(__file__).parents[1] / "debuggee" / "startup")
_INPUT_IS_UTF8 = 0o40000
"""IUTF8: backspace takes a whole character. `termios` does not name it."""


@dataclass(slots=True)
class Launched:
    """A script that runs under gradscope."""

    process: subprocess.Popen[bytes]
    channel: Channel[Report, Request]
    terminal: int | None
    """The master of the script's pty: read its output here, write what is typed. None when it shares our own stdio."""
    device: int = 0
    """number of that pty, as the script has it open"""

    def resize(self, rows: int, columns: int) -> None:
        """Give the script's terminal a size; the kernel tells its foreground group with SIGWINCH."""
        if self.terminal is not None:
            _set_size(self.terminal, rows, columns)

    def interrupt(self) -> None:
        """What Ctrl-C in the script's terminal does."""
        self._signal(signal.SIGINT, self._foreground())

    def terminate(self) -> None:
        self._signal(signal.SIGTERM, self._group())

    def kill(self) -> None:
        """End the script and all that still runs in its process group, at once."""
        self._signal(signal.SIGKILL, self._group())

    def waits_for_input(self) -> bool:
        """Whether the script stands still until something is typed into its terminal; False where that cannot be told."""
        return self.device != 0 and waits_for_input(self.process.pid, self.device)

    def poll(self) -> int | None:
        """The exit code as a shell reports it, None while the script lives."""
        code = self.process.poll()
        return None if code is None else shell_code(code)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code as a shell reports it: 128+N for signal N.

        Raises:
            subprocess.TimeoutExpired: the script still lives.
        """
        return shell_code(self.process.wait(timeout))

    @contextmanager
    def signals_shared(self) -> Iterator[None]:
        """While the script shares our terminal: a signal meant for it reaches it exactly once, and does not end us first."""
        previous = {number: signal.signal(number, self._pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Let go of the socket and the terminal; the script, if it lives, goes on without gradscope."""
        self.channel.close()
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and _in_foreground():
            return  # the terminal has sent it to the script as well
        self._signal(number, 0)

    def _group(self) -> int:
        """The script's process group; 0 where it is ours too."""
        return 0 if self.terminal is None else self.process.pid

    def _foreground(self) -> int:
        if self.terminal is None:
            return 0
        try:
            return os.tcgetpgrp(self.terminal) or self.process.pid
        except OSError:  # the script has not taken the terminal yet, or is gone
            return self.process.pid

    def _signal(self, number: int, group: int) -> None:
        with suppress(ProcessLookupError):
            if group:
                os.killpg(group, number)
            elif self.process.poll() is None:
                os.kill(self.process.pid, number)


def launch(
    arguments: Sequence[str],
    *,
    python: str = sys.executable,
    headless: bool = False,
    size: tuple[int, int] = (24, 80),
    stdin: int | None = None,
    stdout: int | None = None,
) -> Launched:
    """Start `python ARGUMENTS…` with gradscope inside.

    Args:
        arguments: what python gets: `script.py a b`, or `-m module a b`.
        python: the interpreter of the script.
        headless: the script keeps our stdin, stdout, stderr and process group. Else it gets a terminal and a session of its own.
        size: rows and columns of that terminal.
        stdin: a descriptor the script reads instead of its terminal, where gradscope's own stdin is redirected.
        stdout: headless, a descriptor the script writes to instead of our stdout.

    Raises:
        UsageError: there is no such interpreter.
    """
    ours, theirs = socket.socketpair()
    master, slave = (None, None) if headless else _open_terminal(*size)
    device = 0 if slave is None else os.fstat(slave).st_rdev
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    try:
        with _stack_limit(soft, hard):
            process = subprocess.Popen(
                [python, *arguments],
                env=_environment(os.environ, theirs.fileno(), soft, terminal=not headless),
                stdin=slave if stdin is None else stdin,
                stdout=slave if stdout is None else stdout,
                stderr=slave,
                pass_fds=(theirs.fileno(),),
                start_new_session=not headless,
            )
    except OSError as error:
        ours.close()
        if master is not None:
            os.close(master)
        raise _no_interpreter(python, error) from error
    finally:
        theirs.close()
        if slave is not None:
            os.close(slave)
    return Launched(process, session_end(ours), master, device)


def shell_code(returncode: int) -> int:
    """`subprocess` says -N for a process that signal N killed, a shell 128+N."""
    return 128 - returncode if returncode < 0 else returncode


def _environment(inherited: Mapping[str, str], descriptor: int, stack: int, *, terminal: bool) -> dict[str, str]:
    """Python runs a `sitecustomize` from PYTHONPATH before the script: ours puts everything back and lets python go on."""
    path = inherited.get("PYTHONPATH")
    known = f"{descriptor}:{stack}:{int(terminal)}:{int(path is not None)}"
    return {**inherited, "PYTHONPATH": f"{_STARTUP}{os.pathsep}{path}" if path else _STARTUP, VARIABLE: known}


def _open_terminal(rows: int, columns: int) -> tuple[int, int]:
    master, slave = os.openpty()
    _set_size(slave, rows, columns)
    attributes = termios.tcgetattr(slave)
    attributes[0] |= _INPUT_IS_UTF8
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    return master, slave


def _set_size(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def _stack_limit(soft: int, hard: int) -> Iterator[None]:
    """A process gets its stack limit when it is started: raise ours for that moment."""
    wanted = STACK if hard == resource.RLIM_INFINITY else min(STACK, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        yield
        return
    resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


def _in_foreground() -> bool:
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:  # no terminal
        return False


def _no_interpreter(python: str, error: OSError) -> GradscopeError:
    return UsageError(
        f"cannot start {python}",
        os.strerror(error.errno) if error.errno else str(error),
        "--python takes the path of the interpreter that runs your script: --python .venv/bin/python",
    )
