"""What a check of one node's backward found."""

from __future__ import annotations

from dataclasses import dataclass

RIGHT, WRONG, UNKNOWN_RESULT = "right", "wrong", "unknown"


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One property of one gradient."""

    what: str
    """`linear in the incoming gradient`, `∂self against finite differences`"""
    verdict: str
    """RIGHT, WRONG or UNKNOWN_RESULT"""
    error: float | None = None
    """greatest difference, relative to the greatest element of what should be; None where nothing was compared"""
    tolerance: float | None = None
    why: str = ""
    """for `unknown` why it could not be checked; for `wrong` where: `element [0, 2]: backward says 0.5, differences say 1.0`"""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """All that was checked of a node."""

    node: int
    how: str
    """what was run: `the forward of Exp.apply (ops.py:12) again in float64`"""
    rows: list[CheckRow]
