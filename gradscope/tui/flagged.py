"""Where findings are: which rows, lines and leaves bear their letter. Infos bear none: they would hide what matters."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar

from gradscope.findings.finding import SEVERITIES, Finding
from gradscope.model.tape import Tape

LETTERS = {"error": "E", "warning": "W"}
"""by severity, as in the tab of findings"""


def places(finding: Finding) -> list[tuple[str, int]]:
    """File and line of a finding, and of the other party's."""
    return [(finding.file, finding.line), *((other.file, other.line) for other in finding.related)]


class Flagged:
    """The places of one tuple of findings in one pass."""

    _last: ClassVar[Flagged | None] = None

    def __init__(self, findings: tuple[Finding, ...], tape: Tape | None) -> None:
        self._findings, self._tape = findings, tape
        shown = [finding for finding in findings if finding.severity in LETTERS]
        steps: dict[int, str] = {}
        self._lines: dict[tuple[str, int], str] = {}
        self._leaves: dict[str, str] = {}
        for finding in sorted(shown, key=lambda one: SEVERITIES.index(one.severity)):
            letter = LETTERS[finding.severity]
            for leaf in finding.leaves:
                self._leaves.setdefault(leaf, letter)
            for place in places(finding):
                self._lines.setdefault(place, letter)
            if tape is not None and 0 <= finding.node < len(tape.graph) and (step := tape.step_of(finding.node)):
                steps.setdefault(step, letter)
        self._steps: Sequence[int] = sorted(steps)
        self._letters = [steps[step] for step in self._steps]

    @classmethod
    def of(cls, findings: tuple[Finding, ...], tape: Tape | None) -> Flagged:
        """The places, worked out once while one looks at the same."""
        known = cls._last
        if known is None or known._findings is not findings or known._tape is not tape:
            known = cls._last = cls(findings, tape)
        return known

    def steps(self, first: int, last: int) -> str:
        """The worst letter of some steps; empty for none."""
        here = self._letters[bisect_left(self._steps, first) : bisect_left(self._steps, last + 1)]
        return min(here, default="")  # E before W

    def line(self, file: str, line: int) -> str:
        return self._lines.get((file, line), "")

    def leaf(self, name: str) -> str:
        return self._leaves.get(name, "")
