"""A backward of the person's own that raised, a hook whose result torch refuses, and seeds that are too few or too many."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from gradscope.findings.custom import returned_wrong
from gradscope.findings.finding import Finding, Related
from gradscope.findings.freed import failed_by_freeing
from gradscope.findings.inplace import failed_by_write
from gradscope.findings.place import at_node, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Hook
from gradscope.model.tape import Tape

_HOOK = re.compile(r"hook '(?P<name>.*)' has (?P<did>changed the \w+ of value|returned an incorrect object.*)", re.DOTALL)


_SEEDS = re.compile(r"got (\d+) tensors and (\d+) gradients")


def raised(graph: BackwardGraph, tape: Tape, calls: Sequence[Related] = ()) -> Iterator[Finding]:
    """The custom Function whose backward ended the pass; of torch's own nodes the exception itself says it best."""
    failure = tape.failure
    if failure is not None and (counts := _SEEDS.search(failure.message)) is not None:
        yield _miscounted(int(counts[1]), int(counts[2]), calls)
    if failure is not None and (said := _HOOK.search(failure.message)) is not None:
        yield _refused(graph, failure.node, said["name"], said["did"].splitlines()[0].replace("of value", "of the gradient"))
    if failure is None or failure.node not in graph.columns.backward_code:
        return
    if failed_by_write(tape) or failed_by_freeing(tape) or returned_wrong(graph, tape):  # rules of their own say more
        return
    code = graph.columns.backward_code[failure.node]
    file, line = (failure.file, failure.line) if failure.file else (code.file, code.line)
    message = f"{graph.op(failure.node)} raised {failure.type}: {failure.message} ({os.path.basename(file)}:{line})"
    hint = "nothing goes on from there: what lies behind it gets no gradient in this call"
    where = Related(file, line, "raised here" if failure.file else "its backward")
    yield at_node(graph, failure.node, "custom-function", "error", message, hint, related=(where,))


def _miscounted(roots: int, seeds: int, calls: Sequence[Related]) -> Finding:
    counts = f"{roots} root{'s' if roots != 1 else ''} and {seeds} seed{'s' if seeds != 1 else ''}"
    message = f"the call has {counts}: each root wants its own"
    hint = "give as many seeds as roots, in their order; None for a root that is a scalar"
    file, line = (calls[0].file, calls[0].line) if calls else ("", 0)
    return Finding("seed-mismatch", "error", message, hint, file=file, line=line)


def _refused(graph: BackwardGraph, node: int, called: str, did: str) -> Finding:
    """Torch takes no result of a hook that does not look like the gradient which the hook was given."""
    hooks = [hook for hook in graph.columns.hooks if hook.name.rpartition(".")[2] == called.rpartition(".")[2]]
    hook = next((one for one in hooks if one.node == node), hooks[0] if len(hooks) == 1 else None)
    place = None if hook is None else hook.place
    at = f" ({os.path.basename(place.file)}:{place.line})" if place is not None else ""
    message = f"the hook {called}{at} has {did}{_where(graph, node, hook)}, and torch refuses that"
    hint = "a hook returns None, or a new gradient of the shape, dtype and device of the one that it was given"
    related = () if place is None else (Related(place.file, place.line, "the hook"),)
    if hook is None and not 0 <= node < len(graph):
        return Finding("hook-changed", "error", message, hint)
    return at_node(graph, node if hook is None else hook.node, "hook-changed", "error", message, hint, related=related)


def _where(graph: BackwardGraph, node: int, hook: Hook | None) -> str:
    node = node if hook is None else hook.node
    return f" at {name(graph, node)}" if 0 <= node < len(graph) else ""
