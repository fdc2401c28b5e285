"""`a` `A`: from finding to finding along the tape, round its ends; those that have no step come after the last that has one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from gradscope.findings.finding import Finding
from gradscope.session.stepping import Walk


class Tour:
    """Which finding the person has been led to."""

    def __init__(self) -> None:
        self.at: Finding | None = None
        self._playhead = -1
        """where that was: once the playhead is elsewhere, the way goes on from there"""

    def go(self, walk: Walk | None, findings: Sequence[Finding], direction: int) -> str:
        """To the next finding or the one before; gives what there is to say."""
        if not findings:
            return "no findings"
        steps = [_step(walk, finding) for finding in findings]
        order = sorted(range(len(findings)), key=steps.__getitem__)
        place = self._place(walk, findings, [steps[index] for index in order], order, direction)
        turned = not 0 <= place < len(order)
        index = order[place % len(order)]
        said = self.stand(walk, findings[index])
        if len(order) == 1:
            return said or ("the only finding" if turned else "")
        if turned:
            said = "the last finding: back at the first" if direction > 0 else "the first finding: back at the last"
        return said or f"finding {place % len(order) + 1} of {len(order)}"

    def stand(self, walk: Walk | None, finding: Finding) -> str:
        """Be led to a finding; the playhead goes along where it has a step."""
        self.at = finding
        said = "" if finding.node >= 0 else "this finding has no node in the graph"
        if walk is not None and 0 <= finding.node < len(walk.graph):
            said = walk.to_node(finding.node)
        self._playhead = walk.playhead if walk is not None else -1
        return said

    def _place(
        self, walk: Walk | None, findings: Sequence[Finding], steps: Sequence[int], order: Sequence[int], direction: int
    ) -> int:
        """Where the way leads, as a place in `order`; beyond its ends when it turns."""
        playhead = walk.playhead if walk is not None else -1
        if self.at in findings and playhead == self._playhead:
            return order.index(findings.index(self.at)) + direction
        return bisect_right(steps, playhead) if direction > 0 else bisect_left(steps, playhead) - 1


def _step(walk: Walk | None, finding: Finding) -> int:
    """The step of a finding in the pass shown, beyond the last where it has none."""
    if walk is None:
        return 1
    step = walk.tape.step_of(finding.node) if 0 <= finding.node < len(walk.graph) else 0
    return step or walk.tape.steps + 1
