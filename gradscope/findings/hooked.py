"""What hooks that run after a node made of what it sends: those of modules, and those registered on the node."""

from __future__ import annotations

from collections.abc import Collection

from gradscope.model.backward_graph import ACCUMULATE, BackwardGraph
from gradscope.model.columns import Hook, HookEffect
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

SENDING = ("post", "module", "module_pre")
"""kinds of hooks that change what a node sends"""


def after_step(graph: BackwardGraph, tape: Tape) -> dict[int, list[tuple[Hook, HookEffect]]]:
    """By step, the hooks after its node that changed something, in the order in which they ran."""
    found: dict[int, list[tuple[Hook, HookEffect]]] = {}
    for effect in tape.columns.hook_effects:
        hook = graph.columns.hooks[effect.hook]
        if effect.before != effect.after and hook.kind in (*SENDING, "accumulate"):
            found.setdefault(effect.step, []).append((hook, effect))
    return found


def before_step(graph: BackwardGraph, tape: Tape) -> dict[int, list[Hook]]:
    """By step, the hooks that changed what arrives at its node, in the order in which they ran."""
    found: dict[int, list[Hook]] = {}
    for effect in tape.columns.hook_effects:
        hook = graph.columns.hooks[effect.hook]
        if effect.before != effect.after and hook.kind in ("tensor", "pre"):
            found.setdefault(effect.step, []).append(hook)
    return found


def late(graph: BackwardGraph, tape: Tape, node: int) -> list[Hook]:
    """The hooks that an explored pass leaves out, and that run in the script's own call: those on AccumulateGrad and after it."""
    if tape.kind != "explored" or graph.op(node) != ACCUMULATE:
        return []
    return [hook for _, hook in graph.hooks_of(node) if hook.kind in ("pre", "post", "accumulate")]


def who_made(graph: BackwardGraph, tape: Tape, step: int, kind: Collection[int]) -> Hook | None:
    """The hook that made a tensor of these (say, those that hold NaN) out of one that is not, in what a step sends."""
    for hook, effect in after_step(graph, tape).get(step, ()):
        if hook.kind in SENDING and effect.after in kind and effect.before != NO_TENSOR and effect.before not in kind:
            return hook
    return None


def spoken(hook: Hook) -> str:
    """`clip (/home/ada/a.py:3)`."""
    return hook.name if hook.place is None else f"{hook.name} ({hook.place.file}:{hook.place.line})"
