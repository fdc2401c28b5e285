"""Where NaN and infinity come from: the first place in engine order where finite gradients become non-finite."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradscope.findings.finding import Finding, Related
from gradscope.findings.hooked import spoken, who_made
from gradscope.findings.place import at_node, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Hook
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import KNOWN_COUNTS, NO_TENSOR

KIND = "nonfinite-origin"
_HINT = (
    "its derivative is infinite or undefined at the value it had in the forward; keep the input away from there "
    "(clamp, eps) before the call: a where() after it does not help, since 0 times infinity is NaN"
)

_PRODUCTS = ("Mul", "Mm", "Addmm", "Bmm", "Baddbmm", "Mv", "Addmv", "Dot", "Linear", "Convolution", "Einsum")
_FACTOR = (
    "it multiplies with the other factor, which was infinite or NaN in the forward, or the product overflows its dtype: look at "
    "what goes into that line (torch.isfinite(x).all()); a mask that multiplies by 0 makes NaN of it, torch.where leaves it out"
)


def origins(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """The first step that makes a non-finite gradient out of finite ones."""
    bad = nonfinite_tensors(tape)
    if (failed := _refused(graph, tape)) is not None and not _suspects(tape, bad):
        yield failed
    for step in _suspects(tape, bad):
        node = tape.node_at(step)
        arrived = [tensor for _, tensor in tape.arrivals(node) if tensor != NO_TENSOR]
        if any(tensor in bad for tensor in arrived):
            if (found := _in_the_sum(graph, tape, node, bad)) is not None:
                yield found
                return
            continue
        sent = next((one for one in tape.sent_by(step) if one.tensor in bad), None)
        if sent is not None:
            hook = who_made(graph, tape, step, bad)
            origin = _origin(graph, tape, node, sent.tensor, graph.target[sent.edge])
            yield origin if hook is None else _by_hook(graph, tape, node, sent.tensor, hook)
            return


def nonfinite_tensors(tape: Tape) -> set[int]:
    """Numbers of the gradients that hold NaN or infinity."""
    if "nonfinite" not in tape.derived:
        table = tape.tensors
        counts = enumerate(zip(table.nan, table.inf, table.known, strict=True))
        tape.derived["nonfinite"] = {tensor for tensor, (nan, inf, known) in counts if (nan or inf) and known & KNOWN_COUNTS}
    found: set[int] = tape.derived["nonfinite"]
    return found


def _refused(graph: BackwardGraph, tape: Tape) -> Finding | None:
    """Anomaly mode ended the pass at the first node that returned NaN."""
    failure = tape.failure
    if failure is None or failure.node == UNKNOWN or "returned nan values" not in failure.message:
        return None
    message = f"{name(graph, failure.node)} makes NaN out of a finite gradient, and anomaly mode ends the pass there"
    return at_node(graph, failure.node, KIND, "error", message, _HINT, value=math.nan)


def _suspects(tape: Tape, bad: set[int]) -> list[int]:
    """Steps at which something non-finite arrives or is sent, in engine order."""
    steps = {step for step, tensor in zip(tape.arrival_step, tape.arrival_tensor, strict=True) if tensor in bad}
    steps |= {step for step, tensor in zip(tape.contribution_step, tape.contribution_tensor, strict=True) if tensor in bad}
    return sorted(steps - {0})


def bad_seeds(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Seeds that are not finite."""
    bad = nonfinite_tensors(tape)
    for seed in tape.seeds:
        if seed.tensor in bad:
            node, _ = tape.seed_slot(seed.root)
            index, value = first_bad(tape, seed.tensor)
            message = f"the seed of {graph.roots[seed.root].name} holds {_word(tape, seed.tensor)}"
            hint = "give a finite gradient= : every gradient of this pass is a multiple of it"
            yield at_node(graph, node, KIND, "error", message, hint, index=index, value=value)


def _origin(graph: BackwardGraph, tape: Tape, node: int, tensor: int, target: int) -> Finding:
    index, value = first_bad(tape, tensor)
    where = f" at {list(index)}" if index else ""
    message = (
        f"{name(graph, node)} makes {_word(tape, tensor)}{where} out of a finite gradient, and sends it to {name(graph, target)}"
        f"{_why(tape, node, index, value)}{_later(graph, tape, node, tensor)}"
    )
    hint = _FACTOR if graph.short(node) in _PRODUCTS else _HINT
    return at_node(graph, node, KIND, "error", message, hint, index=index, value=value)


