"""Conditions that look at gradients, armed over a whole run: each call is recorded while it runs, and looked at when it has.

Nothing is tried out beforehand. As long as nothing is met a call costs its capture and one hook a node: names, lines and
summaries are made of those calls alone in which a quick look finds something.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.capture import Captured, capture
from gradscope.debuggee.commit import Recorded
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.parts import PLAIN
from gradscope.debuggee.pass_facts import PassFinder, Witnesses
from gradscope.debuggee.subject import Subject
from gradscope.debuggee.tape_builder import Held
from gradscope.findings import Finding, diagnose
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import TapeColumns
from gradscope.model.conditions import Condition
from gradscope.model.tape import Tape

QUICK = ("nan", "inf", "zero")
"""Conditions that a look at the bare gradients rules out."""
_WORTH_STACKING = 1 << 14


def split(conditions: Mapping[str, Condition], *, before: bool) -> tuple[dict[str, Condition], dict[str, Condition]]:
    """The conditions that a graph meets before its call, and those that only the pass of the call itself can.

    Args:
        conditions: all that are armed.
        before: all are to be met beforehand, as something else is to be tried out there.
    """
    after = {} if before else {text: one for text, one in conditions.items() if one.of_gradients}
    return {text: one for text, one in conditions.items() if text not in after}, after


class Armed:
    """One call while it runs. Made before it, asked after it.

    Args:
        call: it.
        conditions: any of which is enough.
        witnesses: of what the script did.
        subject_of: names and lines of a captured graph; asked for only where they are needed.
    """

    def __init__(
        self,
        call: BackwardCall,
        conditions: Mapping[str, Condition],
        witnesses: Witnesses,
        subject_of: Callable[[BackwardCall, Captured], Subject],
    ) -> None:
        self._call, self._conditions, self._subject_of = call, conditions, subject_of
        self._captured = capture(call.roots, call.inputs)
        self._subject: Subject | None = None
        self.finder = PassFinder(self._captured, self.subject, witnesses)
        self.finder.before(freeing=not call.keep_graph)
        self._recorded = Recorded(
            self._captured, call.seeds, accumulates=call.accumulates, create_graph=call.create_graph, labels=self._labels
        )
        self._recorded.__enter__()

    def subject(self) -> Subject:
        """With names and lines."""
        if self._subject is None:
            self._subject = self._subject_of(self._call, self._captured)
        return self._subject

    def _labels(self) -> list[Any]:
        return self.subject().seeds

    def met(self, error: BaseException | None) -> tuple[str, TapeColumns, Held] | None:
        """The condition that the pass has met, and its record."""
        recorded = self._recorded
        recorded.end(error, self._call.company)
        if not self._may_be_met():
            return None
        tape, held = recorded.tape()
        self.finder.after(tape)
        subject = self.subject()
        had = memoryview(tape.leaf_before).cast("i")
        facts = subject.columns.facts
        facts.histories = [one for one in facts.histories if one.leaf < len(had) and had[one.leaf] >= 0]
        graph = BackwardGraph(subject.columns)
        record = Tape(tape, graph)
        findings: list[Finding] | None = None
        for text, condition in self._conditions.items():
            if findings is None and text.startswith("finding:"):
                findings = diagnose(graph, record, inputs=bool(self._call.inputs))
            if condition.met(graph, record, findings or ()):
                return text, tape, held
        held.release()
        return None

    def _may_be_met(self) -> bool:
        wanted = {text for text in self._conditions if text in QUICK}
        if len(wanted) < len(self._conditions) or self.finder.roots_bad:
            return True
        with modes_off(), torch.no_grad():
            return _has_any(self._recorded.gradients(), bad=bool(wanted & {"nan", "inf"}), zero="zero" in wanted)

    def release(self) -> None:
        """Let go of the graph and all that was recorded."""
        self._recorded.release()
        if self._subject is not None:
            self._subject.release()
        self._captured.release()


def _has_any(groups: Iterable[list[torch.Tensor]], *, bad: bool, zero: bool) -> bool:
    """Whether one of the gradients is not finite, or all zero; yes where that cannot be told quickly.

    Args:
        groups: the gradients, those of one shape and dtype together.
        bad, zero: what is asked.
    """
    for tensors in groups:
        if not set(map(type, tensors)).issubset(PLAIN) or any(one.layout != torch.strided for one in tensors):
            return True
        if tensors[0].is_nested:
            return True
        if not tensors[0].numel():
            continue
        some = [torch.stack(tensors)] if tensors[0].numel() <= _WORTH_STACKING else [one.unsqueeze(0) for one in tensors]
        for rows in some:
            if (bad and not _finite(rows)) or (zero and not bool(rows.reshape(len(rows), -1).any(1).all())):
                return True
    return False


def _finite(tensor: torch.Tensor) -> bool:
    """A sum is finite where all is; that of finite numbers may overflow."""
    tensor = tensor.float() if tensor.element_size() == 1 else tensor
    return math.isfinite(abs(tensor.sum().item())) or bool(torch.isfinite(tensor).all())
