"""What differs between two reports, in words: for each call its graph, the first step that differs, its leaves, its findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest

from gradscope.export.text import finding_lines
from gradscope.findings.finding import Finding
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.report import Report, StopReport
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR, Summary


def lines(before: Report[Finding], after: Report[Finding]) -> Iterator[str]:
    """The text, line by line. The passes compared are those of the script's own calls."""
    found = False
    for old, new in zip_longest(before.stops, after.stops):
        differing = list(_stop(old, new))
        if differing:
            found = True
            yield _title(old or new)
            yield from (f"  {line}" for line in differing)
    outside = list(_findings(before.findings, after.findings))
    yield from outside
    if not found and not outside:
        yield "no difference"


def _title(stop: StopReport[Finding]) -> str:
    site = stop.call.site
    return f"{stop.call.kind} {stop.call.number}  {site.code}  {site.file}:{site.line}"


def _stop(old: StopReport[Finding] | None, new: StopReport[Finding] | None) -> Iterator[str]:
    if old is None or new is None:
        yield "only in the second" if old is None else "only in the first"
        return
    if old.graph and new.graph:
        yield from _graph(old.graph, new.graph)
    if old.tapes and new.tapes:
        yield from _first_step(old.tapes[0], new.tapes[0])
        yield from _leaves(old.tapes[0], new.tapes[0])
    yield from _findings(old.findings, new.findings)


def _graph(old: BackwardGraph, new: BackwardGraph) -> Iterator[str]:
    was, now = (Counter(map(graph.op, range(len(graph)))) for graph in (old, new))
    for sign, some, other in (("-", was, now), ("+", now, was)):
        for op, count in sorted((some - other).items()):
            yield f"graph: {sign} {count} {op}"


def _first_step(old: Tape, new: Tape) -> Iterator[str]:
    for step in range(1, min(old.steps, new.steps) + 1):
        first, second = old.node_at(step), new.node_at(step)
        if old.graph.op(first) != new.graph.op(second):
            yield f"step {step}: {old.graph.label(first)} → {new.graph.label(second)}"
            return
        was, now = _summary(old, old.arrived_at(step)), _summary(new, new.arrived_at(step))
        if not _same(was, now):
            origin = new.graph.origin(second)
            where = f" ({origin.file}:{origin.line})" if origin else ""
            yield f"first step that differs: {step} {new.graph.label(second)}{where}  ‖grad‖ {_change(was, now)}"
            return


def _leaves(old: Tape, new: Tape) -> Iterator[str]:
    totals = [{leaf.name: _summary(tape, tape.leaf_total(i)) for i, leaf in enumerate(tape.graph.leaves)} for tape in (old, new)]
    width = max((len(name) for names in totals for name in names), default=0)
    for name in dict.fromkeys((*totals[0], *totals[1])):
        if name not in totals[0] or name not in totals[1]:
            yield f"leaf {name.ljust(width)}  only in the {'first' if name in totals[0] else 'second'}"
        elif not _same(was := totals[0][name], now := totals[1][name]):
            yield f"leaf {name.ljust(width)}  ‖contribution‖ {_change(was, now)}"


def _findings(old: tuple[Finding, ...], new: tuple[Finding, ...]) -> Iterator[str]:
    for sign, some, other in (("-", old, new), ("+", new, old)):
        known = {(finding.kind, finding.line, finding.leaf) for finding in other}
        for finding in some:
            if (finding.kind, finding.line, finding.leaf) not in known:
                first, *rest = finding_lines(finding)
                yield f"{sign} {first.strip()}"
                yield from rest


def _summary(tape: Tape, tensor: int) -> Summary | None:
    return None if tensor == NO_TENSOR else tape.summary(tensor)


def _same(old: Summary | None, new: Summary | None) -> bool:
    """NaN is the same as NaN: `repr` says all digits."""
    return repr(old) == repr(new)


def _change(old: Summary | None, new: Summary | None) -> str:
    was, now = _text(old), _text(new)
    if was != now or old is None or new is None:
        return f"{was} → {now}"
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"{was}, {old.dtype}{list(old.shape)} → {new.dtype}{list(new.shape)}"
    return f"{was}, other elements"


def _text(summary: Summary | None) -> str:
    if summary is None:
        return "none"
    return "?" if summary.norm is None else f"{summary.norm:.6g}"
