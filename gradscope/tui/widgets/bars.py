"""Bars for norms: log-scaled over one pass, in half cells."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradscope.tui.glyphs import BAR, HALF_BAR

SAMPLED = 50_000
"""how many norms are looked at to find the scale"""
LEAST_DECADES = 3.0


class Scale:
    """From the smallest to the largest norm of a pass, at least three decades."""

    def __init__(self, norms: Sequence[float]) -> None:
        stride = max(1, len(norms) // SAMPLED)
        finite = [norm for norm in norms[::stride] if 0 < norm < math.inf]
        self._high = math.log10(max(finite)) if finite else 0.0
        self._low = min(math.log10(min(finite)) if finite else 0.0, self._high - LEAST_DECADES)

    def bar(self, norm: float, width: int) -> str:
        """`━━╸`: empty for zero and NaN, all of the width for infinity and the largest."""
        if not norm > 0:
            return ""
        halves = 2 * width
        if norm < math.inf:
            share = (math.log10(norm) - self._low) / (self._high - self._low)
            halves = min(max(1, round(share * halves)), halves)
        return BAR * (halves // 2) + HALF_BAR * (halves % 2)
