"""Reads of `.grad` of a tensor that keeps none, since it is no leaf."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.findings.finding import Finding
from gradscope.findings.place import at_origin, written
from gradscope.model.facts import GradRead

KIND = "nonleaf-grad"


def nonleaf_grad(read: GradRead) -> Iterator[Finding]:
    """`.grad` of a non-leaf is None whatever came by: where it came by, how large it was, and where it went."""
    name = read.name or "the tensor"
    here = read.origin.file if read.origin else ""
    made = f"made at {written(read.made, here)}" if read.made else f"made by {read.op}" if read.op else "made of other tensors"
    message = f"{name}.grad is None: {name} is no leaf but {made}, and a tensor made of others keeps no gradient{_passed(read)}"
    related = (*at_origin(read.made, f"makes {name}"), *at_origin(read.leaf_origin, f"makes {read.leaf}, the leaf"))
    yield Finding(
        KIND,
        "warning" if read.calls_before else "info",
        message,
        _hint(read, name),
        node=read.node,
        op=read.op,
        file=read.origin.file if read.origin else "",
        line=read.origin.line if read.origin else 0,
        related=related,
        leaf=read.name,
        value=read.norm,
        call=read.call,
    )


def _passed(read: GradRead) -> str:
    """What is known of the gradient that is missed."""
    if not read.calls_before:
        return "; and no backward call has run yet"
    passed = "" if read.norm is None else f"; a gradient of norm {read.norm:.3g} passed there in backward call {read.call}"
    if read.leaf:
        unnamed = read.leaf.startswith("leaf ")
        passed += f"; it went on to {'the leaf that it was made of, which has no name' if unnamed else f'the leaf {read.leaf}'}"
    return passed


def _hint(read: GradRead, name: str) -> str:
    keep = f"{name}.retain_grad() before backward() keeps it"
    if read.leaf:
        return (
            f"cast, move or reshape first and make that the leaf: {name} = ....to(...).requires_grad_(); or {keep}, or read the "
            f"leaf's .grad"
        )
    if read.made is not None and "requires_grad" in read.made.code:  # w = torch.randn(3, requires_grad=True) * 0.1
        result = f"compute first and make the result the leaf: {name} = (...).requires_grad_(), with no requires_grad inside"
        return f"{result}; or {keep}"
    return f"{keep}; or torch.autograd.grad(loss, {name}) returns it"