def _why(tape: Tape, node: int, index: tuple[int, ...] | None, value: float | None) -> str:
    """Zero times an infinite slope is NaN: the branch was not even used. What it had in the forward says more, where known."""
    known = next((bad for bad in tape.columns.facts.forward if bad.node == node), None)
    cause = f" (in the forward {known.cause})" if known is not None and known.cause else ""
    arrived = tape.arrivals(node)
    values = tape.tensors.values(arrived[0][1]) if len(arrived) == 1 and arrived[0][1] != NO_TENSOR else None
    if index is None or values is None or value is None or not math.isnan(value):
        return cause
    came = values[_place(index, tape.tensors.shape(arrived[0][1]))] if len(index) == len(tape.tensors.shape(arrived[0][1])) else 1
    return f": a zero arrives there, and zero times its infinite slope is NaN{cause}" if came == 0 else cause


def _later(graph: BackwardGraph, tape: Tape, node: int, tensor: int) -> str:
    """An infinity is turned into NaN by the next node that multiplies it with zero."""
    if tape.tensors.nan[tensor]:
        return ""
    for step in range(tape.step_of(node) + 1, tape.ran + 1):
        if any(tape.has_nan(one.tensor) for one in tape.sent_by(step)):
            return f"; {name(graph, tape.node_at(step))} then makes NaN of it"
    return ""


def _by_hook(graph: BackwardGraph, tape: Tape, node: int, tensor: int, hook: Hook) -> Finding:
    index, value = first_bad(tape, tensor)
    message = f"a hook makes {_word(tape, tensor)} in what {name(graph, node)} sends"
    related = [Related(hook.place.file, hook.place.line, "the hook")] if hook.place is not None else []
    hint = f"look at the hook {spoken(hook)}"
    return at_node(graph, node, KIND, "error", message, hint, related=related, index=index, value=value)


def _in_the_sum(graph: BackwardGraph, tape: Tape, node: int, bad: set[int]) -> Finding | None:
    """Something non-finite arrives although every contribution is finite: the sum overflowed, or a hook did it."""
    for input_nr, tensor in tape.arrivals(node):
        contributions = tape.to(node, input_nr)
        if tensor not in bad or any(one.tensor in bad for one in contributions):
            continue
        hooked = tape.step_of(node) in tape.columns.hook_changed
        made = "a hook makes" if hooked else f"the sum of {len(contributions)} finite contributions is"
        index, value = first_bad(tape, tensor)
        message = f"{made} {_word(tape, tensor)} in what arrives at {name(graph, node)}"
        hint = "look at the hook" if hooked else "the sum overflows its dtype: scale the loss down, or accumulate in float32"
        return at_node(graph, node, KIND, "error", message, hint, index=index, value=value)
    return None


def _word(tape: Tape, tensor: int) -> str:
    """`NaN`, `inf`, `NaN in 3 of 8 elements`."""
    table = tape.tensors
    count, word = (table.nan[tensor], "NaN") if table.nan[tensor] else (table.inf[tensor], "inf")
    numel = table.numel(tensor)
    return word if numel == 1 else f"{word} in {count} of {numel} elements"


def first_bad(tape: Tape, tensor: int) -> tuple[tuple[int, ...] | None, float | None]:
    """Index and value of the first NaN, else of the first infinity; (None, NaN or inf) when the values were not recorded."""
    table = tape.tensors
    has_nan = table.nan[tensor] > 0
    values = table.values(tensor)
    if values is None:
        return None, math.nan if has_nan else math.inf
    for place, value in enumerate(values):
        if isinstance(value, float) and (math.isnan(value) if has_nan else math.isinf(value)):
            return _unravel(place, table.shape(tensor)), value
    return None, None


def _unravel(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for extent in reversed(shape):
        place, within = divmod(place, extent)
        index.append(within)
    return tuple(reversed(index))


def _place(index: tuple[int, ...], shape: tuple[int, ...]) -> int:
    place = 0
    for within, extent in zip(index, shape, strict=True):
        place = place * extent + within
    return place
