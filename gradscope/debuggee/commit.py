"""The script's own call: recorded while it runs, or checked afterwards against what the exploring pass said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import torch

from gradscope.debuggee import tensor_hooks
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.collector import collector_paused
from gradscope.debuggee.exactness import accumulated, same_bits
from gradscope.debuggee.explore import GivenSeed, engine_seed, judge, leaves_after, present_gradient
from gradscope.debuggee.foreign import hooks_of
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.parts import Opaque, copied, detached
from gradscope.debuggee.record import Recording
from gradscope.debuggee.tape_builder import Held, TapeBuilder
from gradscope.model.columns import Seed, TapeColumns
from gradscope.model.places import UNKNOWN
from gradscope.model.tensors import NO_TENSOR

RAN_BEFORE = (
    ", and the pass that was explored before it did not: it may have used up what the backward needs; "
    "--once records your script's own call and runs nothing beside it"
)


HOOKED = "hooks write into .grad themselves"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether each leaf's `.grad` is what the pass said it would be."""

    exact: str
    """`true`, `false` or `unchecked`"""
    reason: str
    differing: tuple[int, ...] = ()
    """leaves, by their place in `Captured.leaves`"""


@dataclass(slots=True)
class _Expected:
    leaf: int
    variable: torch.Tensor
    gradient: torch.Tensor | None
    elsewhere: str = ""
    """why a difference would say nothing: what other pass may write this `.grad`"""


class Check:
    """Holds what each leaf's `.grad` must be after the script's call. Make it before the call, ask for the verdict after it."""

    def __init__(
        self, captured: Captured, expected: Mapping[int, torch.Tensor | None], *, accumulates: bool = True, complete: bool = True
    ) -> None:
        """Take what the leaves' gradients must become.

        Args:
            captured: the graph, still alive.
            expected: for the leaves of the graph, by their place, their `.grad` after the call; those left out are not checked.
            accumulates: the call is a backward().
            complete: the pass that says so ran to its end.
        """
        self._expected: list[_Expected] = []
        self._why_not = ""
        self._incomplete = not complete
        self._elsewhere = ""
        """why some leaf cannot be checked at all"""
        self._hooked = 0
        """leaves whose `.grad` hooks may write"""
        if not accumulates:
            self._why_not = "autograd.grad hands its results to the script; they are the totals shown"
        elif not complete:
            self._why_not = "the pass ended early"
        else:
            self._collect(captured, expected)

    @classmethod
    @modes_off()
    def of_tape(cls, captured: Captured, tape: TapeColumns, held: Held, *, accumulates: bool = True) -> Check:
        """The check against an explored tape (its seeds must be those that the call runs with)."""
        present = held.present
        expected = {
            leaf: None if number == NO_TENSOR else present[number]
            for leaf, number in enumerate(memoryview(tape.leaf_after).cast("i"))
            if number == NO_TENSOR or number in present
        }
        return cls(captured, expected, accumulates=accumulates, complete=tape.failure is None)

    def _collect(self, captured: Captured, expected: Mapping[int, torch.Tensor | None]) -> None:
        if len(expected) < sum(leaf.node != UNKNOWN for leaf in captured.leaves):
            self._elsewhere = "the totals of some leaves did not fit the budget (--budget)"
        for number, gradient in expected.items():
            leaf = captured.leaves[number]
            if leaf.variable is None or leaf.kind == "input":
                continue
            if others_write(captured.nodes[leaf.node], leaf.variable):
                self._hooked += 1
                continue
            self._expected.append(_Expected(number, leaf.variable, gradient, captured.written.get(leaf.node, "")))

    def verdict(self, error: BaseException | None = None, company: Sequence[str] = ()) -> Verdict:
        """Compare, once the call has run; lets go of everything.

        Args:
            error: what the call raised.
            company: other threads that were in a backward call of theirs meanwhile.
        """
        expected, self._expected = self._expected, []
        if error is not None:
            return Verdict("unchecked", f"the call raised {type(error).__name__}{'' if self._incomplete else RAN_BEFORE}")
        with modes_off():
            unlike = self._unlike(expected)
        differing = tuple(one.leaf for one in unlike if not one.elsewhere)
        elsewhere = next((one.elsewhere for one in unlike if one.elsewhere), self._elsewhere)
        if differing and company:
            return Verdict("unchecked", not_told_apart(len(differing), len(expected), company))
        if differing:
            return Verdict("false", f".grad of {len(differing)} of {len(expected)} leaves is not before + total", differing)
        if elsewhere:
            return Verdict("unchecked", elsewhere)
        if not expected:
            return Verdict("unchecked", self._why_not or (HOOKED if self._hooked else "no leaf could be checked"))
        if self._hooked:
            every = len(expected) + self._hooked
            return Verdict("unchecked", f"{HOOKED}, of {self._hooked} of {every} leaves; the others are what this says")
        return Verdict("true", "")

    def _unlike(self, expected: Sequence[_Expected]) -> list[_Expected]:
        unlike = []
        for one in expected:
            try:
                if not _agree(one.variable, one.gradient):
                    unlike.append(one)
            except Opaque as error:
                self._elsewhere = str(error)
        return unlike


