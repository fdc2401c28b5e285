"""Gradients that were in `.grad` before the call, to which it adds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import at_origin, listed, written
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Leaf
from gradscope.model.facts import EarlierCall, LeafHistory
from gradscope.model.places import Origin
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

KIND = "stale-accumulation"


@dataclass(slots=True)
class _Group:
    """Leaves with the same history."""

    history: LeafHistory
    leaves: list[int] = field(default_factory=list)


def accumulation(graph: BackwardGraph, tape: Tape, calls: Sequence[Related] = ()) -> Iterator[Finding]:
    """One finding for all leaves that have the same history."""
    if tape.failure is not None:
        return
    groups: dict[tuple[object, ...], _Group] = {}
    for history in graph.columns.facts.histories:
        if _holds_something(graph, tape, history):
            lines = (_line(history.zeroed), _line(history.stepped))
            same = (history.filled_by, history.unseen, *lines, history.own_step, history.written)
            groups.setdefault(same, _Group(history)).leaves.append(history.leaf)
    for group in groups.values():
        yield _told(graph, tape, group, calls)


def _holds_something(graph: BackwardGraph, tape: Tape, history: LeafHistory) -> bool:
    """The call adds to a gradient that is not zero, and that earlier calls put there."""
    if not history.filled_by and not history.unseen:
        return False
    before = tape.leaf_before(history.leaf)
    added = tape.leaf_total(history.leaf)
    return NO_TENSOR not in (before, added) and not tape.is_zero(before)


def _told(graph: BackwardGraph, tape: Tape, group: _Group, calls: Sequence[Related]) -> Finding:
    history = group.history
    names = [graph.leaves[leaf].name for leaf in group.leaves]
    earlier = {call.number: call for call in graph.columns.facts.earlier}
    fillers = [earlier[number] for number in history.filled_by if number in earlier]
    others = [call for call in fillers if calls and (call.file, call.line) != (calls[0].file, calls[0].line)]
    holds = f"{listed(names)} still {'holds' if len(names) == 1 else 'hold'}"
    size = _compared(tape, group.leaves)
    if history.stepped is None:
        message, hint = _micro_batches(holds, "it" if len(names) == 1 else "them", history, fillers, size)
        severity = "info"
    else:
        message, hint = _kept(holds, history, fillers, others, size)
        severity = "warning" if _surely_kept(graph, tape, group, others) or _never_cleared(history, fillers, others) else "info"
    related = [
        *(Related(call.file, call.line, f"backward call {call.number} filled it") for call in _last_of_each_line(fillers)),
        *at_origin(history.stepped, "the step that used it, after which it was kept"),
        *at_origin(history.zeroed, "cleared here the last time"),
    ]
    file, line = (calls[0].file, calls[0].line) if calls else ("", 0)
    node = graph.leaves[group.leaves[0]].node
    return Finding(KIND, severity, message, hint, node, graph.op(node), file, line, related=tuple(related), leaf=", ".join(names))


def _micro_batches(holds: str, them: str, history: LeafHistory, fillers: Sequence[EarlierCall], size: str) -> tuple[str, str]:
    """Several calls and no step of an optimizer between them: meant, for the most part, and then to be averaged."""
    count = len(history.filled_by) + history.unseen
    if history.written:
        message = f"{holds} the gradient of {_calls(count, fillers)} from before the last update of {them}: nothing cleared it"
        return (
            f"{message}, and this call adds to it{size}",
            "clear it once an iteration: w.grad = None, or w.grad.zero_(), after the update",
        )
    message = (
        f"{holds} the gradient of {_calls(count, fillers)}, and this one is added{size}: "
        f"{count + 1} calls are summed, not averaged"
    )
    hint = (
        f"with micro-batches divide each loss by their number (here {count + 1} so far) for the mean; "
        "where each call should stand alone, zero_grad() (or .grad = None) before it"
    )
    return message, hint


def _calls(count: int, fillers: Sequence[EarlierCall]) -> str:
    lines = sorted({call.line for call in fillers})
    where = f" (line {', '.join(map(str, lines))})" if lines else ""
    return f"{count} earlier call{'s' if count > 1 else ''}{where}"


def _kept(
    holds: str, history: LeafHistory, fillers: Sequence[EarlierCall], others: Sequence[EarlierCall], size: str
) -> tuple[str, str]:
    """A step came after it was filled, and it was not cleared."""
    assert history.stepped is not None
    step = f"{history.stepped_by + ' ' if history.stepped_by else ''}at {written(history.stepped)}"
    if others and not history.own_step:
        call = others[-1]
        what = f"what the call of line {call.line}{' (' + call.code + ')' if call.code else ''} left there for the step of {step}"
        hint = (
            "zero_grad() of the optimizer that owns it right before this call, and detach() what the other loss should not train"
        )
        return f"{holds} {what}, and this call adds to it{size}", hint
    count = len(history.filled_by) + history.unseen
    used = "that was used" if history.own_step else "from before the step"
    message = f"{holds} the gradient of {_calls(count, fillers)} {used} {'by' if history.own_step else 'of'} {step}: " + (
        f"nothing cleared it, and this call adds to it{size}"
    )
    return message, "zero_grad() once an iteration: before backward(), or right after step()"


def _surely_kept(graph: BackwardGraph, tape: Tape, group: _Group, others: Sequence[EarlierCall]) -> bool:
    """No doubt: this call trains the leaves of the group.

    Where it reaches leaves of another optimizer that are fresh, it trains those, and what else it reaches may well be cleared
    before it is used. The same holds beside leaves that wait for a step of their own, for those that have had theirs.
    """
    owners = {_optimizer(graph.leaves[leaf]) for leaf in group.leaves}
    if "" in owners:
        return False
    stale = {history.leaf: history for history in graph.columns.facts.histories if history.filled_by or history.unseen}
    waiting, fresh = set(), set()
    for place, leaf in enumerate(graph.reached):
        if leaf.owner and tape.leaf_total(place) != NO_TENSOR:
            if place not in stale:
                fresh.add(_optimizer(leaf))
            elif not stale[place].own_step:
                waiting.add(_optimizer(leaf))
    if group.history.own_step:
        return not (fresh | waiting) - owners
    return not fresh - owners and bool(others)


def _never_cleared(history: LeafHistory, fillers: Sequence[EarlierCall], others: Sequence[EarlierCall]) -> bool:
    """One line has filled it again and again, its own step has used the sum and nobody cleared it, whatever else is trained."""
    return history.own_step and history.written and not history.unseen and not others and len(fillers) > 1


def _optimizer(leaf: Leaf) -> str:
    """The owner without the parameter group."""
    return leaf.owner.rpartition("[")[0]


def _line(origin: Origin | None) -> tuple[str, int] | None:
    return None if origin is None else (origin.file, origin.line)


def _last_of_each_line(fillers: Sequence[EarlierCall]) -> list[EarlierCall]:
    return list({(call.file, call.line): call for call in fillers}.values())


def _compared(tape: Tape, leaves: Sequence[int]) -> str:
    """Sizes of old and new, and whether they pull the same way: |a + b|² = |a|² + |b|² + 2 a·b."""
    old = math.hypot(*(tape.norm(tape.leaf_before(leaf)) for leaf in leaves))
    new = math.hypot(*(tape.norm(tape.leaf_total(leaf)) for leaf in leaves))
    both = math.hypot(*(tape.norm(tape.leaf_after(leaf)) for leaf in leaves))
    if not (0 < old < math.inf and 0 < new < math.inf):
        return ""
    sizes = f" (norm {old:.3g} old, {new:.3g} new"
    if not both < math.inf or max(old, new) > 1e3 * min(old, new):  # the small one is lost in the difference of squares
        return f"{sizes})"
    cosine = max(-1.0, min(1.0, (both * both - old * old - new * new) / (2 * old * new)))
    return f"{sizes}, cosine {cosine:.2f})"
