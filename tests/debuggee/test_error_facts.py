"""Exceptions of live torch, explained: the finding names the person's tensor and line."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from gradscope.debuggee.error_facts import error_facts
from gradscope.findings.finding import Finding
from gradscope.findings.outside import outside


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def explained(act: Callable[[], object]) -> list[Finding]:
    """What is said of the exception that a function raises."""
    try:
        act()
    except Exception as error:
        return outside(error_facts(error, None, 1))
    raise AssertionError("nothing was raised")


def write_into_leaf():
    weight = torch.ones(3, requires_grad=True)
    weight[0] = 1.0


def write_into_view_of_leaf():
    weight = torch.ones(3, requires_grad=True)
    part = weight[:2]
    part.mul_(2)


def write_into_view_from_no_grad():
    weight = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        part = weight[:2]
    part.mul_(2)


def write_into_custom_output():
    same = Same.apply(torch.ones(3, requires_grad=True) * 2)
    same.add_(1)


def write_behind_a_hook():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    net[0].register_full_backward_hook(lambda module, sent, arrived: None)
    net(torch.ones(1, 3))


def inference_in_the_forward():
    weight = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        mask = torch.ones(3)
    weight * mask


def to_numpy():
    hidden = torch.ones(3, requires_grad=True) * 2
    hidden.numpy()


def deep_copy():
    layer = nn.Linear(2, 2)
    layer.hidden = layer(torch.ones(1, 2))
    copy.deepcopy(layer)


def optimize_a_result():
    moved = torch.ones(3, requires_grad=True).double()
    torch.optim.SGD([moved], lr=0.1)


def optimize_nothing():
    torch.optim.SGD([], lr=0.1)


def sparse_step():
    table = nn.Embedding(3, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    torch.optim.Adam(table.parameters()).step()


def step_after_a_resize():
    weight = nn.Parameter(torch.ones(3))
    weight.sum().backward()
    weight.data = torch.ones(4)
    torch.optim.SGD([weight], lr=0.1).step()


def gradient_of_another_shape():
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(4)


def gradient_of_integers():
    torch.tensor([1, 2], requires_grad=True)


def gradient_that_is_not_there():
    weight = torch.ones(3, requires_grad=True)
    weight.sum().backward()
    weight = weight - 0.1 * weight.grad
    weight.sum().backward()
    weight.grad.zero_()


def gradient_never_made():
    weight = torch.ones(3, requires_grad=True)
    return 2 * weight.grad


def parameter_rebound():
    layer = nn.Linear(2, 2)
    layer.weight = layer.weight * 2


def write_into_expanded():
    bias = torch.ones(1).expand(4)
    bias.add_(1)


def step_of_an_expanded_parameter():
    bias = nn.Parameter(torch.ones(1).expand(4))
    optimizer = torch.optim.SGD([bias], lr=0.1)
    bias.sum().backward()
    optimizer.step()


def step_without_its_closure():
    weight = torch.ones(3, requires_grad=True)
    torch.optim.LBFGS([weight]).step()


def gradient_of_a_constant():
    weight = torch.ones(3, requires_grad=True)
    image = torch.ones(3)
    score = (weight * image).sum()
    torch.autograd.grad(score, image)


def gradient_of_what_is_not_used():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    torch.autograd.grad(a.sum(), (a, b))


def too_few_seeds():
    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad([x.sin(), x.cos()], x, grad_outputs=[torch.ones(2)])


def hook_on_a_constant():
    mask = torch.ones(3)
    mask.register_hook(print)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize(
    ("act", "kind", "said"),
    [
        (
            write_into_leaf,
            "outside-backward",
            "weight is a leaf that requires a gradient, and weight[0] = 1.0 (test_error_facts.py:",
        ),
        (write_into_view_of_leaf, "outside-backward", "part is a view of weight, which requires a gradient"),
        (write_into_view_from_no_grad, "outside-backward", "part is a view of weight that was made under no_grad"),
        (write_into_custom_output, "outside-backward", "same is what Same returned of its own input"),
        (write_behind_a_hook, "outside-backward", "net.1 (ReLU), called at test_error_facts.py:"),
        (inference_in_the_forward, "outside-backward", "mask was made under torch.inference_mode(), and weight * mask"),
        (to_numpy, "outside-backward", "hidden requires a gradient, and hidden.numpy()"),
        (deep_copy, "outside-backward", "layer.hidden is the result of a computation"),
        (optimize_a_result, "outside-backward", "moved is no leaf"),
        (optimize_nothing, "outside-backward", "torch.optim.SGD([], lr=0.1) (test_error_facts.py:"),
        (sparse_step, "sparse-gradient", "torch.optim.Adam(table.parameters()).step() (test_error_facts.py:"),
        (step_after_a_resize, "outside-backward", "weight is float32 [4] on cpu, but its gradient is float32 [3] on cpu"),
        (gradient_of_another_shape, "outside-backward", "weight is float32 [3] on cpu, and weight.grad = torch.ones(4)"),
        (gradient_of_integers, "outside-backward", "the tensor is of integers"),
        (gradient_that_is_not_there, "nonleaf-grad", "weight.grad is None at weight.grad.zero_"),
        (gradient_never_made, "missing-gradient", "weight.grad is None at 2 * weight.grad"),
        (parameter_rebound, "outside-backward", "layer.weight = layer.weight * 2 (test_error_facts.py:"),
        (write_into_expanded, "outside-backward", "several elements of bias lie on one number in memory"),
        (step_of_an_expanded_parameter, "outside-backward", "several elements of bias lie on one number in memory"),
        (step_without_its_closure, "outside-backward", "torch.optim.LBFGS([weight]).step() (test_error_facts.py:"),
        (gradient_of_a_constant, "missing-gradient", "torch.autograd.grad(score, image) (test_error_facts.py:"),
        (gradient_of_what_is_not_used, "missing-gradient", "torch.autograd.grad(a.sum(), (a, b)) (test_error_facts.py:"),
        (too_few_seeds, "seed-mismatch", "torch.autograd.grad([x.sin(), x.cos()], x, grad_outputs=[torch.ones(2)])"),
        (hook_on_a_constant, "outside-backward", "no gradient will reach mask, which requires none"),
    ],
)
def test_names_the_tensor_and_the_line(act: Callable[[], object], kind: str, said: str) -> None:
    [finding] = explained(act)
    first = act.__code__.co_firstlineno
    assert (finding.kind, finding.severity, finding.file) == (kind, "error", __file__)
    assert finding.message.startswith(said)
    assert first < finding.line <= first + 6
    assert finding.hint


def test_a_hook_and_its_module_are_named() -> None:
    [finding] = explained(write_behind_a_hook)
    assert "into the output of net.0 (Linear), which the full backward hook" in finding.message
    assert [other.what for other in finding.related] == ["the hook write_behind_a_hook.<lambda>"]
    assert finding.related[0].line == finding.line - 1


@pytest.mark.parametrize(
    "act",
    [
        lambda: 1 / 0,
        lambda: {}["gradient"],
        lambda: torch.ones(2) @ torch.ones(3),
        lambda: torch.ones(2).view(5),
        lambda: nn.Linear(2, 2)(torch.ones(3)),
        lambda: torch.ones(3).item(),
    ],
)
def test_what_has_nothing_to_do_with_autograd_is_left_alone(act: Callable[[], object]) -> None:
    assert explained(act) == []


def test_what_the_person_raises_is_left_alone() -> None:
    def check() -> None:
        raise RuntimeError("the gradient of a leaf is used in-place by backward")

    assert explained(check) == []


def test_a_backward_call_is_explained_by_its_message() -> None:
    def twice() -> None:
        loss = torch.ones(3, requires_grad=True).exp().sum()
        loss.backward()
        loss.backward()

    def vector() -> None:
        scores = torch.ones(3, requires_grad=True) * 2
        scores.backward()

    def constant() -> None:
        loss = torch.ones(3).sum()
        loss.backward()

    found = [explained(act)[0] for act in (twice, vector, constant)]
    assert [(one.kind, one.call) for one in found] == [("freed-graph", 1), ("nonscalar-root", 1), ("no-graph", 1)]
    assert found[1].message.startswith("scores has shape [3], and scores.backward()")
    assert found[2].message.startswith("loss has no graph behind it")


@pytest.mark.parametrize(("act", "leaf"), [(gradient_of_a_constant, "image"), (gradient_of_what_is_not_used, "b")])
def test_the_input_without_a_gradient_is_named(act: Callable[[], object], leaf: str) -> None:
    [finding] = explained(act)
    assert finding.leaf == leaf
    assert f"asks for the gradient of {leaf}" in finding.message
