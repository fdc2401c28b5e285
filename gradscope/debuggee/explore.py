"""The exploring pass: the whole backward pass, run once more on torch's engine without touching what the script sees."""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.autograd.graph import GradientEdge

from gradscope.debuggee import person_code
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.changes import WhatIfs
from gradscope.debuggee.collector import collector_paused
from gradscope.debuggee.engine import run_engine
from gradscope.debuggee.exactness import accumulated
from gradscope.debuggee.modes import modes_off, modes_on
from gradscope.debuggee.parts import Opaque, copied, detached, is_foreign
from gradscope.debuggee.record import Cancelled, Gradients, Poll, Recording
from gradscope.debuggee.sandbox import Sandbox
from gradscope.debuggee.tape_builder import Held, SeedSlot, TapeBuilder
from gradscope.errors import GradscopeError
from gradscope.model.columns import Failure, Seed, TapeColumns
from gradscope.model.places import UNKNOWN
from gradscope.model.tensors import NO_TENSOR

_FIRST = 1 << 64
"""AccumulateGrad, whose number is -1 here, comes before all others."""
NO_MEMORY = "there is not enough memory to hold the gradients of this pass"
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True, slots=True)
class GivenSeed:
    """A seed with what a person is told about it."""

    tensor: torch.Tensor | None
    expression: str = ""
    given: bool = True


NOT_REPEATABLE = (
    "an earlier pass over this graph ran to its end: what runs in this backward uses up what cannot be put back; "
    "--once records your script's own call and runs nothing beside it"
)


EDITED = "a gradient was written into that was also to go elsewhere"


class CannotExplore(GradscopeError):
    """An exploring pass would be wrong here. The script's own call can still be recorded."""


@modes_off()
@collector_paused()
def explore(
    captured: Captured,
    seeds: Sequence[GivenSeed | torch.Tensor | None],
    *,
    number: int = 1,
    edited: bool = False,
    root: tuple[int, int] | None = None,
    poll: Poll | None = None,
    accumulates: bool = True,
    create_graph: bool = False,
    what_ifs: WhatIfs | None = None,
) -> tuple[TapeColumns, Held]:
    """Run the pass with these seeds, and give its tape and its tensors.

    Args:
        captured: the graph.
        seeds: one for each of the call's roots, or one for `root`.
        number: which pass of the stop it is.
        edited: a seed is not the script's own.
        root: seed the tensor that this (node, input_nr) made instead of the call's roots.
        poll: called every 64 nodes with the number that ran; True gives the pass up.
        accumulates: the call is a backward() and adds to `.grad`.
        create_graph: as the call has it (it changes how `.grad` is added to, nothing else).
        what_ifs: gradients to change on the way.

    Raises:
        CannotExplore: it would be wrong here, nothing can be differentiated, or memory is out.
        ChangeError: a what-if makes no gradient for its place.
        Cancelled: `poll` said so; everything is as it was.
    """
    if captured.refusal:
        raise CannotExplore(
            "this pass cannot be tried out beforehand", captured.refusal, "it is recorded while the script runs it"
        )
    if not captured.nodes:
        raise CannotExplore("no root has a graph", "nothing that these tensors were computed from requires grad")
    given = [seed if isinstance(seed, GivenSeed) else GivenSeed(seed) for seed in seeds]
    slots, edges, tensors = _seeded(captured, given, root)
    leaf_edges = _leaf_edges(captured)
    started = time.perf_counter()
    handed = tensors
    if captured.foreign.touches_gradients:  # a hook may edit what it is given in place, and that may be the script's own tensor
        handed = [None if tensor is None else copied(tensor) for tensor in tensors]
    recording, sandbox, results, error = _run(captured, edges, handed, [edge for _, edge in leaf_edges], poll, what_ifs)
    totals = {slot: result for (slot, _), result in zip(leaf_edges, results, strict=False)}
    with torch.no_grad():
        after_positions = leaves_after(captured, slots, recording, finished=error is None)
        builder = TapeBuilder(captured, slots, tensors, recording.log, after_positions, totals, what_ifs)
        before, after = _leaf_gradients(captured, builder, accumulates, create_graph)
        kept = [
            Seed(place, builder.number(tensor), seed.expression, seed.given)
            for place, (seed, tensor) in enumerate(zip(given, tensors, strict=True))
            if tensor is not None
        ]
        recording.tell_hooks(builder)
        tape = builder.columns(kept, before, after)
    if what_ifs is not None:
        what_ifs.check(failed=error is not None)
        tape.changes = builder.changes
    tape.number, tape.edited, tape.kind = number, edited, "explored"
    if root is not None:
        tape.root, tape.root_input_nr = root
    tape.printed = sandbox.printed
    tape.notes.extend(sandbox.notes)
    judge(tape, recording, builder, error)
    if error is None:
        captured.has_run = True
    elif captured.has_run:
        tape.notes.append(NOT_REPEATABLE)
    tape.seconds = time.perf_counter() - started
    recording.release()
    return tape, Held(builder.tensors)


