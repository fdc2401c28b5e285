"""Where the breakpoints of a session are met in the pass that is shown."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.errors import UsageError
from gradscope.findings.finding import Finding
from gradscope.findings.kinds import KINDS
from gradscope.model import conditions
from gradscope.model.tape import Tape


@dataclass(frozen=True, slots=True)
class Met:
    """The steps of one pass at which conditions are met."""

    by_text: tuple[tuple[str, Sequence[int]], ...]
    steps: Sequence[int]
    """of all conditions, ascending"""

    def at(self, step: int) -> str:
        """What to say of a step: `norm<1e-2, op:Sin met at step 3`; empty where no condition is met."""
        texts = [text for text, steps in self.by_text if holds(steps, step)]
        return f"{', '.join(texts)} met at step {step:,}" if texts else ""


class Breaks:
    """Conditions are looked for once in a pass."""

    def __init__(self) -> None:
        self._met = Met((), ())
        self._for: tuple[Tape | None, tuple[str, ...], tuple[Finding, ...]] = (None, (), ())
        """what `_met` was computed for"""

    def met(self, tape: Tape, texts: Sequence[str], findings: tuple[Finding, ...]) -> Met:
        """Where these conditions are met, for findings that are the same tuple until one is added."""
        known, same_texts, same_findings = self._for
        if known is not tape or same_texts != tuple(texts) or same_findings is not findings:
            found = tuple((text, conditions.parse(text).steps(tape.graph, tape, findings)) for text in texts)
            self._met = Met(found, sorted({step for _, steps in found for step in steps}))
            self._for = (tape, tuple(texts), findings)
        return self._met


def condition(text: str) -> str:
    """A condition as a person types it, without spaces around it.

    Raises:
        UsageError: it is none.
    """
    try:
        return conditions.parse(text, KINDS).text
    except ValueError as error:
        what, _, why = str(error).partition("\n")
        raise UsageError(what, why) from error


def holds(steps: Sequence[int], first: int, last: int | None = None) -> bool:
    """Whether one of ascending steps lies between two."""
    place = bisect_left(steps, first)
    return place < len(steps) and steps[place] <= (first if last is None else last)
