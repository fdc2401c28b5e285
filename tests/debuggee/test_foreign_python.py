"""Hooks and custom Functions: what they see, what they change, and what is put back after an exploring pass."""

from __future__ import annotations

import random
import sys
import warnings
from typing import Any

import pytest
import torch
from passes import explored, recorded
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradscope.debuggee.capture import capture
from gradscope.debuggee.exactness import same_bits
from gradscope.debuggee.explore import CannotExplore

pytestmark = pytest.mark.usefixtures("noted")


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers or (1.0, 2.0), requires_grad=True)


def test_a_hook_that_replaces_a_gradient() -> None:
    x = leaf()
    h = x * 2
    h.register_hook(lambda gradient: gradient * 10)
    passed = explored(h.sin().sum())
    assert passed.columns.exact == "true"
    [step] = passed.columns.hook_changed
    assert passed.graph.op(passed.tape.node_at(step)) == "MulBackward0"
    [contribution] = passed.tape.to(passed.tape.node_at(step), 0)
    [(_, arrived)] = passed.tape.arrivals(passed.tape.node_at(step))
    assert same_bits(passed.tensor(arrived), passed.tensor(contribution.tensor) * 10)
    assert "hook" in passed.graph.columns.foreign[passed.tape.node_at(step)]


@pytest.mark.parametrize("by", ["in place", "data"])
def test_a_hook_that_edits_a_gradient_in_place(by: str) -> None:
    x = leaf()
    h = x * 2  # 2, 4

    def edit(gradient: torch.Tensor) -> None:
        (gradient if by == "in place" else gradient.data).mul_(10)

    h.register_hook(edit)
    passed = explored((h + 0).square().sum(), torch.tensor(0.5))
    [step] = passed.columns.hook_changed
    node = passed.tape.node_at(step)
    assert passed.graph.op(node) == "MulBackward0"
    assert passed.tensor(passed.tape.to(node, 0)[0].tensor).tolist() == [2.0, 4.0]
    assert passed.tensor(passed.tape.arrived(node)).tolist() == [20.0, 40.0]
    assert passed.total(0).tolist() == [40.0, 80.0]


def test_a_hook_on_a_leaf() -> None:
    x = leaf()
    x.register_hook(lambda gradient: gradient.clamp(max=1.0))
    passed = explored((x * x + x).sum())
    assert passed.total(0).tolist() == [1.0, 1.0]
    assert len(passed.columns.hook_changed) == 1
    assert passed.columns.exact == "true"
    again = recorded((x * x + x).sum())
    assert again.total(0).tolist() == [1.0, 1.0]
    assert again.columns.exact == "true"
    assert again.columns.hook_changed == passed.columns.hook_changed


def test_hooks_on_nodes() -> None:
    x = leaf()
    h = x.sin()
    y = h.exp().sum()
    h.grad_fn.register_prehook(lambda gradients: (gradients[0] * 2,))
    passed = explored(y)
    [step] = passed.columns.hook_changed
    assert passed.graph.op(passed.tape.node_at(step)) == "SinBackward0"
    assert passed.columns.exact == "true"


