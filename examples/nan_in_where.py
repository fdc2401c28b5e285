"""A classic bug: torch.where picks the safe branch, and the gradient is NaN all the same.

Look at: the finding. x[0] = 0 is handled by the safe branch, yet sqrt(0) has an infinite derivative; where() sends 0 into the
branch that was not picked, and 0 · inf is NaN.
    a        to the finding: SqrtBackward0, element [0], where the first NaN is made; what it says stands in pane 5
             pane 3, the Node: 0 arrives, × local derivative inf, = nan is sent to x
    v        the same gradients full screen: what arrives, and with ] what is sent; Esc to come back
    >        on to the second call: the cure, and no finding

The cure: make the input of the branch safe before the function that blows up.
"""

import torch

x = torch.tensor([0.0, 4.0], requires_grad=True)

root = torch.sqrt(x)
safe = torch.where(x > 0, root, torch.zeros_like(x))
safe.sum().backward()
print("forward:        ", safe.tolist())
print("x.grad:         ", x.grad.tolist())
assert safe.tolist() == [0.0, 2.0]
assert x.grad[0].isnan()
assert x.grad[1].item() == 0.25  # 1 / (2 · sqrt(4))

x.grad = None
inside = torch.where(x > 0, x, torch.ones_like(x))
torch.where(x > 0, torch.sqrt(inside), torch.zeros_like(x)).sum().backward()
print("x.grad, cured:  ", x.grad.tolist())
assert x.grad.tolist() == [0.0, 0.25]
