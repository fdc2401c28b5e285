"""The JSON report: everything recorded, for programs. `report.schema.json` beside this file says what it holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any

from gradscope.export import json_graph, json_pass
from gradscope.export.json_graph import Fields, number, text
from gradscope.export.strict_json import chunks as json_chunks
from gradscope.findings.finding import Finding
from gradscope.model.report import CallInfo, Report, StopReport

FORMAT, VERSION = "gradscope", 1

Exact = bool | str
"""`true`, `false` or `"unchecked"`."""


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the report."""
    text = files("gradscope.export").joinpath("report.schema.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def chunks(report: Report[Finding]) -> Iterator[bytes]:
    """The report as strict JSON, in pieces: one line for each node, edge, step and leaf."""
    return json_chunks(_report(report))


def _report(report: Report[Finding]) -> Fields:
    exact, reason = _exact_of_all(report.stops)
    return {
        "format": FORMAT,
        "version": VERSION,
        "script": report.script,
        "arguments": list(report.arguments),
        "python": report.python,
        "torch": report.torch,
        "exact": exact,
        "exact_reason": reason,
        "findings": [{**_finding(finding), "call": finding.call or None} for finding in report.findings],
        "calls": (_stop(stop) for stop in report.stops),
    }


def _stop(stop: StopReport[Finding]) -> Fields:
    exact, reason = _exact(stop)
    return {
        **_call(stop.call),
        "exact": exact,
        "exact_reason": reason,
        "committed": _committed(stop),
        "findings": [_finding(finding) for finding in stop.findings],
        **json_graph.fields(stop.graph, stop.saved),
        **json_pass.fields(stop.graph, stop.tapes[0] if stop.tapes else None),
        "passes": (json_pass.edited(stop.graph, tape) for tape in stop.tapes[1:] if stop.graph),
    }


def _call(call: CallInfo) -> Fields:
    site = call.site
    return {
        "number": call.number,
        "kind": call.kind,
        "reason": call.reason,
        "detail": call.detail,
        "site": {"file": site.file, "line": site.line, "function": site.function, "code": site.code},
        "retain_graph": call.retain_graph,
        "create_graph": call.create_graph,
        "has_inputs": call.has_inputs,
        "thread": call.thread,
    }


# ---------------------------------------------------------------- is it exact


def _exact(stop: StopReport[Finding]) -> tuple[Exact, str]:
    """Whether the record of the script's own pass is what the engine did: its sums, and `.grad` after the commit."""
    if not stop.tapes:
        why = "" if stop.committed is None else stop.committed.reason
        return "unchecked", why or stop.call.detail or "nothing was recorded"
    tape = stop.tapes[0].columns
    claims = [(tape.exact, tape.exact_reason)]
    if stop.committed is not None:
        claims.append((stop.committed.exact, stop.committed.reason))
    return _worst((_known(exact), reason) for exact, reason in claims)


def _exact_of_all(stops: Iterable[StopReport[Finding]]) -> tuple[Exact, str]:
    claims = [(stop.call.number, *_exact(stop)) for stop in stops]
    if not claims:
        return "unchecked", "no backward call was recorded"
    return _worst((exact, f"call {number}: {reason}" if reason else "") for number, exact, reason in claims)


def _known(exact: str) -> Exact:
    return {"true": True, "false": False}.get(exact, "unchecked")


def _worst(claims: Iterable[tuple[Exact, str]]) -> tuple[Exact, str]:
    """False before unchecked before true; the first of the worst."""
    rank = {False: 0, "unchecked": 1, True: 2}
    return min(claims, key=lambda claim: rank[claim[0]])


def _committed(stop: StopReport[Finding]) -> Fields | None:
    commit = stop.committed
    if commit is None:
        return None
    return {
        "exact": _known(commit.exact),
        "reason": commit.reason,
        "differing": list(commit.differing),
        "error": commit.error,
        "edited": commit.edited,
    }


def _finding(finding: Finding) -> Fields:
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "message": finding.message,
        "hint": finding.hint,
        "node": number(finding.node),
        "op": text(finding.op),
        "file": text(finding.file),
        "line": finding.line or None,
        "related": [{"file": place.file, "line": place.line, "what": place.what} for place in finding.related],
        "leaf": text(finding.leaf),
        "index": finding.index,
        "value": finding.value,
    }