def _run(
    captured: Captured,
    roots: Sequence[GradientEdge],
    seeds: Sequence[torch.Tensor | None],
    targets: Sequence[GradientEdge],
    poll: Poll | None,
    what_ifs: WhatIfs | None,
) -> tuple[Recording, Sandbox, Sequence[torch.Tensor | None], BaseException | None]:
    """Run the engine in the sandbox: the record, what was noticed, the totals, and the error that ended it."""
    more, zeros = ([], []) if what_ifs is None else what_ifs.more_seeds()
    recording = Recording(captured, poll=poll, what_ifs=what_ifs)
    error: BaseException | None = None
    results: Sequence[torch.Tensor | None] = ()
    with Sandbox(captured) as sandbox, recording:
        try:
            if targets:
                with modes_on():
                    results = run_engine([*roots, *more], [*seeds, *zeros], targets)
        except (Cancelled, KeyboardInterrupt):
            raise
        except torch.OutOfMemoryError as raised:
            recording.release()
            raise CannotExplore(NO_MEMORY, str(raised), "--once records your script's own call") from None
        except BaseException as raised:
            error = raised
    if what_ifs is not None and what_ifs.runs_again():
        recording.release()
        return _run(captured, roots, seeds, targets, poll, what_ifs)
    return recording, sandbox, results, error


def _seeded(
    captured: Captured, given: Sequence[GivenSeed], root: tuple[int, int] | None
) -> tuple[list[SeedSlot], list[GradientEdge], list[torch.Tensor | None]]:
    """The slots that the seeds go to, the same as edges, and the seeds as the engine will hand them over."""
    if root is not None:
        slots = [root]
    else:
        slots = [(one.node, one.input_nr) for one in captured.roots]
        if any(node == UNKNOWN for node, _ in slots):
            raise CannotExplore("a root has no graph", "torch will refuse this call")
    if len(slots) != len(given):
        raise CannotExplore(f"{len(given)} seeds for {len(slots)} roots")
    tensors = [engine_seed(captured, slot, seed.tensor) for slot, seed in zip(slots, given, strict=True)]
    return slots, [GradientEdge(captured.nodes[node], input_nr) for node, input_nr in slots], tensors


def engine_seed(captured: Captured, slot: SeedSlot, seed: torch.Tensor | None) -> torch.Tensor | None:
    """The seed in the root's dtype, as the engine casts it before it is handed over."""
    if seed is None:
        return None
    kind = captured.slot_kind[captured.slot(*slot)]
    seed = detached(seed)
    return seed.to(captured.kinds[kind][1]) if kind >= 0 and not is_foreign(seed) else seed


def _leaf_edges(captured: Captured) -> list[tuple[SeedSlot, GradientEdge]]:
    found: dict[SeedSlot, GradientEdge] = {}
    for number in captured.targets():
        leaf = captured.leaves[number]
        found[leaf.node, leaf.input_nr] = GradientEdge(captured.nodes[leaf.node], leaf.input_nr)
    return list(found.items())


def leaves_after(
    captured: Captured, seed_slots: Sequence[SeedSlot], recording: Recording, *, finished: bool
) -> Mapping[int, Sequence[int]]:
    """For each position in the log (-1 for the seeds) the leaf nodes whose last contribution it delivered."""
    ran = {node for node, _, _ in recording.log}
    leaves = [captured.leaves[number] for number in captured.targets()]
    if not finished and recording.leaves_tell:  # one without an entry was not complete, or its hook raised
        leaves = [leaf for leaf in leaves if leaf.kind == "input"]
    node_of = {captured.slot(leaf.node, leaf.input_nr): leaf.node for leaf in leaves if leaf.node not in ran}
    last: dict[int, int] = {}
    count = dict.fromkeys(node_of, 0)
    for slot in (captured.slot(*seed) for seed in seed_slots):
        if slot in node_of:
            last[node_of[slot]] = -1
    feeds = captured.plan.feeds
    for position, (node, _, _) in enumerate(recording.log):
        if node in feeds:
            for slot in feeds[node]:
                if slot in node_of:
                    last[node_of[slot]] = position
                    count[slot] += 1
    if not finished:
        for slot, node in node_of.items():
            if count[slot] < captured.slot_degree[slot]:
                last.pop(node, None)
    place = {node: order for order, node in enumerate(recording.leaf_order)}
    after: dict[int, list[int]] = {}
    for node, position in sorted(last.items(), key=lambda item: place.get(item[0], len(place))):
        after.setdefault(position, []).append(node)
    return after


