"""Hooks that sit on a value which their tensor does not hold any more."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.findings.finding import Finding, Related
from gradscope.findings.hooked import spoken
from gradscope.findings.place import at_node, at_origin, name, written
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape

KIND = "stale-hook"


def stale_hooks(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Hooks that were registered before their tensor was written in place: they see the gradient of the value before it."""
    for one in graph.columns.facts.stale_hooks:
        hooks = [hook for _, hook in graph.hooks_of(one.node) if hook.kind == "tensor"]
        it, made = one.name or "its tensor", graph.origin(one.node)
        wrote = f"{written(one.origin, made.file if made else '')} wrote" if one.origin else "something wrote"
        who = ", ".join(spoken(hook) for hook in hooks) or "a hook"
        message = (
            f"{who} gets the gradient at {name(graph, one.node)}, not that of {it} as it is now: {wrote} into {it} after "
            f"register_hook(), and the hook stayed with the value before"
        )
        hint = f"register the hook after the last write into {it}, or make a new tensor instead of writing into {it}"
        where = [Related(hook.place.file, hook.place.line, "the hook") for hook in hooks if hook.place]
        related = (*where, *at_origin(one.origin, f"writes into {it}"))
        yield at_node(graph, one.node, KIND, "info", message, hint, related=related, leaf=one.name)
