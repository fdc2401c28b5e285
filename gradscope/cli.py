"""The command `gradscope`: does what the command line asks for, and says in words what goes wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from gradscope.command_line import Command, Diff, Open, Run, Say, parse
from gradscope.errors import INTERNAL, GradscopeError, UsageError
from gradscope.settings import STDOUT, Options

if TYPE_CHECKING:
    from gradscope.findings.finding import Finding
    from gradscope.model.report import Report

INTERRUPTED = 130
UNREAD = 141
"""What a shell reports of a program that wrote into a pipe which nobody reads any more."""


def main(words: Sequence[str] | None = None) -> int:
    """Run gradscope with the words of the command line; the result is the exit code."""
    _fill_closed_streams()
    try:
        code = _do(parse(sys.argv[1:] if words is None else words))
        sys.stdout.flush()
        return code
    except GradscopeError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        from gradscope.export.writing import mute_stdout

        mute_stdout()
        return UNREAD
    except Exception as error:
        _say(_fault(error))
        return INTERNAL


def _fill_closed_streams() -> None:
    """Put the null device where a standard stream is closed: the next file or socket that is opened would take its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _do(command: Command) -> int:
    match command:
        case Say():
            sys.stdout.write(command.text)
            return 0
        case Run():
            return _run(command.options)
        case Open():
            return _open(command)
        case Diff():
            return _diff(command)


def _run(options: Options) -> int:
    why = "" if options.headless else _why_headless(options)
    if not options.headless and not why:
        from gradscope.tui.app import run as run_screen

        return run_screen(replace(options, script_stdin=_redirected_stdin()))
    if why:
        _say(f"{why}: headless")
    from gradscope.export.formats import export
    from gradscope.session.headless import run as run_headless

    return run_headless(replace(options, headless=True), export=export)


def _open(command: Open) -> int:
    report = _read(command.file)
    if command.exports:
        from gradscope.export.formats import export

        for path in command.exports:
            export(report, path)
        return 0
    if not sys.stdout.isatty():
        raise UsageError("stdout is no terminal", hint=f"write another form: gradscope open {command.file} --export FILE")
    from gradscope.tui.app import open_snapshot

    return open_snapshot(report, ascii=command.ascii)


def _diff(command: Diff) -> int:
    from gradscope.export.differences import lines

    for line in lines(_read(command.before), _read(command.after)):
        sys.stdout.write(line + "\n")
    return 0


def _read(path: str) -> Report[Finding]:
    from gradscope.export.snapshot import read

    return read(path)


# ---------------------------------------------------------------- the terminal


def _why_headless(options: Options) -> str:
    """Why there can be no screen; empty when there can."""
    if STDOUT in options.exports:
        return "--export - writes to stdout"
    if not sys.stdout.isatty():
        return "stdout is no terminal"
    return "" if _terminal_at_hand() else "there is no terminal to read keys from"


def _terminal_at_hand() -> bool:
    if sys.stdin.isatty():
        return True
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


def _redirected_stdin() -> int | None:
    """The stdin that belongs to the script; None where it is the terminal, which the screen reads."""
    return None if sys.stdin.isatty() else 0


# ---------------------------------------------------------------- words on stderr


def _say(text: str) -> None:
    with suppress(OSError):  # nobody may be there to read, and that is no reason to end otherwise
        sys.stderr.write(f"gradscope: {text}\n")


def _fault(error: Exception) -> str:
    """Keep the traceback of a fault of ours in a file, and say where."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="gradscope-", suffix=".log", delete=False, encoding="utf-8") as log:
        log.write(f"gradscope, Python {sys.version}, arguments {sys.argv[1:]}\n\n")
        traceback.print_exception(error, file=log)
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    return f"a fault of its own: {what} (please report it with {log.name})"
