"""What the nodes of one stop keep for backward, as far as it was asked for and answered. It stays when the script runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gradscope.model.saved import SavedTable
from gradscope.protocol.messages import Inspected, SavedRead


@dataclass(slots=True)
class Keeps:
    """Answers of one stop."""

    saved: SavedTable | None = None
    inspected: Mapping[int, Inspected] = field(default_factory=dict)
    """by node; a new mapping with each answer"""
    asked: bool = False
    """`saved` is on its way"""
    looking: set[int] = field(default_factory=set)
    """nodes whose answer is on its way"""

    def take(self, report: SavedRead | Inspected) -> None:
        if isinstance(report, SavedRead):
            self.saved, self.asked = SavedTable(report.saved), False
        else:
            self.looking.discard(report.node)
            self.inspected = {**self.inspected, report.node: report}
