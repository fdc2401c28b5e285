"""What is told of passes that fail, and of gradients that were written into: values, of live torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from passes import Pass, explored, recorded
from torch import nn

from gradscope.debuggee.capture import capture
from gradscope.debuggee.explore import explore
from gradscope.debuggee.graph_columns import graph_columns
from gradscope.debuggee.origins import Origins, install_mode
from gradscope.debuggee.pass_facts import PassFinder, witnesses
from gradscope.debuggee.subject import Subject
from gradscope.debuggee.timeline import Timeline
from gradscope.findings import diagnose
from gradscope.model.facts import Mutated, PassFacts

pytestmark = pytest.mark.usefixtures("noted")


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, requires_grad=True)


def ops_of(one: Pass, nodes: tuple[int, ...]) -> list[str]:
    return [one.graph.op(node) for node in nodes]


# ---------------------------------------------------------------- edited since it was saved


def test_a_result_that_was_written_into() -> None:
    gate = leaf(1.0, 2.0).sigmoid()
    root = (gate * 2).sum()
    gate[0] = 0.0
    for one in (explored(root), recorded(root)):
        (write,) = one.columns.facts.writes
        assert one.graph.op(write.node) == "SigmoidBackward0"
        assert (write.saved, write.name, write.version_saved, write.version_now) == ("result", "gate", 0, 1)
        assert (write.leaf, write.silent, write.origin) == (-1, False, None)


def test_all_leaves_that_an_optimizer_stepped() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    root = net(torch.ones(1, 2)).sum()
    with torch.no_grad():
        net[2].weight.add_(1)  # type: ignore[operator]
        net[4].weight.add_(1)  # type: ignore[operator]
    one = recorded(root)
    assert one.columns.failure is not None
    leaves = [one.captured.leaves[write.leaf].variable for write in one.columns.facts.writes]
    assert [id(variable) for variable in leaves] == [id(net[4].weight), id(net[2].weight)]
    assert one.columns.facts.writes[0].node == one.columns.failure.node


def test_a_healthy_pass_has_no_writes() -> None:
    x = leaf(1.0, 2.0)
    h = (x * 2).relu_()
    root = h.sum()
    assert explored(root).columns.facts == PassFacts()
    assert recorded(root).columns.facts == PassFacts()


# ---------------------------------------------------------------- seen by witnesses


@pytest.fixture
def origins() -> Any:
    found = install_mode(torch)
    yield found
    found.remove()


def facts(root: torch.Tensor, origins: Origins, timeline: Timeline | None = None) -> PassFacts:
    origins.pause()
    captured = capture([root])
    subject = Subject(captured, graph_columns(captured), [], sys._getframe(1))
    timeline = timeline or Timeline(torch.autograd._get_sequence_nr)
    finder = PassFinder(captured, lambda: subject, witnesses(origins, timeline, 2))
    tape, _ = explore(captured, [torch.ones_like(root)])
    finder.after(tape)
    origins.resume()
    return tape.facts


def test_a_silent_write(origins: Origins) -> None:
    out = leaf(1.0, 2.0).sigmoid()
    root = (out * 2).sum()
    out.data.zero_()
    (write,) = facts(root, origins).writes
    assert (write.saved, write.name, write.function, write.silent) == ("result", "out", "Tensor.zero_", True)
    assert write.version_saved == write.version_now == 0
    assert write.origin is not None
    assert write.origin.line == sys._getframe(0).f_lineno - 5


class Filled(torch.autograd.Function):
    """Fills its result piece by piece, then saves it."""

    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        out[0] = x[0]
        out[1] = x[1] * 2
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def test_what_a_custom_forward_wrote_before_it_saved_is_no_write(origins: Origins) -> None:
    out = Filled.apply(leaf(1.0, 2.0))
    assert facts(out.sum(), origins).writes == []


def test_a_silent_write_into_what_a_custom_function_saved(origins: Origins) -> None:
    out = Filled.apply(leaf(1.0, 2.0))
    for _ in range(3):
        alias = out.data
        alias.mul_(2).mul_(2).mul_(2)
    (write,) = facts(out.sum(), origins).writes
    assert (write.function, write.silent, write.version_saved) == ("Tensor.mul_", True, 2)


def test_writes_that_no_node_minds(origins: Origins) -> None:
    buffer = torch.zeros(2)
    weight = leaf(1.0, 2.0)
    weight.data.mul_(2)  # before the forward
    hidden = (weight * 3).relu_()
    root = hidden.exp().sum()
    buffer.data.add_(hidden.detach())
    assert facts(root, origins).writes == []


def test_the_line_that_wrote(origins: Origins) -> None:
    gate = leaf(1.0, 2.0).sigmoid()
    root = (gate * 2).sum()
    gate[0] = 0.0
    (write,) = facts(root, origins).writes
    assert write.function == "Tensor.__setitem__"
    assert write.origin is not None
    assert write.origin.line == sys._getframe(0).f_lineno - 4


def test_the_call_that_freed(origins: Origins) -> None:
    timeline = Timeline(torch.autograd._get_sequence_nr)
    h = leaf(1.0).sin()
    first = h.exp()
    event = timeline.call_begins(1, "backward", None, False)
    numbers = capture([first]).sequence_nr
    timeline.call_looked_at(event, numbers, len(numbers), 0)
    first.backward()
    (freed,) = facts(h.cos(), origins, timeline).freed
    assert (freed.call, freed.certain) == (1, True)


# ---------------------------------------------------------------- written into on the way


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient.mul_(0.5)


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * 0.5


@pytest.mark.parametrize("run", [explored, recorded])
def test_a_custom_backward_that_writes_into_what_it_is_given(run: Callable[..., Pass]) -> None:
    one = run((leaf(1.0).exp().log() + Halved.apply(leaf(1.0) * 1.0)).sum())
    (mutated,) = one.columns.facts.mutated
    assert one.graph.op(mutated.node) == "HalvedBackward"
    assert mutated.slot == 0
    assert mutated.origin is not None
    assert mutated.origin.function.endswith("Halved.backward")
    assert ops_of(one, mutated.others) == ["LogBackward0"]
    assert (one.tape.exact, one.columns.mismatches) == ("unchecked", [])


@pytest.mark.parametrize("run", [explored, recorded])
def test_one_that_does_not(run: Callable[..., Pass]) -> None:
    one = run((leaf(1.0).exp().log() + Kept.apply(leaf(1.0) * 1.0)).sum())
    assert one.columns.facts.mutated == []
    assert one.tape.exact == "true"


@pytest.mark.parametrize("run", [explored, recorded])
def test_a_hook_that_writes_into_a_gradient_others_get_too(run: Callable[..., Pass]) -> None:
    def halve(gradient: torch.Tensor) -> None:
        gradient.mul_(0.5)

    other = leaf(1.0).exp().log()
    hooked = leaf(1.0) * 1.0  # made later: its node runs first
    hooked.register_hook(halve)
    one = run((other + hooked).sum())
    (mutated,) = one.columns.facts.mutated
    assert mutated == Mutated(mutated.node, 0, mutated.origin, mutated.others, hook=True)
    assert ops_of(one, (mutated.node, *mutated.others)) == ["MulBackward0", "LogBackward0"]
    assert mutated.origin is not None
    assert mutated.origin.function.endswith("halve")
    (told,) = [found for found in diagnose(one.graph, one.tape) if found.severity == "warning"]
    assert told.kind == "hook-changed"


@pytest.mark.parametrize("run", [explored, recorded])
def test_a_hook_that_harms_nobody(run: Callable[..., Pass]) -> None:
    weight = leaf(1.0, 2.0)
    weight.register_hook(lambda gradient: gradient.clamp_(-1, 1))
    one = run((weight * 3).sum())
    assert one.columns.facts.mutated == []
