"""pdb in the backward of a custom Function, in the script's terminal: nobody can set breakpoints there while the engine runs.

The backward runs once more, on copies of the gradients that arrived at its node in a pass, inside a sandbox: what it writes is
put back as after an exploring pass.
"""

from __future__ import annotations

import bdb
import os
import signal
import sys
import termios
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TextIO

import torch

from gradscope.debuggee import node_calls
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.modes import modes_on
from gradscope.debuggee.node_calls import Gradients
from gradscope.debuggee.sandbox import Sandbox
from gradscope.errors import UsageError

if TYPE_CHECKING:
    from pdb import Pdb

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def debug(captured: Captured, number: int, gradients: Gradients, where: str, over: Callable[[], bool]) -> str:
    """Let the person walk through the backward of a node.

    Args:
        captured: the graph.
        number: the node.
        gradients: what arrived at it, one for each slot; copied, so that the backward cannot spoil the record.
        where: what arrived when, for the line that greets: `pass 2`.
        over: asked at a Ctrl-C whether the script is to go on anyway.

    Returns:
        `ValueError: …` where the backward raised, empty where it ran to its end or the person left.

    Raises:
        UsageError: it is no custom Function, or the script has no terminal.
    """
    code = debuggable(captured, number)
    node = captured.nodes[number]
    copies = [None if gradient is None else gradient.detach().clone() for gradient in gradients]
    with _terminal() as (keys, screen), Sandbox(captured) as sandbox:
        handed = node_calls.materialized(captured, number, copies)
        sys.stdout = sys.stderr = screen  # the sandbox puts back the script's own
        place = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        screen.write(f"\npdb in the backward of {node.name()} ({place}), with what arrived in {where}\nc goes on, q leaves\n")
        error = _walk(node, handed, code, keys, screen, over)
        with suppress(OSError):  # the terminal is gone
            screen.write("the backward is over; what it wrote is put back\n")
            screen.flush()
    if sandbox.printed:
        _say(sandbox.printed)
    return error


def debuggable(captured: Captured, number: int) -> CodeType:
    """The code to stop in.

    Raises:
        UsageError: there is none that a person wrote.
    """
    if not 0 <= number < len(captured):
        raise UsageError("there is no such node", f"the graph has {len(captured)}")
    function = node_calls.custom_function(captured.nodes[number])
    if function is None or node_calls.is_torchs(function):
        raise UsageError(
            f"{captured.ops[number]} has no Python of yours to step through",
            "it is torch's own; pdb runs in the backward of an autograd.Function",
            "the Formula tab says what it computes",
        )
    if captured.refusal:
        raise UsageError("this backward cannot be run by itself", captured.refusal)
    code = node_calls.backward_code(function)
    if code is None:
        raise UsageError(f"the backward of {function.__name__} is not written in Python", "there are no lines to stop at")
    return code


def _walk(node: Any, gradients: Gradients, code: CodeType, keys: TextIO, screen: TextIO, over: Callable[[], bool]) -> str:
    """Run the backward under pdb; the error it raised, as text."""

    def interrupted(signal_number: int, frame: FrameType | None) -> None:
        if over():
            raise bdb.BdbQuit
        signal.default_int_handler(signal_number, frame)

    debugger = _debugger(code, keys, screen)
    tracing, handler = sys.gettrace(), signal.getsignal(signal.SIGINT)
    stdin, sys.stdin = sys.stdin, keys
    main = threading.current_thread() is threading.main_thread()
    try:
        if main:
            signal.signal(signal.SIGINT, interrupted)
        with torch.no_grad(), modes_on():
            debugger.runcall(node.apply, *gradients)
        return ""
    except bdb.BdbQuit:
        return ""
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: they must not end the script
        with suppress(OSError):  # the terminal is gone
            screen.write(_text(error))
        return "".join(traceback.format_exception_only(type(error), error)).strip()
    finally:
        if main and handler is not None:
            signal.signal(signal.SIGINT, handler)
        sys.settrace(tracing)
        sys.stdin = stdin


def _debugger(code: CodeType, keys: TextIO, screen: TextIO) -> Pdb:
    """pdb that first stops in this code. It is kept from loading readline, which would change the script's own `input()`."""
    missing = object()
    loaded = sys.modules.get("readline", missing)
    if loaded is missing:
        sys.modules["readline"] = None  # type: ignore[assignment]
    try:
        from pdb import Pdb

        class Debugger(Pdb):
            """Goes by what decorators run before the person's own lines."""

            _arrived = False

            def user_call(self, frame: FrameType, argument_list: Any) -> None:
                if self._arrived:
                    super().user_call(frame, argument_list)

            def user_line(self, frame: FrameType) -> None:
                self._arrived = self._arrived or frame.f_code is code
                if self._arrived:
                    super().user_line(frame)

            def user_return(self, frame: FrameType, return_value: Any) -> None:
                if self._arrived:
                    super().user_return(frame, return_value)

            def user_exception(self, frame: FrameType, exc_info: Any) -> None:
                if self._arrived:
                    super().user_exception(frame, exc_info)

        return Debugger(stdin=keys, stdout=screen)
    finally:
        if loaded is missing:
            del sys.modules["readline"]


def _text(error: BaseException) -> str:
    """As Python prints it, without gradscope's frames and those of pdb."""
    summary = traceback.TracebackException.from_exception(error)
    hidden = (_HERE, os.path.dirname(bdb.__file__) + os.sep + "bdb.py", os.path.dirname(bdb.__file__) + os.sep + "pdb.py")
    summary.stack = traceback.StackSummary.from_list([frame for frame in summary.stack if not frame.filename.startswith(hidden)])
    return "".join(summary.format())


# ---------------------------------------------------------------- the terminal


@contextmanager
def _terminal() -> Iterator[tuple[TextIO, TextIO]]:
    """The script's terminal, for reading and for writing, in the mode in which lines are edited.

    It is opened anew: the script may have redirected its stdin, and may have put something else in place of `sys.stdout`.

    Raises:
        UsageError: there is none.
    """
    name = _terminal_name()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    with open(name, encoding="utf-8", errors="replace") as keys, open(name, "w", encoding="utf-8", errors="replace") as screen:
        mode = termios.tcgetattr(keys.fileno())
        lines = list(mode)
        lines[0] |= termios.ICRNL
        lines[1] |= termios.OPOST | termios.ONLCR
        lines[3] |= termios.ICANON | termios.ECHO | termios.ISIG
        termios.tcsetattr(keys.fileno(), termios.TCSADRAIN, lines)
        try:
            yield keys, screen
        finally:
            with suppress(OSError, termios.error, ValueError):
                screen.flush()
                termios.tcsetattr(keys.fileno(), termios.TCSADRAIN, mode)


def _terminal_name() -> str:
    for descriptor in (2, 1, 0):
        with suppress(OSError):
            return os.ttyname(descriptor)
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError as error:
        raise UsageError("pdb needs a terminal", "the script's input and output are redirected") from error
    return "/dev/tty"


def _say(text: str) -> None:
    """Warnings that the sandbox kept."""
    with suppress(OSError), open(_terminal_name(), "w", encoding="utf-8", errors="replace") as screen:
        screen.write(text)
