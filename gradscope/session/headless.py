"""Runs a script without a screen: its backward calls are recorded as they happen, then a summary and the exports are written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TextIO

from gradscope.errors import FOUND, USAGE, FileError
from gradscope.findings.finding import Finding, Related
from gradscope.findings.wanting import reaches_unseen
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Failure
from gradscope.model.places import UNKNOWN
from gradscope.model.report import Report, StopReport
from gradscope.protocol.channel import Closed
from gradscope.protocol.messages import Resume
from gradscope.session.formulas import Library
from gradscope.session.launcher import Launched, launch
from gradscope.session.seeding import spoken
from gradscope.session.session import Session
from gradscope.session.starting import command, configure, connect
from gradscope.session.view import Exit, State
from gradscope.settings import Options

Export = Callable[[Report[Finding], str], None]
"""writes a report to a path (`-` for stdout), or raises FileError"""

SHOWN = 5
"""of alike findings"""

FORMULAS_WAIT = 20.0
"""seconds that a snapshot's formulas may take beyond the run, the first time that a torch is met"""

_GLANCE = 0.2
"""seconds between looks at whether the process still lives: a grandchild may hold its sockets open"""


def run(options: Options, export: Export) -> int:
    """Run the script to its end and say on stderr what was recorded.

    Returns:
        FOUND when `--fail-on` met a finding, also when the script failed; else the code of an export that could not be written,
        or of a `--gradient` that does not fit; else the script's own code.

    Raises:
        UsageError: the interpreter cannot be started.
    """
    session = Session(options.title, options.arguments, configure(options))
    session.browsed, session.stops_kept = False, sys.maxsize
    session.library = Library(options.python) if any(path.endswith(".gscope") for path in options.exports) else None
    launched = launch(
        command(options),
        python=options.python,
        headless=True,
        stdin=options.script_stdin,
        stdout=sys.stderr.fileno() if "-" in options.exports else None,
    )
    connect(session, launched)
    with launched.signals_shared():
        _follow(session, launched)
        launched.wait()
    launched.close()
    session.exited(launched.process.returncode)
    if session.library is not None:
        session.library.wait(FORMULAS_WAIT)
    report, end = session.report(), session.view().exit or Exit(0)
    _say(summary(report, end, session.view().calls), sys.stderr)
    failed = _write(report, options.exports, export, sys.stderr)
    if session.refused_seed is not None:
        _say(iter([f"gradscope: --gradient {session.refused_seed.text}: {session.refused_seed.error}"]), sys.stderr)
        failed = failed or USAGE
    return FOUND if meets(report, options.fail_on) else failed or end.code


def meets(report: Report[Finding], kinds: tuple[str, ...]) -> bool:
    """Whether a finding is what `--fail-on` names: a kind, `error` for any of that severity, `any` for any at all."""
    return any("any" in kinds or finding.kind in kinds or finding.severity in kinds for finding in all_findings(report))


def all_findings(report: Report[Finding]) -> Iterator[Finding]:
    for stop in report.stops:
        yield from stop.findings
    yield from report.findings


# ---------------------------------------------------------------- the run


def _follow(session: Session, launched: Launched) -> None:
    """Take reports until the process or its socket is gone."""
    try:
        while True:
            over = launched.poll() is not None  # asked first: what it sent before it ended is still to be read
            report = launched.channel.poll(0.0 if over else _GLANCE)
            if report is not None:
                session.handle(report)
            elif over:
                return
            if session.state is State.STOPPED:
                session.send(Resume(stop_at="never"))
                session.state = State.RUNNING
    except Closed:
        return


def _write(report: Report[Finding], paths: tuple[str, ...], export: Export, out: TextIO) -> int:
    """Write every export; the exit code of the last that failed, else 0."""
    code = 0
    for path in paths:
        try:
            export(report, path)
        except FileError as error:
            code = error.exit_code
            _say(iter([f"gradscope: {error}"]), out)
        else:
            if path != "-":
                _say(iter([f"gradscope: wrote {path}"]), out)
    return code


# ---------------------------------------------------------------- the summary


