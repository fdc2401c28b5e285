"""One diagnosis."""

from __future__ import annotations

from dataclasses import dataclass

from gradscope.model.places import UNKNOWN

SEVERITIES = ("error", "warning", "info")
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that a finding speaks of: who wrote in place, where the graph was cut."""

    file: str
    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, why, and what to try."""

    kind: str
    """One of the kinds of the export format: `nonfinite-origin`, `missing-gradient`, …"""
    severity: str
    message: str
    """What is the matter, in one sentence."""
    hint: str = ""
    """What to try."""
    node: int = UNKNOWN
    op: str = ""
    file: str = ""
    line: int = 0
    """The line of the forward call that made the node at fault, else of the call that failed; 0 when unknown."""
    related: tuple[Related, ...] = ()
    leaf: str = ""
    """The leaf that it speaks of; several joined by `, `."""
    index: tuple[int, ...] | None = None
    value: float | None = None
    call: int = 0
    """Number of the backward call it belongs to; 0 for none."""

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names in `leaf`: a finding may speak of several."""
        return tuple(self.leaf.split(", ")) if self.leaf else ()
