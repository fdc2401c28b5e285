"""What happens around the screen: which terminal it uses, and what is written to it once it has closed."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradscope.tui.bridge import Bridge
    from gradscope.tui.hosting import Hosting

TERMINAL = "/dev/tty"

LOOK = 0.02
"""seconds between two looks at a script that runs on without the screen"""


@contextmanager
def terminal_of_our_own() -> Iterator[None]:
    """Read keys from the terminal where stdin is redirected, and draw on it where stderr is: Textual uses these two."""
    stdin, stderr = sys.__stdin__, sys.__stderr__
    opened = []
    if not _is_terminal(stdin):
        sys.__stdin__ = open(TERMINAL)  # type: ignore[misc]  # noqa: SIM115
        opened.append(sys.__stdin__)
    if not _is_terminal(stderr):
        sys.__stderr__ = open(TERMINAL, "w")  # type: ignore[misc]  # noqa: SIM115
        opened.append(sys.__stderr__)
    try:
        yield
    finally:
        sys.__stdin__, sys.__stderr__ = stdin, stderr  # type: ignore[misc]
        for stream in opened:
            stream.close()


def finish(app: Hosting, code: int) -> int:
    """Leave the script's output in the person's scrollback; follow the script to its end if that was asked."""
    if app.terminal is not None:
        sys.stdout.flush()
        app.terminal.log.write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
    bridge = app.bridge
    if bridge is None:
        return code
    bridge.mute()
    if app.follow_script:
        return _follow(bridge)
    bridge.stop()
    return code


def _follow(bridge: Bridge) -> int:
    """Be the script's terminal until it ends."""
    keys = sys.stdin.fileno()
    with _raw(keys) as typing:
        while not (gone := bridge.gone.wait(0.0 if typing else LOOK)):
            if typing and select.select([keys], [], [], LOOK)[0]:
                bridge.write(os.read(keys, 4096))
            _write(bridge.output.take())
        assert gone
    _write(bridge.output.take())
    return bridge.launched.wait()


def _write(pieces: list[bytes]) -> None:
    sys.stdout.buffer.write(b"".join(pieces))
    sys.stdout.buffer.flush()


@contextmanager
def _raw(keys: int) -> Iterator[bool]:
    """Pass every key on as it is: the script's own terminal echoes it and makes signals of it."""
    if not os.isatty(keys):
        yield False
        return
    before = termios.tcgetattr(keys)
    tty.setraw(keys, termios.TCSADRAIN)
    try:
        yield True
    finally:
        with suppress(termios.error):
            termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _is_terminal(stream: object) -> bool:
    try:
        return os.isatty(stream.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
