"""Custom Functions that break a rule of torch's: they write into what they were lent, or return what does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import at_node, at_origin, listed, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.facts import Mutated
from gradscope.model.places import CodePlace
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

KIND = "custom-function"
_NUMBER = re.compile(r"returned an incorrect number of gradients \(expected (\d+), got (\d+)\)")
_SHAPE = re.compile(
    r"returned an invalid gradient at index (\d+) - got (\[[^\]]*\]) but expected shape compatible with (\[[^\]]*\])"
)


def custom(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """What a custom backward did in this pass."""
    for mutated in tape.columns.facts.mutated:
        yield _mutated(graph, tape, mutated)
    if (wrong := _wrong_result(graph, tape)) is not None:
        yield wrong
    yield from _nothing_sent(graph, tape)


def returned_wrong(graph: BackwardGraph, tape: Tape) -> bool:
    """The pass ended because torch refused what a custom backward returned."""
    failure = tape.failure
    if failure is None or failure.node not in graph.columns.backward_code:
        return False
    return _NUMBER.search(failure.message) is not None or _SHAPE.search(failure.message) is not None


def _mutated(graph: BackwardGraph, tape: Tape, mutated: Mutated) -> Finding:
    node, code = mutated.node, graph.columns.backward_code.get(mutated.node)
    siblings = listed([name(graph, one) for one in mutated.others]) or _siblings(graph, tape, node)
    if mutated.hook:
        return _edited_by_hook(graph, mutated, siblings)
    harm = f", and {siblings} gets the changed one" if siblings else ", which other branches of the graph may be using too"
    message = f"the backward of {name(graph, node)} writes into the gradient that it was given{harm}"
    hint = "return a new tensor instead (grad * 0.5 instead of grad.mul_(0.5)), or write into grad.clone()"
    what = "writes into the gradient"
    related = at_origin(mutated.origin, what) if mutated.origin is not None else _body(code, what)
    return at_node(graph, node, KIND, "warning", message, hint, related=related)


def _edited_by_hook(graph: BackwardGraph, mutated: Mutated, siblings: str) -> Finding:
    message = f"a hook writes into the gradient that arrives at {name(graph, mutated.node)}, and {siblings} gets the changed one"
    hint = "return a new tensor from the hook (grad * 0.5 instead of grad.mul_(0.5)): other branches may be given the same one"
    related = [] if mutated.origin is None else at_origin(mutated.origin, "the hook")
    return at_node(graph, mutated.node, "hook-changed", "warning", message, hint, related=related)


def _siblings(graph: BackwardGraph, tape: Tape, node: int) -> str:
    """Other nodes that were sent the very tensor."""
    arrived = {tensor for _, tensor in tape.arrivals(node) if tensor != NO_TENSOR}
    senders = {graph.source[edge] for edge in graph.in_edges(node)}
    others = {
        one.edge
        for sender in senders
        for one in tape.sent_by(tape.step_of(sender))
        if one.tensor in arrived and graph.target[one.edge] != node
    }
    return listed([name(graph, graph.target[edge]) for edge in sorted(others)])


def _body(code: CodePlace | None, what: str) -> tuple[Related, ...]:
    return () if code is None else (Related(code.file, code.line, what),)


def _wrong_result(graph: BackwardGraph, tape: Tape) -> Finding | None:
    if not returned_wrong(graph, tape):
        return None
    assert tape.failure is not None
    node, text = tape.failure.node, tape.failure.message
    if (number := _NUMBER.search(text)) is not None:
        gradients = "gradient" if number[2] == "1" else "gradients"
        wrong = f"returns {number[2]} {gradients} where its forward took {number[1]} inputs"
        hint = "return one gradient for each input of forward (ctx apart) in the same order, None for those that are no tensors"
    else:
        shape = _SHAPE.search(text)
        assert shape is not None
        wrong = f"returns a gradient of shape {shape[2]} for its input {shape[1]}, which has shape {shape[3]}"
        hint = "a gradient has the shape of its input: sum over what the forward broadcast, transpose as it did"
    message = f"the backward of {name(graph, node)} {wrong}"
    return at_node(graph, node, KIND, "error", message, hint, related=_body(graph.columns.backward_code[node], "its backward"))


def _nothing_sent(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """None for an input that requires a gradient, though a gradient arrives."""
    for node, code in graph.columns.backward_code.items():
        step = tape.step_of(node)
        if not 0 < step <= tape.ran or all(tensor == NO_TENSOR for _, tensor in tape.arrivals(node)):
            continue
        slots = [graph.slot[one.edge] for one in tape.sent_by(step) if one.tensor == NO_TENSOR]
        if slots:
            which = ", ".join(map(str, slots))
            message = f"the backward of {name(graph, node)} gives None for input {which}, which requires a gradient"
            hint = "return its gradient; where none is meant, detach the input before apply()"
            yield at_node(graph, node, KIND, "info", message, hint, related=_body(code, "its backward"))
