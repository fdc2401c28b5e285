"""Rows about how backward is called."""

from __future__ import annotations

import torch
from harness import Rows

rows = Rows()


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, requires_grad=True)


@rows.add("`backward()` of a scalar")
def scalar() -> object:
    x = leaf(1.0, 2.0)
    (x.sin() * x).sum().backward()
    return x.grad
