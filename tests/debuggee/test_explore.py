"""The record of an exploring pass against torch itself, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from passes import Pass, explored, recorded
from torch import nn

from gradscope.debuggee.capture import capture
from gradscope.debuggee.exactness import same_bits
from gradscope.debuggee.explore import CannotExplore, explore
from gradscope.debuggee.record import Cancelled
from gradscope.model.places import UNKNOWN


def two_outputs() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    return torch.stack([x[0] ** 2 + x[1], x[0] * x[1]]), x


def check_against_torch(passed: Pass, roots: list[torch.Tensor], seeds: list[torch.Tensor]) -> None:
    """Totals of all leaves as autograd.grad gives them."""
    assert passed.columns.exact == "true", passed.columns.exact_reason
    leaves = [leaf.variable for leaf in passed.captured.leaves]
    truth = torch.autograd.grad(roots, leaves, seeds, retain_graph=True, allow_unused=True)
    for number, gradient in enumerate(truth):
        total = passed.total(number)
        assert (gradient is None) == (total is None)
        assert gradient is None or same_bits(total, gradient)


def test_two_outputs_by_hand() -> None:
    outputs, x = two_outputs()
    passed = explored(outputs, torch.tensor([1.0, 10.0]))
    assert passed.total(0).tolist() == [34.0, 21.0]
    assert passed.after(0).tolist() == [34.0, 21.0]
    assert x.grad is None
    assert passed.ops()[0] == "StackBackward0"
    assert passed.ops()[-1] == "AccumulateGrad"
    assert explored(outputs, torch.tensor([1.0, 1.0])).total(0).tolist() == [7.0, 3.0]


def test_contributions_are_in_delivery_order_with_their_running_sums() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    passed = explored(x * 2 + x.sin() + x.exp(), torch.tensor([1.0, 1.0]))
    node = passed.captured.leaves[0].node
    contributions = passed.tape.to(node, 0)
    assert [passed.graph.op(one.source) for one in contributions] == ["ExpBackward0", "SinBackward0", "MulBackward0"]
    running = None
    for one in contributions:
        running = passed.tensor(one.tensor) if running is None else running + passed.tensor(one.tensor)
        assert same_bits(passed.tensor(one.so_far), running)
    assert passed.tape.steps == len(passed.captured)


def random_dag(seed: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Some leaves, many operations that reuse what there is, several roots."""
    choose = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    leaves = [torch.randn(3, generator=generator, requires_grad=True) for _ in range(choose.randint(1, 4))]
    values = list(leaves)
    for _ in range(choose.randint(3, 25)):
        a, b = choose.choice(values), choose.choice(values)
        kind = choose.randrange(7)
        if kind == 0:
            values.append(a + b)
        elif kind == 1:
            values.append(a * b)
        elif kind == 2:
            values.append(a.sin())
        elif kind == 3:
            values.append(torch.stack([a, b, a]).sum(0))
        elif kind == 4:
            parts = a.unbind()
            values.append(torch.stack([parts[0], parts[0], b[1]]))
        elif kind == 5:
            values.append(torch.where(a > 0, a, b))
        else:
            values.append(a.detach() * b + a.mean())
    inner = [value for value in values[len(leaves) :] if value.requires_grad] or [leaves[0] * 1]
    roots = [choose.choice(inner) for _ in range(choose.randint(1, 3))]
    if choose.random() < 0.2:
        roots.append(choose.choice(leaves))
    return roots, leaves


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed: int) -> None:
    roots, _ = random_dag(seed)
    seeds = [torch.randn(root.shape, generator=torch.Generator().manual_seed(seed)) for root in roots]
    passed = explored(roots, seeds)
    check_against_torch(passed, roots, seeds)
    for node in range(len(passed.captured)):
        for input_nr, number in passed.tape.arrivals(node):
            contributions = passed.tape.to(node, input_nr)
            assert (contributions[-1].so_far if contributions else UNKNOWN) == number


@pytest.mark.parametrize("seed", range(25))
def test_explored_and_recorded_passes_agree(seed: int) -> None:
    roots, _ = random_dag(seed)
    root = torch.stack([root.sum() for root in roots]).sum()
    first = explored(root)
    second = recorded(root)
    assert second.columns.exact == "true"
    assert first.columns.step_node == second.columns.step_node
    assert first.columns.contribution_edge == second.columns.contribution_edge
    assert first.columns.tensors.norm == second.columns.tensors.norm
    for leaf in range(len(first.captured.leaves)):
        assert same_bits(first.after(leaf), second.after(leaf))
        assert same_bits(second.after(leaf), second.captured.leaves[leaf].variable.grad)


