"""Rows about custom Functions, of every style there is."""

from __future__ import annotations

from typing import Any

import torch
from harness import Rows
from torch import autograd
from torch.autograd import Function
from torch.autograd.function import once_differentiable

rows = Rows()


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers or (1.0, 2.0), requires_grad=True)


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Scale(Function):
    """With setup_context, a generated vmap rule and an argument that is no tensor."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, float], output: torch.Tensor) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        return g * ctx.factor, None


class Mapped(Function):
    """With a vmap staticmethod of its own."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * ctx.saved_tensors[0].cos()

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None], x: torch.Tensor) -> tuple[torch.Tensor, int | None]:
        return Mapped.apply(x), in_dims[0]


@rows.add("custom Function with `ctx`, with `setup_context`, with arguments that are no tensors", calls=2)
def plain() -> object:
    x = leaf()
    (Square.apply(x) * Scale.apply(x, 3.0)).sum().backward()
    Scale.apply(Square.apply(x.sin()), 2.0).backward(torch.tensor([1.0, 10.0]))
    return x.grad


@rows.add("custom Function under `vmap` (generated rule, and one of its own)", calls=1)
def mapped() -> object:
    x = torch.randn(3, 2, requires_grad=True)
    out = torch.func.vmap(lambda row: Mapped.apply(row) + Scale.apply(row, 2.0))(x)
    out.sum().backward()
    return x.grad


