"""What sentences about an exception are made of: the line, the tensor at fault, and the finding itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.model.facts import ErrorFacts, TensorThere
from gradscope.model.places import CodePlace, Origin

Told = tuple[str, str, str]
"""kind, message and hint"""
Rule = Callable[[ErrorFacts], Finding | None]

OUTSIDE = "outside-backward"


def found(
    facts: ErrorFacts,
    message: str,
    hint: str,
    kind: str = OUTSIDE,
    tensor: TensorThere | None = None,
    related: Sequence[Related] = (),
) -> Finding:
    """The finding at the line that raised; the line that made the tensor at fault is the other place."""
    site = facts.site
    made = () if tensor is None or tensor.origin is None else (made_at(tensor),)
    return Finding(
        kind=kind,
        severity="error",
        message=message,
        hint=hint,
        op="" if tensor is None else tensor.op,
        file=site.file if site else "",
        line=site.line if site else 0,
        related=tuple(one for one in (*related, *made) if site is None or (one.file, one.line) != (site.file, site.line)),
        leaf=tensor.name if tensor is not None and tensor.leaf and tensor.requires_grad else "",
        call=facts.call,
    )


def made_at(tensor: TensorThere) -> Related:
    assert tensor.origin is not None
    return Related(tensor.origin.file, tensor.origin.line, f"{tensor.name or 'the tensor'} was made here")


def at(place: Origin | CodePlace | None) -> str:
    """` (train.py:17)`."""
    return "" if place is None else f" ({os.path.basename(place.file)}:{place.line})"


def line(facts: ErrorFacts) -> str:
    """The piece of code that raised, and where: "`w.add_(1)` (train.py:17)"."""
    site = facts.site
    if site is None:
        return "a line"
    code = site.expression or site.code
    return f"{code}{at(site)}" if code else f"line {site.line} of {os.path.basename(site.file)}"


def called(facts: ErrorFacts) -> str:
    """The module at work, else the line: `net.1 (ReLU) (train.py:17)`."""
    site = facts.site
    if site is not None and site.module_type and site.module:
        return f"{site.module} ({site.module_type}), called at {os.path.basename(site.file)}:{site.line},"
    return line(facts)


def pick(facts: ErrorFacts, *wanted: Callable[[TensorThere], bool]) -> TensorThere | None:
    """The tensor at fault: the first that is what is asked for; targets come first."""
    for test in wanted:
        for tensor in sorted(facts.tensors, key=lambda one: ("target", "argument", "inside").index(one.role)):
            if test(tensor):
                return tensor
    return None


def name(tensor: TensorThere | None, otherwise: str = "a tensor") -> str:
    return tensor.name if tensor is not None and tensor.name else otherwise


def target(facts: ErrorFacts) -> TensorThere | None:
    """What the line writes into, or calls a method of; a function's only tensor is that too."""
    aimed = [tensor for tensor in facts.tensors if tensor.role == "target"]
    given = [tensor for tensor in facts.tensors if tensor.role == "argument"]
    if aimed:
        return aimed[0]
    return given[0] if len(given) == 1 else None
