"""Starts a script for the screen: a process on a terminal of its own, and the session that follows it."""

from __future__ import annotations

from contextlib import suppress

from gradscope.protocol.channel import Closed
from gradscope.protocol.messages import Configure, Request
from gradscope.session.formulas import Library
from gradscope.session.launcher import Launched, launch
from gradscope.session.session import Session
from gradscope.settings import STDOUT, Options

WHOLE_TENSORS = (".gscope", ".safetensors")
"""exports that hold the gradients themselves"""
WITH_SAVED = (".gscope", ".json")
"""exports that tell what nodes keep for backward"""


def start(options: Options, size: tuple[int, int], again: Session | None = None) -> tuple[Session, Launched]:
    """Launch the script on a terminal of `size` rows and columns; `again` is the session whose script is run once more.

    Raises:
        UsageError: the interpreter cannot be started.
    """
    session = again.again() if again is not None else Session(options.title, options.arguments, configure(options))
    session.library = Library(options.python)
    launched = launch(command(options), python=options.python, size=size, stdin=options.script_stdin)
    connect(session, launched)
    return session, launched


def connect(session: Session, launched: Launched) -> None:
    """Let a session speak to a process. A process that is gone hears nothing; that it is gone is told by `exited`."""

    def send(request: Request) -> None:
        with suppress(Closed):
            launched.channel.send(request)

    session.send = send
    session.signal_script = launched.interrupt
    session.kill_script = launched.kill


def command(options: Options) -> list[str]:
    """What python gets."""
    return [*(["-m"] if options.module else []), options.script, *options.arguments]


def configure(options: Options) -> Configure:
    """What the debuggee is told. Without a screen nothing stops; recording begins at the call that `--stop-at` names."""
    at_once = options.headless and options.stop_at == "first"
    return Configure(
        stop_at="never" if at_once else options.stop_at,
        breaks=list(options.breaks),
        gradient=options.gradient,
        record=options.calls if options.headless else 0,
        send_tensors=options.headless and any(path.endswith(WHOLE_TENSORS) for path in options.exports),
        once=options.once,
        origins=options.origins,
        budget=options.budget,
        saved=options.headless and any(path.endswith(WITH_SAVED) or path == STDOUT for path in options.exports),
    )
