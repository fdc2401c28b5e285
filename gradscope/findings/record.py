"""What the record itself says: sums that do not agree with the engine, gradients that a hook changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.findings.hooked import SENDING, after_step, before_step, spoken
from gradscope.findings.place import at_node, foreign_places, listed, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Hook, HookEffect
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

_OF_MODULES = {"module": "a module's backward hook", "module_pre": "a module's backward pre-hook"}


def not_exact(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Places where what was recorded is not what the engine handed on."""
    hint = "what gradscope shows there is not what torch computed: please report it with the script"
    for mismatch in tape.columns.mismatches:
        if mismatch.node == UNKNOWN:
            yield Finding("not-exact", "error", f"the record is not exact: {mismatch.what}", hint)
        else:
            message = f"the record is not exact at {name(graph, mismatch.node)}: {mismatch.what}"
            yield at_node(graph, mismatch.node, "not-exact", "error", message, hint)


def hook_changed(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Gradients that a hook of the person's replaced or edited: before they arrived, or when they were sent."""
    arriving = before_step(graph, tape)
    for step in tape.columns.hook_changed:
        yield _changed_before(graph, tape, tape.node_at(step), list(dict.fromkeys(arriving.get(step, ()))))
    for step, changed in after_step(graph, tape).items():
        for sending in (True, False):
            told = [one for one in changed if (one[0].kind in SENDING) == sending and (sending or not _put_away(tape, one[1]))]
            if told:
                yield _changed_after(graph, tape, tape.node_at(step), told)


def _changed_before(graph: BackwardGraph, tape: Tape, node: int, hooks: Sequence[Hook]) -> Finding:
    """What the hooks of a node did to what arrives there."""
    before, after = _sum_and_result(tape, node)
    who, verb = (f"{len(hooks)} hooks", "change") if len(hooks) > 1 else ("a hook", "changes")
    what = f"the gradient that arrives at {name(graph, node)}"
    every = graph.columns.foreign.get(node, "")
    runs = f"runs in each backward pass: {every}" if every else ""
    # without hooks, which of them did it was not recorded
    hint, related = (_hint(hooks), _places(hooks)) if hooks else (runs, foreign_places(every, "the hook"))
    if hidden := _hidden(tape, before, after):
        who = listed([spoken(hook) for hook in hooks]) if hooks else who
        return _hides(graph, node, who, hidden, what, related)
    message = f"{who} {verb} {what}{_norms(tape, before, after) if NO_TENSOR not in (before, after) else ''}"
    return at_node(graph, node, "hook-changed", "info", message, hint, related=related)


def _hides(graph: BackwardGraph, node: int, who: str, hidden: str, what: str, related: Sequence[Related]) -> Finding:
    message = f"{who} hides {hidden} in {what}: the fault is still there, and what was replaced never trains"
    hint = "find where it is born (the finding that says so) and cure it there; the hook only covers it"
    return at_node(graph, node, "hook-changed", "warning", message, hint, related=related)


def _hidden(tape: Tape, before: int, after: int) -> str:
    """`NaN in 1 of 3 elements`, where there was one before the hook and there is none after it."""
    if NO_TENSOR in (before, after):
        return ""
    table = tape.tensors
    for word, counts, has in (("NaN", table.nan, tape.has_nan), ("infinity", table.inf, tape.has_inf)):
        if has(before) and not tape.has_nan(after) and not tape.has_inf(after):
            return f"{word} in {counts[before]} of {table.numel(before)} elements"
    return ""


def _changed_after(graph: BackwardGraph, tape: Tape, node: int, changed: Sequence[tuple[Hook, HookEffect]]) -> Finding:
    """What the hooks after a node did to what it sends; of a leaf, to its `.grad`."""
    hooks = list(dict.fromkeys(hook for hook, _ in changed))
    slot = changed[0][1].slot
    effects = [effect for _, effect in changed if effect.slot == slot]
    who = _OF_MODULES.get(hooks[0].kind, "a hook")
    who, verb = (f"{len(hooks)} hooks", "change") if len(hooks) > 1 else (who, "changes")
    what = "what {} sends" if hooks[0].kind in SENDING else "the .grad of {} once the pass has added to it"
    what = what.format(name(graph, node))
    if hidden := _hidden(tape, effects[0].before, effects[-1].after):
        return _hides(graph, node, listed([spoken(hook) for hook in hooks]), hidden, what, _places(hooks))
    message = f"{who} {verb} {what}{_norms(tape, effects[0].before, effects[-1].after)}"
    return at_node(graph, node, "hook-changed", "info", message, _hint(hooks), related=_places(hooks))


def _hint(hooks: Sequence[Hook]) -> str:
    return f"{listed([spoken(hook) for hook in hooks])} {'runs' if len(hooks) == 1 else 'run'} in each backward pass"


def _places(hooks: Sequence[Hook]) -> list[Related]:
    return [Related(hook.place.file, hook.place.line, "the hook") for hook in hooks if hook.place is not None]


def _put_away(tape: Tape, effect: HookEffect) -> bool:
    """An optimizer that runs in the backward pass uses the gradient, then sets it to None or to zero."""
    return NO_TENSOR in (effect.before, effect.after) or tape.is_zero(effect.after)


def _sum_and_result(tape: Tape, node: int) -> tuple[int, int]:
    """The sum of what was delivered to the slot that a hook changed, and what it made of it."""
    for input_nr, tensor in tape.arrivals(node):
        contributions = tape.to(node, input_nr)
        before = contributions[-1].so_far if contributions else NO_TENSOR
        if NO_TENSOR not in (tensor, before) and tensor != before:
            return before, tensor
    return NO_TENSOR, NO_TENSOR


def _norms(tape: Tape, before: int, after: int) -> str:
    if before == NO_TENSOR:
        return ": there was none before it"
    if after == NO_TENSOR:
        return f": norm {tape.norm(before):.3g} before it, none after"
    return f": norm {tape.norm(before):.3g} before it, {tape.norm(after):.3g} after"
