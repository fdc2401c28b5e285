"""Where a gradient becomes zero: a node that sends only zeros on, contributions that cancel, a seed of zeros."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.findings.hooked import spoken, who_made
from gradscope.findings.place import at_node, listed, name
from gradscope.model.backward_graph import BackwardGraph, short_op
from gradscope.model.tape import Tape
from gradscope.model.tensors import KNOWN_COUNTS, NO_TENSOR

KIND = "zero-gradient"
MOST = 3
"""So many places are told; a net that is dead throughout has one at each layer."""
_HOOK = "a hook"
_SATURATED = (
    "it is saturated: make what goes in smaller (scale, normalise, a smaller initialisation), or use a loss on the logits"
)
_CANCELS = (
    "look at the branches that meet there, which pull in opposite directions; a straight-through estimator needs a detach(): "
    "x + (f(x) - x).detach()"
)
CLIPPING = ("Clamp", "ClampMin", "ClampMax", "Hardtanh")
SATURATING = ("Sigmoid", "Tanh")
CLIPPED = 0.5
"""Told when such a function stops the gradient of at least this share of its elements."""


def zeros(graph: BackwardGraph, tape: Tape, calls: Sequence[Related] = ()) -> Iterator[Finding]:
    """What makes the whole gradient of some leaf zero, and functions that clip most of their elements."""
    zero = _zero_tensors(tape)
    seeds = list(_seeds(graph, tape, zero, calls))
    yield from seeds or _starving(graph, tape, zero)
    yield from _clipped(graph, tape)


def _starving(graph: BackwardGraph, tape: Tape, zero: set[int]) -> Iterator[Finding]:
    """The nodes at which the whole gradient of some leaf becomes zero; each leaf is told once."""
    told: set[int] = set()
    found = 0
    for step in _suspects(tape, zero):
        if found == MOST:
            return
        node = tape.node_at(step)
        message = _cancels(graph, tape, node, zero) or _stops(graph, tape, node, step, zero)
        leaves = _starved(graph, tape, node, zero) - told if message else set()
        if leaves:
            told |= leaves
            found += 1
            names = [graph.leaves[leaf].name for leaf in sorted(leaves)]
            whole = f"{message}; the gradient of {listed(names)} is zero"
            cancels = message.startswith("the ")
            hint = "look at the hook" if message.startswith(_HOOK) else _CANCELS if cancels else _hint(graph, node)
            # terms of a difference cancel in a bias that all of them share: that is right so
            severity = "info" if cancels and graph.leaf_at(node) is not None else "warning"
            yield at_node(graph, node, KIND, severity, whole, hint, leaf=", ".join(names))


def _zero_tensors(tape: Tape) -> set[int]:
    table = tape.tensors
    return {tensor for tensor, count in enumerate(table.zero) if count and tape.is_zero(tensor)}


def _suspects(tape: Tape, zero: set[int]) -> list[int]:
    """Steps that send zeros, or at which zeros arrive, in engine order."""
    steps = {step for step, tensor in zip(tape.contribution_step, tape.contribution_tensor, strict=True) if tensor in zero}
    steps |= {step for step, tensor in zip(tape.arrival_step, tape.arrival_tensor, strict=True) if tensor in zero}
    return sorted(steps - {0})


def _seeds(graph: BackwardGraph, tape: Tape, zero: set[int], calls: Sequence[Related]) -> Iterator[Finding]:
    given = [seed for seed in tape.seeds if seed.tensor != NO_TENSOR]
    if not given or not all(seed.tensor in zero for seed in given):
        return
    for seed in given:
        node, _ = tape.seed_slot(seed.root)
        message = f"the seed of {graph.roots[seed.root].name} is all zero, so every gradient of this pass is"
        hint = "give a gradient= that is not zero, in the root's dtype (an integer seed loses its fractions)"
        severity = "info" if _meant(tape, seed.expression) else "warning"
        yield at_node(graph, node, KIND, severity, message, hint, related=calls)


def _meant(tape: Tape, written: str) -> bool:
    """Whether a seed of zeros is no accident: torch's own (jvp and hvp differentiate such a pass), typed, or spelled out."""
    spelled_out = "zero" in written or (re.search(r"\b0", written) is not None and re.search(r"[1-9]", written) is None)
    return tape.edited or not written or spelled_out


def _stops(graph: BackwardGraph, tape: Tape, node: int, step: int, zero: set[int]) -> str:
    """Something that is not zero arrives, and all that is sent is zero."""
    arrived = [tensor for _, tensor in tape.arrivals(node) if tensor != NO_TENSOR]
    sent = [tape.contribution_tensor[index] for index in tape.sent_range(step)]
    defined = [tensor for tensor in sent if tensor != NO_TENSOR]
    if not defined or not all(tensor in zero for tensor in defined) or not any(_nonzero(tape, tensor) for tensor in arrived):
        return ""
    if (hook := who_made(graph, tape, step, zero)) is not None:
        return f"{_HOOK}, {spoken(hook)}, makes zero of what {name(graph, node)} sends"
    count = sum(tape.tensors.numel(tensor) - tape.tensors.zero[tensor] for tensor in arrived if _nonzero(tape, tensor))
    elements = f" ({count} element{'s' if count != 1 else ''} that {'are' if count != 1 else 'is'} not zero)"
    return f"{name(graph, node)} gets a gradient{elements} and sends only zeros on"