def _leaf_gradients(
    captured: Captured, builder: TapeBuilder, accumulates: bool, create_graph: bool
) -> tuple[list[int], list[int]]:
    """Numbers of each leaf's `.grad` before the call, and after it as AccumulateGrad will make it."""
    before: list[int] = []
    after: list[int] = []
    totals = builder.handed({leaf.node for leaf in captured.leaves})
    for leaf in captured.leaves:
        if leaf.node == UNKNOWN:
            continue
        present = present_gradient(leaf.variable)
        before.append(NO_TENSOR if present is None else builder.number(present))
        total = totals.get((leaf.node, leaf.input_nr)) if accumulates and leaf.target else None
        try:
            result = accumulated(present, total, create_graph)
        except Opaque as error:
            captured.written.setdefault(leaf.node, str(error))
            result = None
        after.append(NO_TENSOR if result is None else builder.number(result))
    return before, after


def present_gradient(variable: torch.Tensor | None) -> torch.Tensor | None:
    """`.grad` without the warning that torch gives for inner tensors."""
    if variable is None or not (variable.is_leaf or variable.retains_grad):
        return None
    gradient = variable.grad
    return None if gradient is None else detached(gradient)


def judge(tape: TapeColumns, recording: Recording, builder: TapeBuilder, error: BaseException | None) -> None:
    """Say whether the record is exact, and how the pass ended."""
    captured = recording.captured
    tape.notes.extend([*recording.missed, *recording.notes])
    recording.tell_mutations(tape)
    unsummed = builder.unsummed
    if unsummed:
        why = next(iter(unsummed.values()))
        many = "1 gradient" if len(unsummed) == 1 else f"{len(unsummed)} gradients"
        tape.notes.append(f"contributions of {many} could not be added up: {why}")
    if error is not None:
        node = recording.unfinished if recording.unfinished != UNKNOWN else failed_node(captured, builder)
        tape.failure = describe_failure(error, node)
        tape.exact, tape.exact_reason = "unchecked", f"the pass ended with {type(error).__name__}"
    elif recording.missed:
        tape.exact, tape.exact_reason = "unchecked", recording.missed[0]
    elif unsummed:
        tape.exact, tape.exact_reason = "unchecked", tape.notes[-1]
    else:
        tape.exact = "true"
    if tape.mismatches and tape.facts.mutated:
        tape.exact, tape.exact_reason = "unchecked", f"{captured.ops[tape.facts.mutated[0].node]}: {EDITED}"
        tape.mismatches = []
    elif tape.mismatches:
        first = tape.mismatches[0]
        tape.exact, tape.exact_reason = "false", f"{captured.ops[first.node]}: {first.what}"


def failed_node(captured: Captured, builder: TapeBuilder) -> int:
    """The node that ran when the pass ended: of those that had got all they wait for, the one the engine takes first."""
    ran = set(builder.step_node)
    expected = _expected_deliveries(captured, builder)
    delivered = Counter(captured.edge_target[edge] for edge in builder.contribution_edge if edge >= 0)
    delivered.update(node for node, _ in builder.seed_slots)
    ready = [node for node, count in delivered.items() if node not in ran and count >= expected[node]]
    return max(ready, key=lambda node: captured.sequence_nr[node] % _FIRST, default=UNKNOWN)


def _expected_deliveries(captured: Captured, builder: TapeBuilder) -> list[int]:
    """For each node how many contributions it waits for in this pass."""
    expected = [0] * len(captured)
    waiting = []
    for node, _ in builder.seed_slots:
        expected[node] += 1
        waiting.append(node)
    seen = bytearray(len(captured))
    while waiting:
        node = waiting.pop()
        if seen[node]:
            continue
        seen[node] = 1
        for target in captured.edge_target[captured.first_edge[node] : captured.first_edge[node + 1]]:
            expected[target] += 1
            waiting.append(target)
    return expected


def describe_failure(error: BaseException, node: int) -> Failure:
    """The exception as Python prints it, without gradscope's frames, and the person's line that raised it.

    All frames are the engine's callees: the error was caught where the engine was called.
    """
    summary = traceback.TracebackException.from_exception(error)
    summary.stack = traceback.StackSummary.from_list([frame for frame in summary.stack if not frame.filename.startswith(_HERE)])
    lines = list(summary.format())
    own = [frame for frame in summary.stack if person_code.kind(frame.filename) == person_code.PERSON]
    file, line = (own[-1].filename, own[-1].lineno or 0) if own else ("", 0)
    return Failure(node, type(error).__name__, str(error), "".join(lines), file, line)


__all__ = ["Cancelled", "CannotExplore", "GivenSeed", "Gradients", "explore"]
