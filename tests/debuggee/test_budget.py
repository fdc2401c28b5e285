"""Gradients beyond the budget: their summaries stay, and while the script stands still they can be got back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from passes import explored, recorded

from gradscope.debuggee import budget as budgets
from gradscope.debuggee.budget import Budget
from gradscope.debuggee.commit import Check
from gradscope.debuggee.sources import Sources
from gradscope.debuggee.stop import Stop
from gradscope.debuggee.subject import of_tensor
from gradscope.errors import GradscopeError
from gradscope.protocol import messages as m

CPU = torch.device("cpu")


class Link:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, report: Any) -> None:
        self.sent.append(report)

    def give_up(self, what: str, done: int, total: int) -> bool:
        return False


def graph() -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of 400 bytes each, and one of 4."""
    x = torch.arange(100.0).requires_grad_()
    return x.sin().square().sum(), x


def stop(root: torch.Tensor, budget: int) -> tuple[Stop, Link]:
    link = Link()
    standing = Stop(link, Sources(link), of_tensor(root, "root", None, None), None, lambda _: None, Budget(budget))  # type: ignore[arg-type]
    return standing, link


def test_the_small_ones_are_kept() -> None:
    root, _ = graph()
    passed = explored(root)
    total = len(passed.held)
    Budget(500).trim(passed.columns, passed.held)
    held = [number for number in range(total) if passed.columns.tensors.held[number]]
    assert sorted(passed.held.present) == held
    assert 0 < len(held) < total
    memory = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in passed.held.present.values()}
    assert sum(memory.values()) <= 500
    assert min(range(total), key=lambda number: passed.tape.tensors.numel(number)) in held
    assert passed.columns.notes == [
        f"{total - len(held)} of {total} gradients do not fit the budget (--budget): their summaries stay"
    ]
    assert passed.tape.norm(passed.tape.leaf_total(0)) > 0
    with pytest.raises(KeyError):
        passed.held.tensor(next(number for number in range(total) if number not in held))


def test_views_of_the_same_memory_count_once_and_other_passes_count_too() -> None:
    x = torch.ones(100, requires_grad=True)
    one, other = explored((x + x).sum()), explored((x + x).sum())
    Budget(450).trim(one.columns, one.held)
    assert len(one.held.present) == len(one.held)  # the 1 is expanded: all are views of four bytes, but for the sum of 400
    Budget(450).trim(other.columns, other.held, [one.held])
    assert len(other.held.present) < len(other.held)


def test_without_a_budget_a_quarter_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "_free", lambda device: 4000)
    assert Budget().limit(CPU) == 1000
    assert Budget(7).limit(CPU) == 7
    monkeypatch.undo()
    assert 1 << 20 < Budget().limit(CPU) < 1 << 50


def test_a_gradient_that_was_let_go_of_is_got_back_while_the_script_stands_still() -> None:
    root, x = graph()
    standing, link = stop(root, 1)
    assert standing.subject is not None
    standing.subject.seeds.append(standing.subject.seed("3", standing.subject.root(0), None))
    tape = standing.first_pass()
    [number] = memoryview(tape.leaf_after).cast("i")
    assert not tape.tensors.held[number]
    assert standing.held(1).present == {}
    standing._answer(m.Fetch(1, 1, number, [(0, 100, 1)]))
    expected = torch.autograd.grad(root, x, torch.tensor(3.0), retain_graph=True)[0]
    assert link.sent[-1].values == expected.double().tolist()
    standing._answer(m.FetchTensors(2, 1, [number, 999]))
    assert (link.sent[-2].tensor, link.sent[-1].missing) == (number, [999])
    assert x.grad is None
    standing.committed = True
    standing._fetched = None
    with pytest.raises(GradscopeError) as caught:
        standing._answer(m.Fetch(3, 1, number, [(0, 100, 1)]))
    assert caught.value.what == "this gradient is not held any more"
    assert "--budget" in caught.value.hint
    standing._answer(m.FetchTensors(4, 1, [number]))
    assert link.sent[-1].missing == [number]


def test_a_pass_that_comes_out_otherwise_is_not_repeatable() -> None:
    factors = iter(range(1, 100))
    x = torch.ones(100, requires_grad=True)
    h = x * 2
    h.register_hook(lambda gradient: gradient * next(factors))
    standing, _ = stop(h.sum(), 1)
    assert standing.subject is not None
    standing.subject.captured.foreign.functions.clear()
    standing.subject.captured.foreign.touches_gradients = True
    standing.subject.seeds.append(standing.subject.seed("1", standing.subject.root(0), None))
    tape = standing.first_pass()
    [number] = memoryview(tape.leaf_after).cast("i")
    with pytest.raises(GradscopeError) as caught:
        standing._answer(m.Fetch(1, 1, number, [(0, 100, 1)]))
    assert caught.value.what == "this pass is not repeatable"


def test_a_leaf_whose_total_is_not_held_is_not_checked() -> None:
    root, _ = graph()
    passed = explored(root)
    Budget(8).trim(passed.columns, passed.held)
    check = Check.of_tape(passed.captured, passed.columns, passed.held)
    root.backward()
    verdict = check.verdict()
    assert (verdict.exact, verdict.reason) == ("unchecked", "the totals of some leaves did not fit the budget (--budget)")


def test_a_recorded_call_is_exact_whatever_the_budget() -> None:
    root, x = graph()
    passed = recorded(root)
    assert passed.columns.exact == "true"
    Budget(8).trim(passed.columns, passed.held)
    assert passed.columns.exact == "true"
    assert passed.tape.norm(passed.tape.leaf_total(0)) == pytest.approx(x.grad.double().norm().item())


def test_sparse_gradients_have_a_size_too() -> None:
    embedding = torch.nn.Embedding(1000, 8, sparse=True)
    passed = explored(embedding(torch.tensor([1, 2])).sum())
    Budget(10).trim(passed.columns, passed.held)
    layouts = {tensor.layout for tensor in passed.held.present.values()}
    assert layouts == {torch.strided}
