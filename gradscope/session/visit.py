"""A stop as the session keeps it: what was recorded there, and where the person stands in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradscope.model.checks import CheckResult
from gradscope.model.report import TensorData
from gradscope.model.tape import Tape
from gradscope.session.inspected import Keeps
from gradscope.session.stepping import Walk
from gradscope.session.view import Stop


@dataclass(slots=True)
class Visit:
    """A stop, and where the person stands in it."""

    stop: Stop
    walk: Walk | None = None
    """None until a pass was recorded"""
    tensors: dict[tuple[int, int], TensorData] = field(default_factory=dict)
    """(tape, tensor) -> what was sent for an export"""
    last: int = 0
    """number of the pass that the debuggee ran last: the one whose seeds an edited resume uses"""
    asked: dict[int, list[str]] = field(default_factory=dict)
    """request -> the seeds it asked for"""
    texts: dict[int, list[str]] = field(default_factory=dict)
    """number of a pass -> the seeds that were typed for it, one a root"""
    same_seeds: dict[int, int] = field(default_factory=dict)
    """request of a pass with other what-ifs -> the pass whose seeds it takes"""
    seeds_from: dict[int, int] = field(default_factory=dict)
    """number of such a pass -> the pass whose seeds it has"""
    checks: dict[int, CheckResult] = field(default_factory=dict)
    """node -> what a check of it found; a new dict with each check"""
    keeps: Keeps = field(default_factory=Keeps)
    """what its nodes keep for backward, as far as it was asked for"""

    def seeded_as(self, tape: Tape) -> int:
        """The number that stands for the seeds of a pass: those of another one that it took them from."""
        return self.seeds_from.get(tape.number, tape.number)

    def texts_of(self, tape: Tape) -> list[str]:
        """The seeds that would make this pass again; empty ones are the script's own."""
        return list(self.texts.get(tape.number, [""] * len(tape.seeds)))
