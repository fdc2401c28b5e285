"""Backward calls that raised and were not looked at: torch's message says what, the line where; a stop there would say why."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from gradscope.findings.error_texts import OUTSIDE, found, line, name, pick
from gradscope.findings.finding import Finding
from gradscope.model.facts import ErrorFacts, TensorThere


def no_graph(facts: ErrorFacts) -> Finding:
    element = re.search(r"element (\d+)", facts.message)
    tensor = pick(facts, lambda one: not one.requires_grad and one.role != "inside", lambda one: not one.requires_grad)
    root = name(tensor, f"root {element[1]}" if element and element[1] != "0" else facts.receiver or "the tensor")
    return _found(
        facts,
        f"{root} has no graph behind it, so {line(facts)} has nothing to go back through",
        "the graph was cut before it (no_grad, detach(), .data, .item(), numpy, argmax or a comparison), or nothing that it is "
        "made of requires a gradient",
        "no-graph",
    )


def input_without_gradient(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: not one.requires_grad and one.role == "argument")
    finding = _found(
        facts,
        f"{line(facts)} asks for the gradient of {name(tensor)}, which requires none",
        f"call {name(tensor, 'x')}.requires_grad_() before the forward that uses it",
        "missing-gradient",
        tensor,
    )
    return replace(finding, leaf=name(tensor, ""))


def unused(facts: ErrorFacts) -> Finding:
    index = re.search(r"at index (\d+)", facts.message)
    asked = _input(facts.site.expression if facts.site else "", int(index[1])) if index else ""
    which = asked or (f"the tensor at index {index[1]} of its inputs" if index else "one of its inputs")
    finding = _found(
        facts,
        f"{line(facts)} asks for the gradient of {which}, and the result does not depend on it",
        "use the very tensor that the forward used (not a view, a copy or a new one made of it); allow_unused=True gives None "
        "instead of an error",
        "missing-gradient",
    )
    return replace(finding, leaf=asked)


def _input(call: str, index: int) -> str:
    """What is written at that place of the inputs: `b` of `torch.autograd.grad(y, (a, b))`; empty where that is not plain."""
    try:
        tree = ast.parse(call, mode="eval").body
    except SyntaxError:
        return ""
    if not isinstance(tree, ast.Call):
        return ""
    inputs = next((one.value for one in tree.keywords if one.arg == "inputs"), tree.args[1] if len(tree.args) > 1 else None)
    if isinstance(inputs, ast.Tuple | ast.List):
        plain = not any(isinstance(one, ast.Starred) for one in inputs.elts) and index < len(inputs.elts)
        return ast.unparse(inputs.elts[index]) if plain else ""
    return ast.unparse(inputs) if isinstance(inputs, ast.Name | ast.Attribute | ast.Subscript) and index == 0 else ""


def nonscalar(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: one.role == "target" and one.requires_grad and len(one.shape) > 0)
    shape = f" has shape {list(tensor.shape)}" if tensor is not None else " is no scalar"
    root = name(tensor, facts.receiver or "the root")
    return _found(
        facts,
        f"{root}{shape}, and {line(facts)} gives no seed for it: only a scalar has one by itself",
        "reduce it (mean, sum), or give a seed: backward(gradient=…) of the root's shape",
        "nonscalar-root",
    )


def seed(facts: ErrorFacts) -> Finding:
    message = f"the seed does not fit its root at {line(facts)}: {_first(facts)}"
    return _found(facts, message, "a seed has the shape, the dtype and the device of its root", "seed-mismatch")


def number_of_seeds(facts: ErrorFacts) -> Finding | None:
    """One seed a root is asked for."""
    said = re.search(r"got (\d+) tensors and (\d+) gradients", facts.message)
    if said is None:
        return None
    return _found(
        facts,
        f"{line(facts)} has {said[1]} root{'' if said[1] == '1' else 's'} and {said[2]} seed{'' if said[2] == '1' else 's'}: "
        "each root wants its own",
        "give as many seeds as roots, in their order; None for a root that is a scalar",
        "seed-mismatch",
    )


def freed(facts: ErrorFacts) -> Finding:
    return _found(
        facts,
        f"{line(facts)} goes back through a graph that an earlier backward call has gone through already, and freed",
        "what is kept from one iteration to the next ties their graphs together: detach() it there; for two passes over one "
        "graph sum the losses, or pass retain_graph=True to the first",
        "freed-graph",
    )


def modified(facts: ErrorFacts) -> Finding:
    return _found(
        facts,
        f"a tensor that the forward saved was written into before {line(facts)}: {_between(facts.message)}",
        "write into a copy, or after the backward: an optimizer step between the forward and its backward does that too",
        "inplace-modified",
    )


def recomputed(facts: ErrorFacts) -> Finding:
    return _found(
        facts,
        f"a checkpoint computed something else the second time, in {line(facts)}: {_first(facts)}",
        "what runs inside a checkpoint must do the same each time: no random choice of its own, no state that changes",
        "recompute-mismatch",
    )


def custom(facts: ErrorFacts) -> Finding:
    return _found(
        facts,
        f"a custom Function's backward does not give what its forward asks for, in {line(facts)}: {_first(facts)}",
        "backward returns one gradient for each input of forward, of that input's shape, and None for those without",
        "custom-function",
    )


def any_call(facts: ErrorFacts) -> Finding:
    """Whatever else a backward call raised."""
    return _found(facts, f"{line(facts)} raised {facts.type} in the backward pass: {_first(facts)}", "", OUTSIDE)


def _found(facts: ErrorFacts, message: str, hint: str, kind: str, tensor: TensorThere | None = None) -> Finding:
    look = f"gradscope --stop-at {facts.call} stops there, and shows the pass" if facts.call else ""
    return found(facts, message, "; ".join(part for part in (hint, look) if part), kind=kind, tensor=tensor)


def _first(facts: ErrorFacts) -> str:
    """The first sentence of torch's own words."""
    return " ".join(re.split(r"(?<=[a-z\])])\. |\n", facts.message, maxsplit=1)[0].split())


def _between(message: str) -> str:
    """What torch says of the tensor."""
    said = re.search(r"operation: (\[.*?\]), which is (.*?), is at version (\d+); expected version (\d+)", message)
    if said is None:
        return "its version is not the one that was saved"
    return f"{said[1]}, {said[2]}, was saved at version {said[4]} and is at version {said[3]}"