def test_random_subsets_of_inputs() -> None:
    for seed in range(40):
        roots, leaves = random_dag(seed)
        wanted = leaves[: 1 + seed % len(leaves)]
        seeds = [torch.ones_like(root) for root in roots]
        passed = explored(roots, seeds, wanted, accumulates=False)
        truth = torch.autograd.grad(roots, wanted, seeds, retain_graph=True, allow_unused=True)
        for leaf, captured in enumerate(passed.captured.leaves):
            if captured.target and captured.node != UNKNOWN:
                place = next(i for i, tensor in enumerate(wanted) if tensor is captured.variable)
                total = passed.total(leaf)
                assert (truth[place] is None) == (total is None)
                assert total is None or same_bits(total, truth[place])
        assert passed.columns.exact == "true"


def test_inner_tensors_as_inputs() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x * 3
    y = (h * h + x).sum()
    passed = explored(y, inputs=[h, x], accumulates=False)
    truth = torch.autograd.grad(y, [h, x], retain_graph=True)
    assert [leaf.kind for leaf in passed.graph.leaves] == ["input", "tensor"]
    assert same_bits(passed.total(0), truth[0])
    assert same_bits(passed.total(1), truth[1])
    alone = explored(y, inputs=[h], accumulates=False)
    assert same_bits(alone.total(0), truth[0])
    assert [leaf.target for leaf in alone.graph.leaves] == [True, False]


def test_roots_that_are_leaves_or_the_same() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    passed = explored([x, y, y], [torch.ones(2), torch.ones(2), torch.full((2,), 3.0)])
    assert passed.total(0).tolist() == [9.0, 9.0]
    assert explored(x, torch.tensor([5.0, 6.0])).total(0).tolist() == [5.0, 6.0]


def test_unreached_inputs_do_not_let_the_engine_loose() -> None:
    x, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    passed = explored((x * 2).sum(), inputs=[other], accumulates=False)
    assert passed.tape.steps == 0
    assert x.grad is None
    assert passed.captured.leaves[-1].node == UNKNOWN


def test_seeding_an_inner_tensor() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    losses = x**2
    loss = losses.mean()
    captured = capture([loss])
    node = captured.nodes.index(losses.grad_fn)
    tape, held = explore(captured, [torch.tensor([0.0, 1.0, 0.0])], root=(node, 0), number=2, edited=True)
    passed = Pass(captured, tape, held)
    assert passed.total(0).tolist() == [0.0, 4.0, 0.0]
    assert (tape.root, tape.root_input_nr, tape.number, tape.edited) == (node, 0, 2, True)
    assert tape.exact == "true"


def modules() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(0)
    return {
        "mlp": (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), torch.randn(3, 4)),
        "cnn": (nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.5)), torch.randn(2, 1, 6, 6)),
        "lstm": (nn.LSTM(4, 6, 2), torch.randn(5, 2, 4)),
        "transformer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(2, 5, 8)),
        "norm": (nn.Sequential(nn.LayerNorm(6), nn.GELU(), nn.Softmax(-1)), torch.randn(4, 6)),
        "embedding": (nn.Embedding(10, 4), torch.tensor([[1, 2, 2], [3, 1, 0]])),
        "sparse": (nn.Embedding(10, 4, sparse=True), torch.tensor([[1, 2, 2], [3, 1, 0]])),
        "double": (nn.Linear(4, 2).double(), torch.randn(3, 4, dtype=torch.float64)),
        "half": (nn.Linear(4, 2).bfloat16(), torch.randn(3, 4, dtype=torch.bfloat16)),
        "complex": (nn.Linear(4, 2, dtype=torch.complex64), torch.randn(3, 4, dtype=torch.complex64)),
    }


