"""The first thing of gradscope that runs in the script's process: takes up the socket, waits for `Configure`, sets the traps."""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from typing import NamedTuple, NoReturn

VARIABLE = "GRADSCOPE_DEBUGGEE"


class Settings(NamedTuple):
    """What the launcher says in `VARIABLE`."""

    descriptor: int
    """of our end of the socket"""
    stack: int
    """the soft stack limit that the script would have without us"""
    terminal: bool
    """stderr is a terminal of the script's own"""


def begin() -> None:
    """Make everything ready and return, so that python goes on to the script."""
    settings = _settings()
    try:
        _begin(settings)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except ImportError as error:
        _give_up(settings, error)
    except Exception:
        traceback.print_exc()
        os._exit(70)


def _settings() -> Settings:
    """Read what the launcher says, and make the environment what the person's shell had."""
    descriptor, stack, terminal, had_path = os.environ.pop(VARIABLE).split(":")
    rest = os.environ["PYTHONPATH"].partition(os.pathsep)[2]
    if had_path == "1":
        os.environ["PYTHONPATH"] = rest
    else:
        del os.environ["PYTHONPATH"]
    return Settings(int(descriptor), int(stack), terminal == "1")


def _begin(settings: Settings) -> None:
    os.set_inheritable(settings.descriptor, False)
    if settings.terminal:
        _take_terminal()
    connection = socket.socket(fileno=settings.descriptor)

    # Imported here, not above: where msgspec is missing it must be said in a way that a person understands.
    # Everything of ours is imported now, before the script's folder is searched for modules.
    from gradscope.debuggee import debugging

    debugging.start(connection, settings.stack)


def _take_terminal() -> None:
    """Make stderr's terminal ours, so that Ctrl-C typed into it arrives. A session's first terminal is its controlling one."""
    os.close(os.open(os.ttyname(sys.__stderr__.fileno() if sys.__stderr__ else 2), os.O_RDWR))


def _give_up(settings: Settings, error: ImportError) -> NoReturn:
    what = f"gradscope cannot run inside {sys.executable}"
    hint = f"install what it needs there: {sys.executable} -m pip install {error.name or 'msgspec'}"
    sys.stderr.write(f"{what}\n  {error}\n  {hint}\n")
    sys.stderr.flush()
    # There may be no msgspec to write it with: ["Died", type, message, traceback] by hand.
    fields = (b"Died", b"ImportError", f"{what}: {error}".encode(), b"")
    message = bytes([0x90 + len(fields)]) + b"".join(b"\xdb" + len(field).to_bytes(4, "big") + field for field in fields)
    os.write(settings.descriptor, len(message).to_bytes(4, "big") + message)
    os._exit(70)