class Once(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * ctx.saved_tensors[0].exp()


@rows.add("`once_differentiable`", calls=1)
def once() -> object:
    x = leaf()
    Once.apply(x * 2).sum().backward()
    return x.grad


@rows.add("double backward through a custom Function", calls=2)
def twice() -> object:
    x = leaf()
    (first,) = autograd.grad((Square.apply(x) * x).sum(), x, create_graph=True)
    first.sum().backward()
    return first, x.grad


@rows.add(
    "double backward through `once_differentiable`: torch's error",
    exact=("true", "unchecked"),
    commit=("unchecked", "unchecked"),
    why="marked with @once_differentiable",
    what="the first call explored and exact, the second with torch's error and its node",
    calls=2,
    values=False,
)
def twice_once() -> object:
    x = leaf()
    (first,) = autograd.grad((Once.apply(x) * x).sum(), x, create_graph=True)
    try:
        first.sum().backward()
    except RuntimeError as error:
        return str(error), x.grad


class Split(Function):
    """Many outputs, one of them integer, one not differentiable; undefined gradients stay None."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        index, rest = x.argsort(), x.detach().clone()
        ctx.mark_non_differentiable(index, rest)
        return x * 2, y * 3, index, rest

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        a, b, _, _ = given
        return None if a is None else a * 2, None if b is None else b * 3, None


@rows.add("many outputs, `mark_non_differentiable`, `set_materialize_grads(False)`, None gradients", calls=2)
def split() -> object:
    x, y, z = leaf(), leaf(3.0, 4.0), leaf(5.0, 6.0)
    a, b, index, rest = Split.apply(x, y * 1, z * 1)
    (a[index] * rest).sum().backward()
    a, b, _, _ = Split.apply(x, y * 1, z * 1)
    (a + b).sum().backward()
    return x.grad, y.grad, z.grad, index


class AddOne(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g.clone()


class Flip(Function):
    """Gives its input back; as a view of it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x.view(-1)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return -g - h.view_as(g)


@rows.add("`mark_dirty`, also on a view; outputs that are inputs or views", calls=3)
def dirty() -> object:
    x = leaf()
    h = x * 2
    AddOne.apply(h)
    h.square().sum().backward()
    h = x * 2
    AddOne.apply(h[:1])
    h.square().sum().backward()
    same, viewed = Flip.apply(x * 1)
    (same.sin() * viewed).sum().backward()
    return x.grad


class Outer(Function):
    """Runs autograd inside both of its halves."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            inner = x.detach().requires_grad_()
            out = Square.apply(inner).exp()
        ctx.inner, ctx.out = inner, out
        return out.detach()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (gradient,) = autograd.grad(ctx.out, ctx.inner, g, retain_graph=True)
        return gradient


@rows.add("a Function that runs autograd in its backward (nested `grad`)")
def nested_grad() -> object:
    x = leaf(0.5, 0.25)
    Outer.apply(x.sin()).sum().backward()
    return x.grad


class Freed(Outer):
    """The same, and its inner graph is freed: it can run once."""

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (gradient,) = autograd.grad(ctx.out, ctx.inner, g)
        return gradient


class Trained(Function):
    """Its backward calls backward(): on weights of its own, as reentrant checkpoint does."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: list[torch.Tensor]) -> torch.Tensor:
        ctx.save_for_backward(x)
        (ctx.weight,) = weight
        return (x * ctx.weight).exp()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (x * ctx.weight).exp().backward(g)
        return x.grad, None


@rows.add("a Function whose backward calls `backward()` on other leaves")
def nested_backward() -> object:
    x, weight = leaf(0.5, 0.25), leaf(2.0, 3.0)
    (Trained.apply(x.sin(), [weight]) * 2).sum().backward()
    return x.grad, weight.grad


@rows.add(
    "a Function whose backward calls `backward()` on leaves that the outer pass reaches too",
    commit="unchecked",
    why="a backward pass inside this one writes its .grad too",
    what="explored and recorded; the leaves that both write are not compared",
    recorded="unchecked",
    values=False,
)
def nested_backward_shared() -> object:
    x, weight = leaf(0.5, 0.25), leaf(2.0, 3.0)
    (Trained.apply(x.sin(), [weight]) * weight).sum().backward()
    return x.grad, weight.grad


class Consuming(Function):
    """Takes apart what its forward kept, and uses the saved tensor's memory for its result."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x * 1)
        ctx.stack, ctx.table, ctx.scratch, ctx.state = [x * 2], {"factor": [3.0]}, torch.ones(2), {"left": {1}}
        return x * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        twice, factor = ctx.stack.pop(), ctx.table.pop("factor").pop()
        ctx.state["left"].remove(1)
        del ctx.state
        ctx.scratch.mul_(factor)
        (saved,) = ctx.saved_tensors
        saved.data.mul_(0)  # torch does not see it
        return g * twice * ctx.scratch / 3 + saved


@rows.add(
    "a backward that consumes what `ctx` holds (lists, dicts, attributes, tensors in place)",
    why="all was put back",
    what="explored and recorded, exact; what it consumed is put back after each pass",
)
def consuming() -> object:
    x = leaf()
    Consuming.apply(x.sin()).sum().backward()
    return x.grad


class Inplace(Function):
    """Multiplies what it saved in place, as fused losses do."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x.cos())
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (slope,) = ctx.saved_tensors
        return slope.mul_(g)


@rows.add(
    "a backward that edits what it saved in place",
    why="all was put back",
    what="explored and recorded, exact; what it edited is put back after each pass",
)
def inplace_saved() -> object:
    x = leaf()
    Inplace.apply(x * 2).sum().backward()
    return x.grad


class Counting(Function):
    """Draws random numbers, prints, warns and counts in its backward."""

    runs = 0
    seen: list[int] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        Counting.seen.append(len(Counting.seen))
        print("backward", len(Counting.seen))
        return g * torch.rand(2)


@rows.add("a backward that draws random numbers, prints and counts", why="variables that hooks or custom Functions write")
def counting() -> object:
    Counting.seen.clear()
    x = leaf()
    Counting.apply(x * 2).sum().backward()
    return x.grad, list(Counting.seen)


class Failing(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        raise ValueError("no gradient today")


@rows.add(
    "a backward that raises",
    exact="unchecked",
    commit="unchecked",
    why="no gradient today",
    what="explored up to there, with the error and its node; your call raises as ever",
    values=False,
)
def failing() -> object:
    x, y = leaf(), leaf(3.0, 4.0)
    (y.exp() * Failing.apply(x * 2)).sum().backward()


@rows.add("a backward that runs autograd over a graph that the forward made, and frees it")
def freed_inside() -> object:
    x = leaf(0.5, 0.25)
    Freed.apply(x.sin()).sum().backward()
    return x.grad