@pytest.mark.parametrize("name", list(modules()))
def test_modules(name: str) -> None:
    module, data = modules()[name]
    made: Any = module(data)
    output = made[0] if isinstance(made, tuple) else made
    seed = torch.randn(output.shape, dtype=torch.float64).to(output.dtype)
    passed = explored(output, seed)
    check_against_torch(passed, [output], [seed])
    again = recorded(output, seed)
    assert again.columns.exact == "true", again.columns.exact_reason
    for leaf in range(len(again.captured.leaves)):
        assert same_bits(again.after(leaf), passed.after(leaf))
    if name != "sparse":
        assert passed.columns.step_node == again.columns.step_node


def test_accumulation_into_gradients_that_are_there() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    x.grad = torch.tensor([0.1, 0.2])
    passed = explored((x * x).sum())
    assert passed.tensor(passed.tape.leaf_before(0)).tolist() == x.grad.tolist()
    assert same_bits(passed.after(0), x.grad + 2 * x.detach())
    assert x.grad.tolist() == torch.tensor([0.1, 0.2]).tolist()


def test_undefined_gradients() -> None:
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            return gradient * 2, None

    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    passed = explored(Half.apply(a, b).sum())
    totals = {id(leaf.variable): passed.total(number) for number, leaf in enumerate(passed.captured.leaves)}
    assert totals[id(a)].tolist() == [2.0, 2.0]
    assert totals[id(b)] is None
    assert "Half (test_explore.py:" in next(iter(passed.graph.columns.foreign.values()))


def test_a_failing_node_ends_the_tape_there() -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            return a * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            raise KeyError("no such thing")

    x = torch.ones(2, requires_grad=True)
    passed = explored((Broken.apply(x.sin()) * 3).sum())
    failure = passed.columns.failure
    assert failure is not None
    assert (failure.type, passed.graph.op(failure.node)) == ("KeyError", "BrokenBackward")
    assert "gradscope/debuggee" not in failure.traceback
    assert "no such thing" in failure.traceback
    code = Broken.backward.__code__
    assert (failure.file, failure.line) == (code.co_filename, code.co_firstlineno + 2)
    assert passed.ops() == ["SumBackward0", "MulBackward0"]
    assert passed.columns.exact == "unchecked"


def test_an_edit_in_place_fails_at_the_node_that_saved() -> None:
    x = torch.ones(2, requires_grad=True)
    h = x.exp()
    y = (h * 2).sin().sum()
    h.add_(1)
    passed = explored(y)
    assert passed.columns.failure is not None
    assert passed.graph.op(passed.columns.failure.node) == "ExpBackward0"
    assert passed.ops()[-1] == "MulBackward0"
    assert (passed.columns.failure.file, passed.columns.failure.line) == ("", 0)


def test_a_freed_graph_fails() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.exp().sum()
    y.backward()
    failure = explored(y).columns.failure
    assert failure is not None
    assert "second time" in failure.message


def test_hooks_are_removed_and_the_pass_can_be_cancelled() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(200):
        y = y.sin()
    seen: list[int] = []

    def poll(done: int) -> bool:
        seen.append(done)
        return done >= 128

    captured = capture([y])
    with pytest.raises(Cancelled):
        explore(captured, [torch.ones(2)], poll=poll)
    assert seen == [64, 128]
    handle = captured.nodes[0].register_hook(lambda *_: None)
    assert len(handle.hooks_dict_ref()) == 1
    handle.remove()
    assert Pass(captured, *explore(captured, [torch.ones(2)])).tape.steps == 201


def test_no_graph() -> None:
    with pytest.raises(CannotExplore):
        explored(torch.ones(2))


def test_a_double_seed_for_a_float_root_is_shown_as_the_engine_casts_it() -> None:
    outputs, _ = two_outputs()
    passed = explored(outputs, torch.tensor([1.0, 10.0], dtype=torch.float64))
    assert passed.columns.exact == "true"
    assert passed.total(0).tolist() == [34.0, 21.0]


def test_create_graph_commit() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(UserWarning, match="create_graph"):
        passed = recorded((x**3).sum(), create_graph=True)
    assert passed.columns.exact == "true"
    assert not passed.total(0).requires_grad
    assert x.grad is not None
    x.grad = None


def test_numbers_that_are_not_finite() -> None:
    x = torch.tensor([0.0, 1.0, -1.0], requires_grad=True)
    passed = explored(x.sqrt().log().sum())
    assert passed.columns.exact == "true"
    summary = passed.tape.summary(passed.tape.leaf_total(0))
    assert summary.nan >= 1
    assert summary.inf + summary.nan >= 2