def _agree(variable: torch.Tensor, gradient: torch.Tensor | None) -> bool:
    present = variable.grad
    if present is None or gradient is None:
        return present is None and gradient is None
    return same_bits(detached(present), gradient)


def not_told_apart(differing: int, leaves: int, company: Sequence[str]) -> str:
    """Why a difference says nothing."""
    threads = ", ".join(dict.fromkeys(company))
    return f".grad of {differing} of {leaves} leaves was also written by a backward call of another thread ({threads})"


def others_write(node: Any, variable: torch.Tensor) -> bool:
    """Whether hooks of AccumulateGrad or after it may write the leaf's `.grad`."""
    if getattr(variable, "_post_accumulate_grad_hooks", None):
        return True
    return (tensor_hooks.node_hooks or not tensor_hooks.watching) and bool(hooks_of(node))


class Recorded:
    """A context round the script's own call that records it while it runs. It observes, and nothing else.

    Args:
        captured: the graph of the call.
        seeds: one for each root, as the engine gets them.
        accumulates: the call is a backward().
        create_graph: as the call has it.
        number: which pass of the call it is.
        edited: the call runs with other seeds than the script's.
        labels: gives what a person is told of the seeds, where that is known only when the call has run.
    """

    def __init__(
        self,
        captured: Captured,
        seeds: Sequence[GivenSeed | torch.Tensor | None],
        *,
        accumulates: bool = True,
        create_graph: bool = False,
        number: int = 1,
        edited: bool = False,
        labels: Callable[[], Sequence[GivenSeed]] | None = None,
    ) -> None:
        self._captured, self._labels = captured, labels
        self._given = [seed if isinstance(seed, GivenSeed) else GivenSeed(seed) for seed in seeds]
        self._accumulates = accumulates
        self._create_graph = create_graph
        self._number, self._edited = number, edited
        self._recording = Recording(captured, committed=True, accumulates=accumulates)
        self._error: BaseException | None = None
        self._before: list[torch.Tensor | None] = []
        self._writers: list[bool] = []
        self._company: Sequence[str] = ()
        self._untold = ""
        """why it cannot be told of some leaf whether its `.grad` is as it must be"""
        self._started = 0.0

    @modes_off()
    def __enter__(self) -> Recorded:
        self._started = time.perf_counter()
        for leaf in self._captured.leaves:
            if leaf.node == UNKNOWN:
                continue
            present = present_gradient(leaf.variable)
            self._before.append(None if present is None else copied(present))
            plain = leaf.variable is not None and leaf.kind != "input"
            self._writers.append(plain and others_write(self._captured.nodes[leaf.node], leaf.variable))  # type: ignore[arg-type]
        if self._captured.foreign.touches_gradients:  # a hook may edit a seed in place
            self._given = [replace(one, tensor=None if one.tensor is None else copied(one.tensor)) for one in self._given]
        self._recording.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._recording.__exit__(kind, error, trace)
        self._error = error

    def finish(self, error: BaseException | None, company: Sequence[str] = ()) -> tuple[TapeColumns, Held]:
        """End the recording and give the tape; `company` as in `Check.verdict`."""
        self.end(error, company)
        return self.tape()

    def end(self, error: BaseException | None, company: Sequence[str] = ()) -> None:
        """End the recording."""
        self._company = company
        self.__exit__(None if error is None else type(error), error, None)

    def gradients(self) -> Iterator[list[torch.Tensor]]:
        """All that was recorded, each once: those of one shape and dtype together, those of which torch does not say it alone."""
        captured, seen = self._captured, set()
        groups: dict[int, list[torch.Tensor]] = {}
        first_edge, edge_slot, edge_into = captured.first_edge, captured.edge_slot, captured.edge_into
        for node, sent, handed in self._recording.log:
            found = [(slot, one) for slot, one in enumerate(handed, captured.first_slot[node]) if one is not None]
            if sent:
                edges = range(first_edge[node], first_edge[node + 1])
                found += [(edge_into[edge], one) for edge in edges if (one := sent[edge_slot[edge]]) is not None]
            for slot, one in found:
                if id(one) not in seen:
                    seen.add(id(one))
                    groups.setdefault(captured.slot_kind[slot], []).append(one)
        yield from ([one] for one in groups.pop(-1, ()))
        yield from groups.values()

    def release(self) -> None:
        """Let go of what was recorded."""
        self._recording.release()
        self._recording.log.clear()
        self._before.clear()
        self._given.clear()

    def tape(self) -> tuple[TapeColumns, Held]:
        """The record, once the call has run."""
        with modes_off(), collector_paused():
            return self._tape()

    def _tape(self) -> tuple[TapeColumns, Held]:
        captured, recording = self._captured, self._recording
        if self._labels is not None:
            told = self._labels()
            self._given = [replace(label, tensor=one.tensor) for label, one in zip(told, self._given, strict=True)]
        slots = [(root.node, root.input_nr) for root in captured.roots if root.node != UNKNOWN]
        with torch.no_grad():
            seeds = [engine_seed(captured, slot, seed.tensor) for slot, seed in zip(slots, self._given, strict=False)]
            slots = slots[: len(seeds)]
            after = leaves_after(captured, slots, recording, finished=self._error is None)
            builder = TapeBuilder(captured, slots, seeds, recording.log, after, {})
            before_numbers, after_numbers, differing = self._leaf_gradients(builder)
            kept = [
                Seed(place, builder.number(tensor), seed.expression, seed.given)
                for place, (seed, tensor) in enumerate(zip(self._given, seeds, strict=False))
                if tensor is not None
            ]
            recording.tell_hooks(builder)
            self._own(builder)
            tape = builder.columns(kept, before_numbers, after_numbers)
        tape.number, tape.edited, tape.kind = self._number, self._edited, "committed"
        judge(tape, recording, builder, self._error)
        if tape.exact == "true" and (differing or self._untold):
            tape.exact, tape.exact_reason = self._judged(differing) if differing else ("unchecked", self._untold)
        tape.seconds = time.perf_counter() - self._started
        recording.release()
        return tape, Held(builder.tensors)

    def _judged(self, differing: Sequence[int]) -> tuple[str, str]:
        leaves = self._captured.leaves
        elsewhere = [self._captured.written.get(leaves[number].node) for number in differing]
        if self._company:
            return "unchecked", not_told_apart(len(differing), len(self._before), self._company)
        if all(elsewhere):
            return "unchecked", str(elsewhere[0])
        return "false", f".grad of {len(differing)} leaves is not before + total"

    def _own(self, builder: TapeBuilder) -> None:
        """What the script has in hand too is copied, as it may change it later; no second-order graph is kept alive."""
        targets = {leaf.node for leaf in self._captured.leaves if leaf.target}
        shared: set[int] = set()
        for edge, number in zip(builder.contribution_edge, builder.contribution_tensor, strict=True):
            if edge < 0 or (not self._accumulates and self._captured.edge_target[edge] in targets):
                shared.add(number)
        for number, tensor in enumerate(builder.tensors):
            if number in shared:
                builder.tensors[number] = copied(tensor)
            elif tensor.requires_grad:
                builder.tensors[number] = detached(tensor)

    @staticmethod
    def _same(present: torch.Tensor | None, expected: torch.Tensor | None) -> bool:
        return present is None if expected is None else present is not None and same_bits(present, expected)

    def _leaf_gradients(self, builder: TapeBuilder) -> tuple[list[int], list[int], list[int]]:
        before: list[int] = []
        after: list[int] = []
        differing: list[int] = []
        totals = builder.handed({leaf.node for leaf in self._captured.leaves})
        for number, earlier in enumerate(self._before):
            leaf = self._captured.leaves[number]
            before.append(NO_TENSOR if earlier is None else builder.number(earlier))
            total = totals.get((leaf.node, leaf.input_nr)) if self._accumulates and leaf.target else None
            present = present_gradient(leaf.variable)
            try:
                expected = accumulated(earlier, total, self._create_graph)
                same = self._same(present, expected)
            except Opaque as error:
                self._untold = str(error)
                expected = same = None
            if same is False and self._error is None and not self._writers[number] and leaf.kind != "input":
                differing.append(number)
            if not same:
                expected = None if present is None else copied(present)
            after.append(NO_TENSOR if expected is None else builder.number(expected))
        return before, after, differing
