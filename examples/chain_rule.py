"""The chain rule, one factor at a time: y = g(h(x)) with h(x) = x² and g(u) = exp(-u), at x = 0.5.

Look at: the Step tab of each node: what arrives × local derivative = what it sends.
    n        ExpBackward0: 1 × exp(-u)    NegBackward0: × -1    PowBackward0: × 2x
    p        on x: the factors along the path from the root, and their product

By hand, with u = x² = 0.25:

    dg/du = -exp(-u) = -0.778801        dh/dx = 2x = 1        dy/dx = dg/du · dh/dx = -0.778801
"""

import math

import torch


def h(x: torch.Tensor) -> torch.Tensor:
    return x**2


def g(u: torch.Tensor) -> torch.Tensor:
    return torch.exp(-u)


x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
u = h(x)
y = g(u)
y.backward()

dg_du = -math.exp(-u.item())
dh_dx = 2 * x.item()
print(f"dg/du · dh/dx = {dg_du:.6f} · {dh_dx:.6f} = {dg_du * dh_dx:.6f}")
print(f"x.grad        = {x.grad.item():.6f}")
assert math.isclose(x.grad.item(), dg_du * dh_dx, rel_tol=1e-12)
assert f"{x.grad.item():.6f}" == "-0.778801"
