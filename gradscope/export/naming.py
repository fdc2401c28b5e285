"""Names for things that an export writes down and a report only numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gradscope.findings.finding import Finding
from gradscope.model.report import Report


def unique(names: Iterable[str]) -> list[str]:
    """The names, with `#2`, `#3` … behind those that came before."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result


def call_names(report: Report[Finding]) -> list[str]:
    """`call1` for each stop. Two stops that belong to no call are `call0` and `call0#2`."""
    return unique(f"call{stop.call.number}" for stop in report.stops)
