"""A model called as f(*tensors) that joins its inputs: which input gets which part of the gradient?

Look at: CatBackward0, which cuts the gradient that arrives into one piece for each input.
    n        to CatBackward0; its Step tab lists three targets: a, b and c
    5        Leaves: a.grad [1, 2], b.grad [3], c.grad [4, 5, 6]; scale is reached through every one
    u d      from a leaf toward the loss and back

By hand: out = scale · w · [a, b, c] with w = [1, 2, 3, 4, 5, 6] and scale = 1: each input's gradient is its own piece of w, and
d out / d scale = w · [a, b, c] = 1·1 + 2·1 + 3·2 + 4·0 + 5·1 + 6·(-1) = 8.
"""

import torch
from torch import nn


class Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        joined = torch.cat(tensors)
        return torch.dot(torch.arange(1.0, 7.0), joined) * self.scale


a = torch.tensor([1.0, 1.0], requires_grad=True)
b = torch.tensor([2.0], requires_grad=True)
c = torch.tensor([0.0, 1.0, -1.0], requires_grad=True)

f = Joined()
out = f(a, b, c)
out.backward()

print("out    =", out.item())
print("a.grad =", a.grad.tolist())
print("b.grad =", b.grad.tolist())
print("c.grad =", c.grad.tolist())
print("scale  =", f.scale.grad.item())
assert (a.grad.tolist(), b.grad.tolist(), c.grad.tolist()) == ([1.0, 2.0], [3.0], [4.0, 5.0, 6.0])
assert out.item() == f.scale.grad.item() == 8.0
