"""Tensors that a node saved for its backward and that someone wrote into since: noticed by torch, or not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding
from gradscope.findings.place import at_node, at_origin, listed, name, tying_line, written
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.facts import Write
from gradscope.model.places import UNKNOWN, Origin
from gradscope.model.tape import Tape

KIND = "inplace-modified"
_TEXT = "modified by an inplace operation"
_LOOK = (
    "look for functions that end in _ (add_, relu_), for +=, x[...] = ..., inplace=True, and an optimizer's step() between the "
    "forward and this call"
)
_DETAILS = re.compile(
    r"\[[\w.]+ (\[[\d, ]*\])\](?:, which is output \d+ of ([\w:]+),)? is at version (\d+); expected version (\d+)"
)


def inplace(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """What torch's in-place error means, and writes that torch does not notice."""
    if failed_by_write(tape):
        yield _error(graph, tape)
    silent = [write for write in tape.columns.facts.writes if write.silent]
    for same in _by_writer(silent):
        if (step := tape.step_of(same[0].node)) and step <= tape.steps:
            yield _silent(graph, same)


def failed_by_write(tape: Tape) -> bool:
    """The pass ended because a saved tensor has been written into."""
    return tape.failure is not None and _TEXT in tape.failure.message


def _error(graph: BackwardGraph, tape: Tape) -> Finding:
    assert tape.failure is not None
    writes = [write for write in tape.columns.facts.writes if not write.silent]
    if not writes:
        return _unknown(graph, tape)
    node, same = writes[0].node, _by_writer(writes)[0]
    related = [place for write in same[:1] for place in at_origin(write.origin, f"writes into {_what(graph, write)}")]
    leaf = ", ".join(dict.fromkeys(graph.leaves[write.leaf].name for write in same if write.leaf != UNKNOWN))
    if _by_optimizer(same[0]):
        message, hint = _after_step(graph, same)
        related += at_origin(tying_line(graph), "carries the earlier graph into this one")
    else:
        message, hint = _after_write(graph, same)
    return at_node(graph, node, KIND, "error", message, hint, leaf=leaf, related=related)


def _by_writer(writes: Sequence[Write]) -> list[list[Write]]:
    """The writes of one node at one line together; those whose line is known first."""
    groups: dict[tuple[int, str, Origin | None], list[Write]] = {}
    for write in writes:
        groups.setdefault((write.node, write.function, write.origin), []).append(write)
    return sorted(groups.values(), key=lambda same: same[0].origin is None)


def _by_optimizer(write: Write) -> bool:
    return write.function.endswith(".step")


def _after_step(graph: BackwardGraph, same: Sequence[Write]) -> tuple[str, str]:
    """An optimizer changed the weights that a graph needs as they were: one kept from an earlier call, or one run too late."""
    write = same[0]
    where = written(write.origin) if write.origin is not None else f"{write.function}()"
    were, them = ("it was", "it") if len(same) == 1 else ("they were", "them")
    need = f"{name(graph, write.node)} needs {_names(graph, same)} as {were} before {where} changed {them}"
    if (bridge := tying_line(graph)) is None and not graph.columns.facts.old_nodes:
        return (
            f"{need}: the forward ran before that step, this call comes after it",
            "call backward() before step(), or run the forward again with the new weights",
        )
    carried = f" at {written(bridge)}" if bridge is not None else ""
    return (
        f"{need}: that node belongs to the retained graph of an earlier call",
        f"detach() what is carried over{carried} before the next forward, and leave retain_graph out: it keeps the old graph "
        "alive, not the old weights",
    )


def _after_write(graph: BackwardGraph, same: Sequence[Write]) -> tuple[str, str]:
    write = same[0]
    names, saved = _names(graph, same), f"{name(graph, write.node)} saved it for its backward"
    if write.origin is None:
        return f"{names} was changed in place after {saved}; which line did it is not known", f"{_LOOK}; {_hint(graph, write)}"
    message = f"{written(write.origin)} changes {names} in place{_called(write)}, but {saved}"
    if (function := _undeclared(graph, write)) is not None:
        return (
            f"{message}: {function} writes into its input without saying so",
            "call ctx.mark_dirty(input) in its forward before returning the input, or work on input.clone()",
        )
    return message, _hint(graph, write)


