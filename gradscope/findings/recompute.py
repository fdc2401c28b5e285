"""A checkpoint whose second run of the forward is not what the first was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import at_node, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape

KIND = "recompute-mismatch"
_METADATA = re.compile(
    r"position (\d+):\s*saved metadata: \{(.*?)\}\s*\n\s*recomputed metadata: \{(.*?)\}(?:\s*\n|\s*$)", re.DOTALL
)
_NUMBERS = re.compile(r"saved during forward: (\d+).*?recomputation: (\d+)", re.DOTALL)
_SHAPE = re.compile(r"torch\.Size\((\[[\d, ]*\])\)")
_DTYPE = re.compile(r"torch\.(\w+)(?=[,}]|$)")


def recompute(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """The node that asked for the second run, and what came out otherwise."""
    if not failed_by_recomputing(tape):
        return
    assert tape.failure is not None
    node = tape.failure.node
    differs = _difference(tape.failure.message)
    which = f"the checkpoint that {name(graph, node)} belongs to" if node != UNKNOWN else "a checkpoint"
    message = f"{which} ran its forward again, and {differs}"
    hint = (
        "what runs in a checkpoint must do the same twice: look there for attributes, counters, caches or random numbers that "
        "the first run changed, for autocast and for branches on values"
    )
    related = _around(graph, node)
    if node == UNKNOWN:
        yield Finding(KIND, "error", message, hint, related=tuple(related))
    else:
        yield at_node(graph, node, KIND, "error", message, hint, related=related)


def failed_by_recomputing(tape: Tape) -> bool:
    """The pass ended because a checkpoint's second forward differed."""
    failure = tape.failure
    if failure is None:
        return False
    return failure.type.rpartition(".")[2] == "CheckpointError" or "Recomputed values" in failure.message


def _difference(text: str) -> str:
    if (found := _METADATA.search(text)) is not None:
        _, was, now = found.groups()
        for pattern, noun in ((_SHAPE, "shape"), (_DTYPE, "dtype")):
            before, after = pattern.search(was), pattern.search(now)
            if before is not None and after is not None and before[1] != after[1]:
                return f"a tensor that had {noun} {before[1]} in the first run has {noun} {after[1]} in the second"
        return "tensors of the second run are of another kind than those of the first"
    if (found := _NUMBERS.search(text)) is not None:
        return f"the second run saves {found[2]} tensors where the first saved {found[1]}"
    return "the second run is not what the first was"


def _around(graph: BackwardGraph, node: int) -> Sequence[Related]:
    """The other lines of the function that the checkpoint ran: one of them does something else the second time."""
    own = graph.origin(node) if node != UNKNOWN else None
    if own is None:
        return []
    lines = {
        (origin.file, origin.line): Related(origin.file, origin.line, "runs again in the checkpoint")
        for origin in graph.columns.origins
        if (origin.file, origin.function, origin.module) == (own.file, own.function, own.module) and origin.line != own.line
    }
    return [lines[key] for key in sorted(lines)]