def summary(report: Report[Finding], end: Exit, calls: int = 0) -> Iterator[str]:
    """The lines that a person reads; `calls` is how many backward calls the script made, recorded or not."""
    torch = f" · torch {report.torch}" if report.torch else ""
    recorded = sum(bool(stop.tapes) for stop in report.stops)
    yield f"gradscope: {report.script} · {many(recorded, 'backward call')} recorded{torch}"
    for stop in report.stops:
        yield from _call(stop)
    if not report.stops and calls:
        yield f"  of {many(calls, 'backward call')} none was one that --stop-at or --break asks for"
    elif not report.stops:
        yield "  the script made no backward call that could be recorded"
        if not end.message:
            yield f"  gradscope {report.script} without --headless lists the tensors that could be differentiated"
    yield from _findings(report.findings)
    if end.message:
        yield f"  the script ended: {end.message}"
    elif end.code:
        yield f"  the script exited with code {end.code}"


def _raised_at(failure: Failure) -> str:
    """` (model.py:18)`; empty where no line of the script's own raised it."""
    return f" ({place(failure.file, failure.line)})" if failure.file else ""


def _at(graph: BackwardGraph, node: int) -> str:
    """`at ExpBackward0 (freed.py:3) `; empty where the engine does not tell."""
    if node == UNKNOWN:
        return ""
    origin = graph.origin(node)
    return f"at {graph.op(node)} {f'({place(origin.file, origin.line)}) ' if origin else ''}"


def _call(stop: StopReport[Finding]) -> Iterator[str]:
    site = stop.call.site
    yield f"  backward {stop.call.number} · {site.code or stop.call.kind} · {place(site.file, site.line)}"
    if stop.graph is None or not stop.tapes:
        why = stop.call.detail or ("" if stop.committed is None else stop.committed.reason.removeprefix("not recorded: "))
        yield f"    not recorded{': ' + why if why else ''}"
    else:
        graph, tape = stop.graph, stop.tapes[0]
        unseen = "not reached" if not reaches_unseen(graph) else "not in this graph, where a checkpoint may reach them"
        missed = f", {len(graph.unreached)} {unseen}" if graph.unreached else ""
        reason = f" ({tape.columns.exact_reason})" if tape.columns.exact_reason else ""
        counts = f"{many(len(graph), 'node')} · {many(tape.ran, 'step')} · {many(len(graph.reached), 'leaf', 'leaves')}{missed}"
        yield f"    {counts} · exact: {tape.exact}{reason}"
        if tape.failure is not None:
            said = f"{tape.failure.type}: {tape.failure.message}{_raised_at(tape.failure)}"
            yield f"    ended {_at(graph, tape.failure.node)}by {said}"
        for other in stop.tapes[1:]:
            yield f"    pass {other.number} · seed {spoken(other)}"
    yield from _findings(stop.findings)


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Alike ones together: a network without gradient has as many as it has parameters."""
    alike: dict[tuple[str, str, str, int, str, tuple[Related, ...]], list[str]] = {}
    for one in findings:
        key = (one.severity, one.kind, one.file, one.line, one.hint, one.related)
        alike.setdefault(key, []).append(one.message)
    for (severity, kind, file, line, hint, related), messages in alike.items():
        yield f"    {severity} {kind}{' · at ' + place(file, line) if file else ''}"
        yield from (f"      {message}" for message in messages[:SHOWN])
        if len(messages) > SHOWN:
            yield f"      … and {len(messages) - SHOWN} more like these; --export has them all"
        yield from (f"      {place(other.file, other.line)}: {other.what}" for other in related if other.file)
        if hint:
            yield f"      → {hint}"


def place(file: str, line: int) -> str:
    """FILE:LINE, relative where that is shorter."""
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return f"{min(relative, file, key=len)}:{line}"


def many(count: int, one: str, more: str = "") -> str:
    """`1 step`, `2 steps`."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def _say(lines: Iterator[str], out: TextIO) -> None:
    with suppress(OSError):  # that nobody reads it is no reason to end otherwise than the script
        for line in lines:
            print(line, file=out)
        out.flush()
