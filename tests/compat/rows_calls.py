"""Rows about how backward is called: roots, inputs, seeds, higher derivatives, checkpoint, functional and torch.func."""

from __future__ import annotations

import torch
from harness import Rows
from torch import autograd, nn
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

rows = Rows()

REENTRANT = "reentrant checkpoint runs a whole backward call inside one node"
VECTORISED = "is_grads_batched gives every gradient a hidden dimension"


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers or (1.0, 2.0), requires_grad=True)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 2))


def gradients(module: nn.Module) -> list[torch.Tensor | None]:
    return [parameter.grad for parameter in module.parameters()]


# ---------------------------------------------------------------- roots


@rows.add("`backward()` of a scalar, of a vector with `gradient=`", calls=2)
def scalar_and_vector() -> object:
    x = leaf()
    (x.sin() * x).sum().backward()
    (x.cos() * x).backward(gradient=torch.tensor([1.0, 10.0]))
    return x.grad


@rows.add("many roots, one repeated, one the ancestor of another; a leaf as a root", calls=3)
def many_roots() -> object:
    x, y = leaf(), leaf(3.0, 4.0)
    a = x * y
    b = a.sum()
    autograd.backward([a, b, a], [torch.tensor([1.0, -1.0]), None, torch.tensor([2.0, 2.0])])
    autograd.backward([x, (x * 2).sum()], [torch.ones(2), torch.tensor(3.0)])
    x.backward(torch.tensor([5.0, 7.0]))
    return x.grad, y.grad


@rows.add("`GradientEdge` as root and as input", calls=2)
def gradient_edges() -> object:
    x = leaf()
    h = x.sin()
    y = h.exp().sum()
    edge, inner = get_gradient_edge(y), get_gradient_edge(h)
    first = autograd.grad([edge], [inner, x], [torch.tensor(2.0)], retain_graph=True)
    autograd.backward([edge], [torch.tensor(3.0)])
    return first, x.grad


@rows.add("`retain_graph=True`, twice and once more", calls=3)
def retained() -> object:
    x = leaf()
    y = (x.exp() * x).sum()
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@rows.add(
    "a second `backward()` over a freed graph",
    exact=("true", "unchecked"),
    commit=("true", "unchecked"),
    why="Trying to backward through the graph a second time",
    what="explored as far as it goes, with torch's error and the node that raised it",
    calls=2,
    values=False,
)
def freed() -> object:
    x = leaf()
    y = x.exp().sum()
    y.backward()
    try:
        y.backward()
    except RuntimeError as error:
        return str(error), x.grad


# ---------------------------------------------------------------- inputs


@rows.add("`backward(inputs=…)`, of leaves and of inner tensors", calls=3)
def inputs_of_backward() -> object:
    x, y = leaf(), leaf(3.0, 4.0)
    h = x * y
    h.retain_grad()
    z = (h.sin() + x).sum()
    z.backward(inputs=[x], retain_graph=True)
    z.backward(inputs=[h, y], retain_graph=True)
    z.backward(inputs=h)
    return x.grad, y.grad, h.grad


@rows.add("`autograd.grad` with `allow_unused`, inner and repeated inputs, `materialize_grads`", calls=4)
def inputs_of_grad() -> object:
    x, y, z = leaf(), leaf(3.0, 4.0), leaf(5.0, 6.0)
    h = x * y
    loss = (h.sin() + h * x).sum()
    return (
        autograd.grad(loss, [x, z], allow_unused=True, retain_graph=True),
        autograd.grad(loss, [h, x, h, x], retain_graph=True),
        autograd.grad(loss, [y, z], materialize_grads=True, retain_graph=True),
        autograd.grad([loss, h], [h], [None, torch.ones(2)]),
        x.grad,
    )


@rows.add("`autograd.grad` with `is_grads_batched`", expect="refused", why=VECTORISED)
def batched() -> object:
    x = leaf()
    y = x.sin() * x
    return autograd.grad(y, x, torch.eye(2), is_grads_batched=True)


# ---------------------------------------------------------------- calls that torch refuses


@rows.add(
    "a root that is no scalar, without a seed",
    expect="refused",
    why="grad can be implicitly created only for",
    what="explored with a seed that you type; else your call gets torch's error",
)
def no_scalar() -> object:
    x = leaf()
    (x * 2).backward()
    return x.grad


# ---------------------------------------------------------------- higher derivatives


@rows.add("double and third derivatives (`create_graph=True`)", calls=3)
def third_derivative() -> object:
    x = leaf(0.5, 1.5)
    (first,) = autograd.grad((x**4).sum(), x, create_graph=True)
    (second,) = autograd.grad(first.sum(), x, create_graph=True)
    second.sum().backward()
    return first, second, x.grad


@rows.add("`backward(create_graph=True)`, and a backward through `.grad`", calls=2)
def backward_of_grad() -> object:
    x = leaf()
    (x.exp() * x).sum().backward(create_graph=True)
    present = x.grad
    x.grad = None
    (present**2).sum().backward()
    return x.grad


