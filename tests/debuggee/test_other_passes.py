"""Backward passes that run inside the one that is recorded, or in other threads meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from passes import Pass, explored, recorded
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradscope.debuggee.capture import capture
from gradscope.debuggee.commit import Check, Recorded
from gradscope.debuggee.engine import newest_graph_task

PATIENCE = 60.0

pytestmark = pytest.mark.usefixtures("noted")


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers or (1.0, 2.0), requires_grad=True)


def number_of(passed: Pass, variable: torch.Tensor) -> int:
    return next(place for place, one in enumerate(passed.captured.leaves) if one.variable is variable)


def hook_that_calls_backward() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """d exp(2a) = 2 exp(2a); the hook adds cos(a) to a.grad and hands on g + 1."""
    a, b = leaf(0.0, 1.0), leaf(3.0, 4.0)
    y = a * 2

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            a.sin().sum().backward()
            return gradient + 1

    y.register_hook(hook)
    return (y.exp() * b).sum(), a, b


def test_a_hook_that_calls_backward_on_a_leaf_of_the_pass() -> None:
    root, a, b = hook_that_calls_backward()
    passed = recorded(root)
    expected = 2 * ((2 * a).exp() * b + 1)
    torch.testing.assert_close(passed.total(number_of(passed, a)), expected.detach())
    torch.testing.assert_close(a.grad, (expected + a.cos()).detach())
    torch.testing.assert_close(b.grad, (2 * a).exp().detach())
    assert passed.tape.steps == len(passed.captured)
    assert (passed.columns.exact, passed.columns.exact_reason) == (
        "unchecked",
        "a backward pass inside this one writes its .grad too",
    )
    assert passed.columns.notes == ["a backward pass inside this one ran 1 of its nodes: those steps are kept out"]
    assert passed.columns.mismatches == []


def test_the_same_explored_leaves_no_trace_and_is_not_checked() -> None:
    root, a, b = hook_that_calls_backward()
    passed = explored(root)
    assert a.grad is None
    assert passed.columns.exact == "true"
    assert passed.tape.steps == len(passed.captured)
    check = Check.of_tape(passed.captured, passed.columns, passed.held)
    root.backward()
    verdict = check.verdict()
    assert (verdict.exact, verdict.reason) == ("unchecked", "a backward pass inside this one writes its .grad too")
    torch.testing.assert_close(passed.total(number_of(passed, b)), b.grad)


def test_a_hook_on_the_root_that_calls_backward_first_of_all() -> None:
    """The inner pass is seen before the outer one."""
    a = leaf()
    root = (a * 3).sum()
    root.register_hook(lambda _: a.square().sum().backward() if torch.is_grad_enabled() else _inner(a))
    passed = recorded(root)
    assert passed.ops() == ["SumBackward0", "MulBackward0", "AccumulateGrad"]
    assert passed.total(0).tolist() == [3.0, 3.0]
    assert a.grad.tolist() == [5.0, 7.0]
    assert passed.columns.exact == "unchecked"


def _inner(a: torch.Tensor) -> None:
    with torch.enable_grad():
        a.square().sum().backward()


def test_a_reentrant_checkpoint_that_shares_a_leaf_with_the_graph() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(3, 3), torch.randn(2, 3, requires_grad=True)
    passed = recorded(checkpoint(linear, x, use_reentrant=True).sum() + linear(x).sum())
    assert passed.tape.steps == len(passed.captured)
    assert passed.columns.exact == "unchecked"
    assert "inside this one" in passed.columns.exact_reason
    place = number_of(passed, linear.weight)
    total = torch.autograd.grad(linear(x).sum(), linear.weight)[0]
    torch.testing.assert_close(passed.total(place), total)
    torch.testing.assert_close(linear.weight.grad, 2 * total)
    assert torch.equal(passed.after(place), linear.weight.grad)


def test_an_inner_pass_over_other_leaves_changes_nothing() -> None:
    a, b = leaf(), leaf(5.0, 6.0)
    y = a * 2

    def hook(gradient: torch.Tensor) -> None:
        with torch.enable_grad():
            b.sin().sum().backward()

    y.register_hook(hook)
    passed = recorded(y.sum())
    assert (passed.columns.exact, passed.columns.notes) == ("true", [])
    torch.testing.assert_close(b.grad, b.cos().detach())


# ---------------------------------------------------------------- threads


def in_a_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_another_threads_pass_over_the_same_leaf_is_kept_out() -> None:
    a = leaf()
    y = a * 2
    y.register_hook(lambda _: in_a_thread(lambda: (a * 10).sum().backward()))
    captured = capture([y.sum()])
    root = captured.live_roots[0]
    watch = Recorded(captured, [torch.ones(())])
    with watch:
        root.backward()
    passed = Pass(captured, *watch.finish(None))
    assert passed.ops() == ["SumBackward0", "MulBackward0", "AccumulateGrad"]
    assert passed.total(0).tolist() == [2.0, 2.0]
    assert a.grad.tolist() == [12.0, 12.0]
    assert (passed.columns.exact, passed.columns.exact_reason) == (
        "unchecked",
        "another thread's backward pass writes its .grad too",
    )


def test_two_recordings_at_the_same_time_know_their_own() -> None:
    """Both hook into the AccumulateGrad that they share."""
    a = leaf()
    inner: list[Pass] = []

    def other() -> None:
        inner.append(recorded((a * 10).sum()))

    alive = threading.Event()
    bystander = threading.Thread(target=lambda: alive.wait(PATIENCE))
    bystander.start()
    y = a * 2
    y.register_hook(lambda _: in_a_thread(other))
    outer = recorded(y.sum())
    alive.set()
    bystander.join(PATIENCE)
    assert outer.total(0).tolist() == [2.0, 2.0]
    assert inner[0].total(0).tolist() == [10.0, 10.0]
    assert inner[0].ops() == ["SumBackward0", "MulBackward0", "AccumulateGrad"]
    assert inner[0].columns.exact == "true"
    assert a.grad.tolist() == [12.0, 12.0]


def test_a_difference_next_to_another_threads_call_says_nothing() -> None:
    a = leaf()
    root = (a * 2).sum()
    captured = capture([root])
    watch = Recorded(captured, [torch.ones(())])
    with watch:
        root.backward()
    a.grad.add_(1)  # as another thread may do right after
    tape, _ = watch.finish(None, ["Thread-7"])
    assert tape.exact == "unchecked"
    assert "another thread (Thread-7)" in tape.exact_reason


def test_graph_tasks_are_numbered_as_they_begin() -> None:
    first = newest_graph_task()
    assert newest_graph_task() > first >= 0
