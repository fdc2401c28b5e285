"""The `.csv` export: one row for each leaf of each pass."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from gradscope.findings.finding import Finding
from gradscope.model.columns import Leaf
from gradscope.model.report import Report, StopReport
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR, Summary

HEADER = (
    *("call", "pass", "leaf", "kind", "owner", "shape", "dtype"),
    *("reached", "before_norm", "norm", "min", "max", "mean", "nan", "inf", "zero", "after_norm", "values"),
)
"""`norm` … `zero` and `values` are of the pass's contribution to the leaf."""


def chunks(report: Report[Finding]) -> Iterator[bytes]:
    """The file in pieces, one a row."""
    yield _line(HEADER)
    for stop in report.stops:
        for tape in stop.tapes:
            for row in _rows(stop, tape):
                yield _line(row)


def _rows(stop: StopReport[Finding], tape: Tape) -> Iterator[tuple[object, ...]]:
    for i, leaf in enumerate(tape.graph.leaves):
        before, total, after = (
            None if tensor == NO_TENSOR else tape.summary(tensor)
            for tensor in (tape.leaf_before(i), tape.leaf_total(i), tape.leaf_after(i))
        )
        yield (
            *(stop.call.number, tape.number, *_who(leaf), str(leaf.node >= 0).lower(), _norm(before)),
            *_numbers(total),
            _norm(after),
            " ".join(map(str, total.values)) if total and total.values is not None else "",
        )


def _who(leaf: Leaf) -> tuple[object, ...]:
    return leaf.name, leaf.kind, leaf.owner, "x".join(map(str, leaf.shape)), leaf.dtype


def _numbers(summary: Summary | None) -> tuple[object, ...]:
    if summary is None:
        return (None,) * 7
    return summary.norm, summary.min, summary.max, summary.mean, summary.nan, summary.inf, summary.zero


def _norm(summary: Summary | None) -> float | None:
    return summary.norm if summary else None


def _line(row: tuple[object, ...]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(row)
    return buffer.getvalue().encode("utf-8", "replace")