def test_a_custom_function_that_edits_what_it_is_given() -> None:
    class Edits(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            return a.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            gradient.mul_(100)
            return gradient

    x, z = leaf(), leaf()
    passed = explored((Edits.apply(x) + z).exp().sum(), torch.tensor(1.0))
    node = next(n for n in range(len(passed.captured)) if passed.graph.op(n) == "EditsBackward")
    [contribution] = passed.tape.to(node, 0)
    arrived = passed.tensor(passed.tape.arrived(node))
    assert same_bits(passed.tensor(contribution.tensor), (x + z).detach().exp())
    assert same_bits(arrived, (x + z).detach().exp())
    [at_x, at_z] = [n for v in (x, z) for n, one in enumerate(passed.captured.leaves) if one.variable is v]
    assert same_bits(passed.total(at_x), (x + z).detach().exp() * 100)
    assert same_bits(passed.total(at_z), (x + z).detach().exp())
    assert passed.columns.exact == "true"


class Forgetful(torch.autograd.Function):
    """Deletes what its forward kept, as some memory savers do."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        ctx.factor = 3.0
        return a * 3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        factor = ctx.factor
        del ctx.factor
        return gradient * factor


def test_ctx_attributes_are_put_back() -> None:
    x = leaf()
    y = Forgetful.apply(x).sum()
    for _ in range(3):
        assert explored(y).total(0).tolist() == [3.0, 3.0]
    y.backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_what_hooks_write_is_put_back() -> None:
    x = leaf()
    seen: list[torch.Tensor] = []
    by_name: dict[str, torch.Tensor] = {"old": torch.ones(1)}
    count = 0

    def note(gradient: torch.Tensor) -> None:
        nonlocal count
        count += 1
        seen.append(gradient)
        by_name[f"new {count}"] = gradient
        torch.rand(3), random.random()
        print("called")
        warnings.warn("look", stacklevel=1)

    h = x * 2
    h.register_hook(note)
    states = torch.get_rng_state(), random.getstate()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        passed = explored(h.sum())
    assert (count, seen, list(by_name)) == (0, [], ["old"])
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert passed.columns.printed.startswith("called\n")
    assert "look" in passed.columns.printed
    assert any("variables" in note for note in passed.columns.notes)
    with pytest.warns(UserWarning, match="look"):
        h.sum().backward()
    assert (count, len(seen)) == (1, 1)


def test_gradients_parameters_and_versions_are_put_back() -> None:
    net = nn.Linear(2, 2)
    net.weight.grad = torch.full((2, 2), 0.5)
    kept = net.weight.grad

    def step(gradient: torch.Tensor) -> None:
        with torch.no_grad():
            net.weight.sub_(gradient)
            net.weight.grad.add_(1)
            net.bias.grad = torch.ones(2)

    net.weight.register_hook(step)
    before = net.weight.detach().clone()
    y = (net(torch.ones(1, 2)).sin() @ net.weight).sum()
    version = net.weight._version
    passed = explored(y)
    assert same_bits(net.weight.detach(), before)
    assert net.weight._version == version
    assert net.weight.grad is kept
    assert kept.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert net.bias.grad is None
    assert any("parameter" in note for note in passed.columns.notes)


def test_batch_norm_under_checkpoint() -> None:
    norm = nn.BatchNorm1d(3)
    generator = torch.Generator().manual_seed(3)

    def block(h: torch.Tensor) -> torch.Tensor:
        return norm(h) * torch.rand(3, generator=generator)

    x = torch.randn(4, 3, requires_grad=True)
    y = checkpoint(block, x, use_reentrant=False, preserve_rng_state=True).square().sum()
    state = norm.running_mean.clone(), norm.num_batches_tracked.clone(), generator.get_state()
    first, second = explored(y), explored(y)
    assert same_bits(norm.running_mean, state[0])
    assert int(norm.num_batches_tracked) == int(state[1])
    assert torch.equal(generator.get_state(), state[2])
    assert same_bits(first.total(0), second.total(0))
    assert any("unpack hook" in why for why in first.graph.columns.foreign.values())


def test_reentrant_checkpoint_is_refused_and_recorded() -> None:
    x = leaf()
    y = checkpoint(torch.sin, x, use_reentrant=True).sum()
    captured = capture([y])
    assert "reentrant checkpoint" in captured.refusal
    with pytest.raises(CannotExplore):
        explored(y)
    passed = recorded(y)
    assert same_bits(x.grad, x.detach().cos())
    assert passed.ops()[-1] == "AccumulateGrad"


def test_kept_gradients_of_inner_tensors_are_put_back() -> None:
    x = leaf()
    h = x * 2
    h.retain_grad()
    y = h.sin().sum()
    explored(y)
    assert h.grad is None
    y.backward(retain_graph=True)
    once = h.grad.clone()
    explored(y)
    assert same_bits(h.grad, once)


def test_streams_and_hooks_come_back_after_an_exception() -> None:
    x = leaf()
    h = x * 2

    def leave(_: torch.Tensor) -> None:
        raise KeyboardInterrupt

    handle = h.register_hook(leave)
    outside = sys.stdout, sys.stderr
    with pytest.raises(KeyboardInterrupt):
        explored(h.sum())
    assert (sys.stdout, sys.stderr) == outside
    handle.remove()
    assert explored(h.sum()).total(0).tolist() == [2.0, 2.0]


def test_a_graph_of_torch_alone_is_not_foreign() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert not capture([net(torch.ones(1, 2)).sum()]).foreign
