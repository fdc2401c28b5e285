"""The command `gradscope`: does what the command line asks for, and says in words what goes wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
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
    try:
        code = _do(parse(sys.argv[1:] if words is None else words))
        if sys.stdout is not None:
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
    if unused := _unused_headless(options):
        _say(f"nothing stops headless: {' and '.join(unused)} left aside")
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
    if sys.stdin is not None and sys.stdin.isatty():
        return True
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


def _redirected_stdin() -> int | None:
    """The stdin that belongs to the script; None where it is the terminal, which the screen reads."""
    return 0 if sys.stdin is not None and not sys.stdin.isatty() else None


def _unused_headless(options: Options) -> list[str]:
    """What was asked for and only the screen can do."""
    asked = {"--stop-at": options.stop_at != "first", "--break": options.breaks, "--gradient": options.gradient}
    return [name for name, given in asked.items() if given]


# ---------------------------------------------------------------- words on stderr


def _say(text: str) -> None:
    if sys.stderr is not None:
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
