"""Tensors that autograd, or what else was called, does not take as they are: inference tensors, non-leaves, integers."""

from __future__ import annotations

import re

from gradscope.findings.error_texts import called, found, line, name, pick, target
from gradscope.findings.finding import Finding
from gradscope.model.facts import ErrorFacts


def inference_saved(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: one.inference)
    return found(
        facts,
        f"{name(tensor)} was made under torch.inference_mode(), and {called(facts)} would have to keep it for the backward pass, "
        "which such tensors do not allow",
        f"make it under torch.no_grad() instead of inference_mode, or use {name(tensor, 'it')}.clone()",
        tensor=tensor,
    )


def inference_asked(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: one.inference) or target(facts)
    return found(
        facts,
        f"{name(tensor)} was made under torch.inference_mode() and can never require a gradient: {line(facts)} asks for one",
        f"use {name(tensor, 'it')}.clone().requires_grad_(), or make it under torch.no_grad()",
        tensor=tensor,
    )


def to_numpy(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: one.requires_grad and one.role != "inside", lambda one: one.requires_grad)
    by_method = facts.site is not None and facts.site.expression.endswith(".numpy()")
    it = facts.receiver if by_method and facts.receiver else name(tensor)
    it = it if it.isidentifier() or by_method is False or "." in it else f"({it})"
    return found(
        facts,
        f"{it} requires a gradient, and {line(facts)} turns it into numpy, which no gradient gets through",
        f"for a look at the values: {it if it != 'a tensor' else 'x'}.detach().numpy(); where the result goes into the loss, "
        "compute it with torch instead",
        tensor=tensor,
    )


def copied(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: one.role == "inside" and not one.leaf, lambda one: not one.leaf)
    made = f" (made by {tensor.op})" if tensor is not None and tensor.op else ""
    it = name(tensor, "a tensor in it")
    return found(
        facts,
        f"{it} is the result of a computation{made}, not a leaf, and {line(facts)} would have to copy the graph behind it",
        f"copy {name(tensor, 'x')}.detach().clone(); of a module, keep no computed tensor as an attribute over the copy "
        "(self.hidden = h.detach(), or delete it)",
        tensor=tensor,
    )


def sent_away(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: not one.leaf)
    return found(
        facts,
        f"{name(tensor)} has a graph behind it, and {line(facts)} sends it to another process, where no graph can follow",
        f"send {name(tensor, 'x')}.detach()",
        tensor=tensor,
    )


def no_dtype_for_gradients(facts: ErrorFacts) -> Finding:
    tensor = pick(facts, lambda one: bool(one.dtype) and not _real(one.dtype))
    what = f"{name(tensor)} is of dtype {tensor.dtype}" if tensor is not None and tensor.name else "the tensor is of integers"
    return found(
        facts,
        f"{what}, and {line(facts)} asks for its gradient: only floating point and complex tensors have one",
        "make it floating point: torch.tensor([1., 2.]), or x.float() before requires_grad_()",
        tensor=tensor,
    )


def flag_of_non_leaf(facts: ErrorFacts) -> Finding:
    tensor = target(facts) or pick(facts, lambda one: not one.leaf)
    return found(
        facts,
        f"{name(tensor)} is the result of a computation, and {line(facts)} sets its requires_grad: only a leaf's can be set",
        f"to go on without its graph use {name(tensor, 'x')}.detach()",
        tensor=tensor,
    )


def hook_without_gradient(facts: ErrorFacts) -> Finding:
    tensor = target(facts) or pick(facts, lambda one: not one.requires_grad)
    return found(
        facts,
        f"no gradient will reach {name(tensor)}, which requires none, so {line(facts)} has nothing to wait for",
        "its inputs must require a gradient and the graph must not be cut before it: no_grad, detach(), .data, an integer dtype",
        tensor=tensor,
    )


def no_gradient_there(facts: ErrorFacts) -> Finding | None:
    """The line reads a `.grad` that is None."""
    site = facts.site
    if site is None or "NoneType" not in facts.message or facts.type not in ("AttributeError", "TypeError"):
        return None
    tensor = pick(
        facts, lambda one: one.role != "inside" and one.gradient == "none" and bool(one.name) and f"{one.name}.grad" in site.code
    )
    if tensor is None:
        return None
    if not tensor.leaf:
        return found(
            facts,
            f"{tensor.name}.grad is None at {line(facts)}: {tensor.name} is the result of a computation, and only leaves keep "
            "their gradient",
            f"if it was meant to stay a leaf, update it in place under torch.no_grad() ({tensor.name} -= …) instead of binding "
            f"the name to a new tensor; to read the gradient of a result call {tensor.name}.retain_grad() before the backward",
            kind="nonleaf-grad",
            tensor=tensor,
        )
    if not tensor.requires_grad:
        why, hint = "it does not require one", f"make it require one before the forward: {tensor.name}.requires_grad_()"
    else:
        why = "no backward pass has reached it since it was made or cleared"
        hint = "call backward() before, on a loss that it goes into; zero_grad() sets .grad to None"
    message = f"{tensor.name}.grad is None at {line(facts)}: {tensor.name} got no gradient, as {why}"
    return found(facts, message, hint, kind="missing-gradient", tensor=tensor)


def parameter_bound_anew(facts: ErrorFacts) -> Finding | None:
    """`layer.weight = layer.weight * 2`."""
    named = re.search(r"as parameter '([^']+)'", facts.message)
    if named is None:
        return None
    return found(
        facts,
        f"{line(facts)} gives the parameter {named[1]} a plain tensor: a module takes a Parameter there, and one that is "
        "computed anew would be no leaf for the optimizer",
        f"to change its value: with torch.no_grad(): layer.{named[1]}.copy_(…); to compute with another weight in the forward: "
        "torch.func.functional_call, or torch.nn.utils.parametrize",
    )


def no_derivative(facts: ErrorFacts) -> Finding:
    function = re.search(r"(?:derivative for|for) '?(?:aten::)?([\w.]+)'?", facts.message)
    what = function[1] if function else "a function"
    return found(
        facts,
        f"{called(facts)} calls {what}, which has no derivative, on a tensor that requires a gradient",
        "detach its input if no gradient should go through it; else replace the function by one that has a derivative",
        tensor=pick(facts, lambda one: one.requires_grad),
    )


def _real(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat", "complex"))