@rows.add("a gradient penalty", calls=2)
def penalty() -> object:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 1)), torch.randn(5, 3, requires_grad=True)
    out = model(x).sum()
    (slope,) = autograd.grad(out, x, create_graph=True)
    (out + ((slope.norm(dim=1) - 1) ** 2).mean()).backward()
    return gradients(model), x.grad


# ---------------------------------------------------------------- checkpoint


@rows.add("checkpoint, non-reentrant, nested, with early stop off, and selective", unpacks=True, calls=4)
def checkpoint_plain() -> object:
    model, x = network(), torch.randn(5, 3, requires_grad=True)
    checkpoint(model, x, use_reentrant=False).sum().backward()

    def outer(value: torch.Tensor) -> torch.Tensor:
        return checkpoint(model[1:], model[0](value).sin(), use_reentrant=False) * 2

    checkpoint(outer, x, use_reentrant=False).sum().backward()
    with torch.utils.checkpoint.set_checkpoint_early_stop(False):
        checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
    selective = lambda: create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])  # noqa: E731
    checkpoint(model, x, use_reentrant=False, context_fn=selective).sum().backward()
    return gradients(model), x.grad


@rows.add("checkpoint with BatchNorm: its buffers", unpacks=True, calls=2)
def checkpoint_with_buffers() -> object:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)), torch.randn(6, 3)
    for _ in range(2):
        checkpoint(model, x, use_reentrant=False).square().sum().backward()
    return gradients(model), list(model.buffers())


@rows.add("checkpoint, reentrant, also nested", expect="recorded", why=REENTRANT, calls=2)
def checkpoint_reentrant() -> object:
    model, x = network(), torch.randn(5, 3, requires_grad=True)
    checkpoint(model, x.sin(), use_reentrant=True).sum().backward()

    def outer(value: torch.Tensor) -> torch.Tensor:
        return checkpoint(model[1:], model[0](value), use_reentrant=True) * 2

    checkpoint(outer, x * 2, use_reentrant=True).sum().backward()
    return gradients(model), x.grad


# ---------------------------------------------------------------- functional


@rows.add("`torch.autograd.functional` vjp, jvp, jacobian, hessian, vhp, hvp", calls=13)
def functional() -> object:
    f = autograd.functional
    x, v = torch.tensor([0.5, 1.5]), torch.tensor([1.0, 10.0])

    def vector(t: torch.Tensor) -> torch.Tensor:
        return t.sin() * t.flip(0)

    def scalar(t: torch.Tensor) -> torch.Tensor:
        return vector(t).square().sum()

    return (
        f.vjp(vector, x, v),
        f.jvp(vector, x, v),
        f.jacobian(vector, x),
        f.hessian(scalar, x),
        f.vhp(scalar, x, v),
        f.hvp(scalar, x, v),
    )


@rows.add("`torch.autograd.functional.jacobian(vectorize=True)`", expect="refused", why=VECTORISED)
def functional_vectorised() -> object:
    return autograd.functional.jacobian(lambda t: t.sin() * t.flip(0), torch.tensor([0.5, 1.5]), vectorize=True)


@rows.add("`torch.func` grad, vjp, jacrev, jacfwd, hessian, vmap, functional_call", expect="passed")
def func() -> object:
    model, x = network().eval(), torch.randn(3)
    parameters = dict(model.named_parameters())

    def loss(values: dict[str, torch.Tensor], t: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, values, (t,)).square().sum()

    _, pull = torch.func.vjp(model, x)
    return (
        torch.func.grad(loss)(parameters, x),
        torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, torch.randn(4, 3)),
        pull(torch.ones(2)),
        torch.func.jacrev(model)(x),
        torch.func.jacfwd(model)(x),
        torch.func.hessian(lambda t: model(t).sum())(x),
    )


@rows.add("`backward()` through `functional_call` and through `vmap`", calls=2)
def through_func() -> object:
    model, x = network().eval(), torch.randn(4, 3, requires_grad=True)
    scaled = {name: parameter * 2 for name, parameter in model.named_parameters()}
    torch.func.functional_call(model, scaled, (x,)).sum().backward()
    torch.func.vmap(lambda t: model(t).sin())(x).sum().backward()
    return gradients(model), x.grad


@rows.add("forward-mode AD (`torch.autograd.forward_ad`)", expect="passed")
def forward_mode() -> object:
    with autograd.forward_ad.dual_level():
        dual = autograd.forward_ad.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))
        return autograd.forward_ad.unpack_dual((dual * dual).sin()).tangent


@rows.add("forward-mode AD over a reverse pass", calls=1)
def forward_over_reverse() -> object:
    with autograd.forward_ad.dual_level():
        x = autograd.forward_ad.make_dual(leaf(), torch.tensor([1.0, 10.0]))
        (gradient,) = autograd.grad((x**3).sum(), x, create_graph=True)
        return gradient, autograd.forward_ad.unpack_dual(gradient).tangent