def _called(write: Write) -> str:
    """` with relu_`, where the line itself does not show it."""
    name = write.function.rpartition(".")[2]
    code = "" if write.origin is None else write.origin.code
    shown = not code or name.startswith("__") or name in code or re.search(r"[-+*/|&]=", code) is not None
    return "" if shown or not name else f" with {name}"


def _undeclared(graph: BackwardGraph, write: Write) -> str | None:
    """`AddInto.forward`, where the writer is the forward of a custom Function of this graph."""
    if write.origin is None or not write.origin.function.endswith(".forward"):
        return None
    owner = write.origin.function.rpartition(".")[0]
    bodies = (place for place in graph.columns.backward_code.values() if place.file == write.origin.file)
    return write.origin.function if any(place.function.rpartition(".")[0] == owner for place in bodies) else None


def _hint(graph: BackwardGraph, write: Write) -> str:
    name = write.function.rpartition(".")[2]
    module = write.origin.module_type if write.origin is not None else ""
    if name.rstrip("_") in ("relu", "dropout", "leaky_relu", "elu", "silu", "hardtanh", "threshold", "celu", "selu"):
        of = f" for {module}" if module and module[0].isupper() and name.rstrip("_") in module.lower() else ""
        return f"use the version that makes a new tensor (inplace=False{of}), or give it {_own_name(graph, write)}.clone()"
    if write.leaf != UNKNOWN:
        return f"change {_own_name(graph, write)} before the forward or after this call, not between the two"
    if write.saved == "result":
        return f"{graph.op(write.node)} keeps its own result: write into {_own_name(graph, write)}.clone(), or use torch.where"
    return f"write into {_own_name(graph, write)}.clone(), or make a new tensor (x = x + 1 instead of x += 1)"


def _own_name(graph: BackwardGraph, write: Write) -> str:
    name = _what(graph, write)
    return name if " " not in name else "a"


def _names(graph: BackwardGraph, same: Sequence[Write]) -> str:
    return listed(list(dict.fromkeys(_what(graph, write) for write in same)))


def _what(graph: BackwardGraph, write: Write) -> str:
    """The tensor as the person calls it, else what the node calls it."""
    if write.leaf != UNKNOWN:
        return graph.leaves[write.leaf].name
    origin = graph.origin(write.node)
    target = origin.target if origin is not None and write.saved == "result" else ""
    return write.name or target or _of_node(write.saved)


def _of_node(saved: str) -> str:
    if saved == "result":
        return "its own result"
    return f"its saved {saved}" if saved else "a tensor of its own"


def _unknown(graph: BackwardGraph, tape: Tape) -> Finding:
    """Nothing was observed but torch's text."""
    assert tape.failure is not None
    failure, details = tape.failure, _DETAILS.search(tape.failure.message)
    saved, versions = "a tensor", ""
    if details is not None:
        shape, maker, now, then = details.groups()
        made = f", made by {maker.rpartition(':')[2]}," if maker else ""
        saved = f"a tensor of shape {shape}{made}"
        versions = f" (saved at version {then}, now at {now})"
    written_since = f"saved {saved} that has been written into since{versions}; which line wrote it is not known"
    if failure.node == UNKNOWN:
        return Finding(KIND, "error", f"a node of this graph {written_since}", _LOOK)
    return at_node(graph, failure.node, KIND, "error", f"{name(graph, failure.node)} {written_since}", _LOOK)


def _silent(graph: BackwardGraph, same: Sequence[Write]) -> Finding:
    write = same[0]
    writer = written(write.origin) if write.origin is not None else "something"
    names = _names(graph, same)
    message = (
        f"{writer} changes {names} behind autograd's back, after {name(graph, write.node)} saved it: "
        "its gradient is computed from the new values, and is wrong without an error"
    )
    hint = f"do not write through .data or detach(); {_hint(graph, write)}"
    related = [*at_origin(write.origin, f"writes into {names}")]
    leaf = ", ".join(dict.fromkeys(graph.leaves[one.leaf].name for one in same if one.leaf != UNKNOWN))
    return at_node(graph, write.node, "silent-mutation", "warning", message, hint, leaf=leaf, related=related)