def _cancels(graph: BackwardGraph, tape: Tape, node: int, zero: set[int]) -> str:
    """Contributions that are not zero meet, and zero arrives."""
    for input_nr, tensor in tape.arrivals(node):
        if tensor not in zero:
            continue
        contributions = [one for one in tape.to(node, input_nr) if one.tensor != NO_TENSOR]
        if not any(_nonzero(tape, one.tensor) for one in contributions):
            continue
        if tape.step_of(node) in tape.columns.hook_changed:
            return f"{_HOOK} makes zero of what arrives at {name(graph, node)}"
        if len(contributions) > 1:
            return f"the {len(contributions)} contributions to {name(graph, node)} cancel exactly"
    return ""


def _nonzero(tape: Tape, tensor: int) -> bool:
    return tape.norm(tensor) > 0


def _starved(graph: BackwardGraph, tape: Tape, node: int, zero: set[int]) -> set[int]:
    """Leaves below the node to which nothing but zeros comes; not those where contributions of some other way cancel."""
    seen, todo = {node}, [node]
    while todo:
        for index in tape.sent_range(tape.step_of(todo.pop())):
            edge = tape.contribution_edge[index]
            target = graph.target[edge]
            if target not in seen and _only_zeros(tape, target, graph.input_nr[edge], zero):
                seen.add(target)
                todo.append(target)
    found = {leaf for one in seen for leaf in graph.leaves_at(one)}
    return {leaf for leaf in found if tape.leaf_total(leaf) in zero}


def _only_zeros(tape: Tape, node: int, input_nr: int, zero: set[int]) -> bool:
    tensors = (tape.contribution_tensor[index] for index in tape.indices_to(node, input_nr))
    return all(tensor == NO_TENSOR or tensor in zero for tensor in tensors)


def _clipped(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Functions that are flat for most of their elements."""
    wanted = {place for place, op in enumerate(graph.columns.ops) if short_op(op) in (*CLIPPING, *SATURATING)}
    if not wanted:
        return
    table = tape.tensors
    for step, node in enumerate(tape.step_node, 1):
        sent = tape.sent_range(step)
        if graph.op_index(node) not in wanted or not sent:
            continue
        before, after = tape.arrived_by_step[step], tape.contribution_tensor[sent[0]]
        if NO_TENSOR in (before, after) or not table.known[before] & table.known[after] & KNOWN_COUNTS:
            continue
        numel, stopped = table.numel(after), table.zero[after] - table.zero[before]
        if numel == table.numel(before) and CLIPPED * numel <= stopped < numel:
            yield _flat(graph, node, stopped, numel)


def _flat(graph: BackwardGraph, node: int, stopped: int, numel: int) -> Finding:
    if graph.short(node) in CLIPPING:
        why = "they lie outside its bounds"
        hint = "outside the bounds its slope is zero, so nothing pulls these values back; use a soft bound (tanh, softplus)"
    else:
        why = "they lie where it is flat"
        hint = _SATURATED
    message = f"{name(graph, node)} stops the gradient of {stopped} of {numel} elements: {why}"
    return at_node(graph, node, KIND, "info", message, hint)


def _hint(graph: BackwardGraph, node: int) -> str:
    op = graph.short(node)
    if op in ("Round", "Floor", "Ceil", "Sign", "Trunc"):
        return "its derivative is zero everywhere; a straight-through estimator is x + (f(x) - x).detach()"
    if op == "ThresholdBackward":
        return "ReLU is piecewise linear, with a second derivative of zero; use a smooth activation (tanh, softplus, silu)"
    if op in ("Softmax", "LogSoftmax") and 1 in (graph.shape(node) or ()):
        return "over a dimension of size 1 it is constant, whatever goes in: look at its dim, or use a sigmoid for one output"
    if op == "Embedding":
        return "every index that gets a gradient is padding_idx, whose row has none: look at the indices"
    if op in ("Sigmoid", "Tanh", "Softmax", "LogSoftmax"):
        return _SATURATED
    if op in ("Index", "Gather", "Select", "Slice", "MaskedFill", "Where", "MaskedSelect", "IndexSelect"):
        return "what it picks or masks leaves out every element that gets a gradient: look at the index or the mask"
    if op in ("Mul", "Div", "MulScalar"):
        return "the factor that it multiplies with is zero"
    if op in ("Mm", "Addmm", "Bmm", "Mv", "Dot", "Convolution"):
        return "what it multiplies with is zero: weights that start at zero, or an input of zeros"
    if op in ("Relu", "Threshold", "LeakyRelu", "Elu"):
        return "every unit is on the flat side: look at the bias and the weights before it (in a hinge loss all are right)"
    if op in CLIPPING:
        return "every element lies outside the bounds, where the slope is zero"
    return "zero is not None: the leaf is connected, but nothing comes through here"
