"""The `.txt` export: the tape as on screen, after its last step and with nothing folded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Failure
from gradscope.model.report import Report, StopReport
from gradscope.model.rows import Folds, Rows
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

_HEAD = ("step", "graph", "node", "makes", "line", "shape", "‖grad‖", "")
_WIDEST = 40
"""A longer cell is cut, and `…` says so."""
_TO_THE_RIGHT = {"step", "line", "‖grad‖"}
_SAMPLE = 2000
"""Column widths come from so many rows: measuring a million would need them all in memory."""


def chunks(report: Report[Finding]) -> Iterator[bytes]:
    """The file in pieces: one a line."""
    for line in _report(report):
        yield (line.rstrip() + "\n").encode("utf-8", "replace")


def _report(report: Report[Finding]) -> Iterator[str]:
    yield " ".join(("gradscope", report.script, *report.arguments))
    for finding in report.findings:
        yield from finding_lines(finding)
    for stop in report.stops:
        yield ""
        yield from _stop(stop)


def _stop(stop: StopReport[Finding]) -> Iterator[str]:
    call = stop.call
    yield f"{call.kind} {call.number}  {call.site.code}  {os.path.basename(call.site.file)}:{call.site.line}"
    if stop.committed is not None and stop.committed.error:
        yield f"  the call raised {stop.committed.error}"
    for tape in stop.tapes:
        yield from _pass(tape, len(stop.tapes) > 1)
    for finding in stop.findings:
        yield from finding_lines(finding)


def _pass(tape: Tape, several: bool) -> Iterator[str]:
    edited = " (seed edited)" if tape.edited else ""
    edited += "".join(f" (what-if at {tape.graph.short(change.node)}: {change.text})" for change in tape.columns.changes)
    exact = {"true": "sums ✓", "false": "sums do NOT match"}.get(tape.exact, f"sums unchecked: {tape.columns.exact_reason}")
    yield f"  {f'pass {tape.number}{edited} · ' if several else ''}{tape.ran} steps · {exact}"
    rows = Rows.build(tape.graph, tape, Folds())
    sample = [_cells(rows, tape, row) for row in range(min(len(rows), _SAMPLE))]
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(_HEAD, *sample, strict=True)]
    yield _line(_HEAD, widths)
    for row in range(len(rows)):
        yield _line(sample[row] if row < len(sample) else _cells(rows, tape, row), widths)
    if tape.failure is not None:
        yield f"  ended by {tape.failure.type}: {tape.failure.message}{_raised_at(tape.failure)}"


def _raised_at(failure: Failure) -> str:
    return f" ({os.path.basename(failure.file)}:{failure.line})" if failure.file else ""


def _cells(rows: Rows, tape: Tape, row: int) -> tuple[str, ...]:
    step, graph = rows.last(row), tape.graph
    rail = rows.rail(row).draw(rows.glyph(row, tape.steps))
    if not row:
        seeds = [seed.tensor for seed in tape.seeds]
        return ("", rail, rows.label(row), "", "", _shape(tape, seeds[0]) if seeds else "", " ".join(_norm(tape, seeds)), "")
    node, arrived = tape.node_at(step), tape.arrived_at(step)
    origin = graph.origin(node)
    line = f":{origin.line}" if origin else ""
    norm = _norm(tape, [arrived])[0] if tape.arrivals(node) else ""
    return (str(step), rail, rows.label(row), _makes(graph, tape, node), line, _shape(tape, arrived), norm, tape.flags(step))


def _makes(graph: BackwardGraph, tape: Tape, node: int) -> str:
    """The statement that made the node; for a leaf how many contributions it got."""
    leaf = graph.leaf_at(node)
    if leaf is None:
        return graph.makes(node)
    count = len(tape.indices_to(node, graph.leaves[leaf].input_nr))
    return f"sum of {count}" if count > 1 else ""


def _shape(tape: Tape, tensor: int) -> str:
    return "" if tensor == NO_TENSOR else f"[{','.join(map(str, tape.summary(tensor).shape))}]"


def _norm(tape: Tape, tensors: Sequence[int]) -> list[str]:
    norms = (None if tensor == NO_TENSOR else tape.summary(tensor).norm for tensor in tensors)
    return ["⟂" if norm is None else f"{norm:.4g}" for norm in norms]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for name, cell, width in zip(_HEAD, cells, widths, strict=True):
        cut = cell if len(cell) <= width else cell[: width - 1] + "…"
        parts.append(cut.rjust(width) if name in _TO_THE_RIGHT else cut.ljust(width))
    return "  " + "  ".join(parts)


def finding_lines(finding: Finding) -> Iterator[str]:
    """A finding in words: what, where, what to try."""
    place = f" ({os.path.basename(finding.file)}:{finding.line})" if finding.file and finding.line else ""
    yield f"  {finding.severity}: {finding.kind}{place}: {finding.message}"
    for related in finding.related:
        yield f"    {os.path.basename(related.file)}:{related.line} {related.what}"
    if finding.hint:
        yield f"    {finding.hint}"
