"""Readable formulas, evaluated, against what torch's own nodes give: every kind of node of the zoo."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from derivative_tables import table
from evaluating import evaluate
from formula_zoo import Made, call, cases

from gradscope.model.derivatives import Entry
from gradscope.model.formula_nodes import NODES
from gradscope.model.formula_rules import HELPERS
from gradscope.model.formulas import written

CASES = cases()


@dataclass
class Checked:
    """A node's own answer, and its formulas."""

    op: str
    entry: Entry
    made: Made
    names: dict[str, Any]
    sent: tuple[Any, ...]


def ask(made: Made) -> Checked:
    """Call a node with random gradients."""
    entry = table()[made.node.name()]
    texts = " ".join(cpp for _, cpp in entry.derivatives)
    several = re.search(r"\bgrads\b(?!\[0\])|\bgrad_", texts) is not None and "grads[0].defined()" not in texts
    differentiable = [out for out in made.outputs if out.grad_fn is not None]
    grads = [
        torch.randn_like(out) if out.grad_fn is not None and (several or out is differentiable[0]) else None
        for out in made.outputs
    ]
    sent = made.node(*grads[: len(made.node._input_metadata)])
    names = {name: detached(value) for name, value in made.names.items()}
    if "indices" in names and isinstance(names["indices"], list):
        names["indices"] = tuple(names["indices"])  # as Python indexes with several
    names |= {"grads": grads, "grad": next(grad for grad in grads if grad is not None)}
    names |= {f"grad_{name}": grad for name, grad in zip(entry.returns, grads, strict=False)}
    return Checked(made.node.name(), entry, made, names, sent if isinstance(sent, tuple) else (sent,))


def detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    return [detached(one) for one in value] if isinstance(value, list) else value


def compare(checked: Checked, argument: str, cpp: str, place: int, of: int) -> int:
    """Check what goes to one argument; how many tensors that was."""
    formula = written(checked.op, argument, cpp, place, of)
    first = [name for name, _ in checked.entry.inputs].index(argument)
    slots = range(first, first + (len(checked.names[argument]) if isinstance(checked.names.get(argument), list) else 1))
    compared = 0
    for i, slot in enumerate(slots):
        expected = checked.sent[slot] if slot < len(checked.sent) else None
        if expected is None:
            continue
        value = torch.as_tensor(evaluate(formula.text, formula.where, {**checked.names, "i": i}), dtype=expected.dtype)
        if not value.dim():
            value = value.expand_as(expected)  # a plain 0
        torch.testing.assert_close(value, expected.detach(), rtol=1e-6, atol=1e-9, msg=lambda text: f"{formula.text}\n{text}")
        compared += 1
    return compared


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]).removeprefix("aten."))
def test_a_formula_gives_what_its_node_gives(case: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> None:
    operator, arguments, options = case
    checked = ask(call(operator, arguments, options))
    compared = sum(
        compare(checked, name, cpp, place, len(names))
        for names, cpp in checked.entry.derivatives
        for place, name in enumerate(names)
    )
    assert compared > 0


def test_the_zoo_is_broad() -> None:
    ops = {call(*case).node.name() for case in CASES}
    assert len(ops) >= 190
    assert ops <= table().keys()


def test_complex_numbers_keep_their_conjugates() -> None:
    x, y = (torch.randn(3, 3, dtype=torch.complex128, requires_grad=True) for _ in range(2))
    for operator in (torch.ops.aten.mul.Tensor, torch.ops.aten.mm.default, torch.ops.aten.div.Tensor):
        checked = ask(call(operator, (x, y), {}))
        for place, (name, _) in enumerate(checked.entry.inputs):
            cpp = next(cpp for names, cpp in checked.entry.derivatives if name in names)
            formula = written(checked.op, name, cpp, 0, 1, is_complex=True)
            torch.testing.assert_close(evaluate(formula.text, formula.where, checked.names), checked.sent[place].detach())


def test_a_loss_of_complex_numbers_needs_them() -> None:
    formula = written("MmBackward0", "mat2", dict_of("MmBackward0")["mat2"], 0, 1, is_complex=True)
    assert formula.text == "selfᴴ @ grad"
    assert written("MmBackward0", "mat2", dict_of("MmBackward0")["mat2"], 0, 1).text == "selfᵀ @ grad"


def dict_of(op: str) -> dict[str, str]:
    return {name: cpp for names, cpp in table()[op].derivatives for name in names}


def test_rules_are_of_what_the_table_has() -> None:
    """Nearly all: torch versions differ."""
    texts = " ".join(cpp for entry in table().values() for _, cpp in entry.derivatives)
    unused = [name for name in HELPERS if not re.search(rf"\b{name}(_symint)?\(", texts)]
    assert len(unused) <= 5, unused
    assert [op for op in NODES if op not in table()] == []
