"""Rows about in-place operations, views and named tensors."""

from __future__ import annotations

import torch
from harness import Rows
from torch import autograd

rows = Rows()


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers or (1.0, 2.0, 3.0, 4.0), requires_grad=True)


@rows.add("in-place operations, on a clone of a leaf and on inner tensors")
def inplace() -> object:
    x = leaf()
    y = x.clone()
    y.mul_(2).sin_()
    z = y * 1
    z += x
    z.clamp_(-1, 1).neg_()
    (z * z).sum().backward()
    return x.grad


@rows.add("in-place through a view (CopySlices), chained, and after the base was used")
def copy_slices() -> object:
    x = leaf()
    y = x.clone()
    y[1:].mul_(3)
    y[:2][1:].cos_()
    y.view(2, 2)[0].sin_()
    before = y * 1
    y[3] = x[0] * 2
    (y * before).sum().backward()
    return x.grad


@rows.add("views with strides (`as_strided`, `unfold`, `expand`, `diagonal`, overlapping)", calls=2)
def as_strided() -> object:
    x = leaf()
    y = x * 2
    overlapping = y.as_strided((3, 2), (1, 1))
    (overlapping * overlapping.exp()).sum().backward()
    y = x * 2
    y.as_strided((2,), (2,)).mul_(3)
    windows = y.unfold(0, 2, 1).expand(2, 3, 2)
    (windows.sin().sum() + torch.diagonal(y.view(2, 2)).prod()).backward()
    return x.grad


@rows.add("multi-output views (`split`, `unbind`)")
def multi_view() -> object:
    x = leaf()
    y = x * 2
    a, b = y.split(2)
    c, d = b.unbind()
    (a * c + d).sum().backward()
    return x.grad


@rows.add(
    "an in-place edit that breaks the graph: torch's error",
    exact="unchecked",
    commit="unchecked",
    why="has been modified by an inplace operation",
    what="explored up to there, with the error and its node; your call raises as ever",
    values=False,
)
def broken_by_inplace() -> object:
    x = leaf()
    y = x.exp()
    z = y * y
    y.add_(1)
    try:
        z.sum().backward()
    except RuntimeError as error:
        return str(error), x.grad


@rows.add("indexing, `index_put_`, `scatter_`, masks, `where`, `gather`")
def indexing() -> object:
    x = leaf()
    y = torch.zeros(6)
    y[torch.tensor([0, 2, 2])] = x[:3]
    y.index_put_((torch.tensor([1, 1, 4]),), x[1:], accumulate=True)
    y = y.scatter_add(0, torch.tensor([5, 5, 0, 1]), x)
    y[y > 2] *= 2
    y = torch.where(y > 1, y.sin(), y)
    y.gather(0, torch.tensor([5, 0, 0, 3])).square().sum().backward()
    return x.grad


@rows.add("`.data`, `detach()` and `no_grad` edits in the graph's tensors")
def data_edits() -> object:
    x = leaf()
    y = x * 2
    z = y * y
    y.data.mul_(0.5)  # torch does not see it: the gradient is that of the new numbers
    with torch.no_grad():
        x.add_(1)
    (z + y.detach() * x).sum().backward()
    return x.grad


@rows.add("a parameter edited in place between two backward calls, `.grad` kept, zeroed, shared", calls=3)
def grad_kept() -> object:
    x = leaf()
    (x * x).sum().backward()
    kept = x.grad
    with torch.no_grad():
        x -= 0.1 * x.grad
    (x * x).sum().backward()
    x.grad.zero_()
    (x.exp()).sum().backward()
    return x.grad, kept, kept is x.grad


@rows.add("named tensors, in the versions of torch that have them")
def named() -> object:
    x = leaf()
    h = (x * 2).view(2, 2)
    if hasattr(h, "rename"):
        (h.rename("batch", "feature").sum("feature").rename(None) * 3).square().sum().backward()
    else:
        (h.sum(1) * 3).square().sum().backward()
    return x.grad


@rows.add("`inference_mode` tensors and `requires_grad_()` of inner results")
def inference() -> object:
    with torch.inference_mode():
        constant = torch.arange(4.0) * 2
    x = leaf()
    constant = constant.clone()
    y = (x.detach() * 2).requires_grad_()
    (y * constant + x * y).sum().backward()
    return x.grad, y.grad


@rows.add("0-dim and empty tensors")
def tiny() -> object:
    x, nothing = torch.tensor(2.0, requires_grad=True), torch.zeros(0, 3, requires_grad=True)
    y = torch.cat([nothing, x.exp().expand(1, 3)]).sum() + nothing.sum()
    y.backward()
    return x.grad, nothing.grad


@rows.add("a gradient that is undefined on some paths")
def undefined() -> object:
    x = leaf()
    values, index = x.sort()
    mean, variance = torch.var_mean(x)
    (values.detach() * x + mean.detach()).sum().backward()
    return x.grad, index, variance


@rows.add("a deep graph (2,000 nodes), one wide sum (300 contributions)", calls=2)
def deep_and_wide() -> object:
    x = leaf(0.5)
    y = x
    for _ in range(1000):
        y = (y * 1.0001).sin()
    y.sum().backward()
    torch.stack([x * number for number in range(300)]).sum().backward()
    return x.grad


@rows.add("a call in a thread of its own, and one after it", calls=2)
def in_a_thread() -> object:
    import threading

    x, y = leaf(), leaf()
    thread = threading.Thread(target=lambda: (x.exp() * x).sum().backward())
    thread.start()
    thread.join()
    (y * y).sum().backward()
    return x.grad, y.grad


@rows.add("`autograd.grad` under `no_grad`, graphs made under nested grad modes")
def grad_modes() -> object:
    x = leaf()
    with torch.set_grad_enabled(False):
        constant = x * 2
    with torch.no_grad(), torch.enable_grad():
        y = (x * constant).sum()
    with torch.no_grad():
        return autograd.grad(y, x), constant.requires_grad
