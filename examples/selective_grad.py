"""torch.autograd.grad for chosen inputs only: nothing is added to any .grad, and what was not asked for is not worked out.

Look at: the call's `inputs`; the pass only runs the nodes on a way from the loss to them.
    5        Leaves: w is an input and gets its gradient; x and c are not asked for, so the pass does not reach them
    c        to the end: the gradient of w is [16, -8]
    >        on to the second call, which asks for x and for hidden, no leaf at all

By hand, with x = (2, -1), w = (1, 3), c = 5:

    hidden = w·x = 2 - 3 = -1        loss = (hidden + c)² = 16
    d loss / d hidden = 2·(hidden + c) = 8
    d loss / d w = 8·x = [16, -8]    d loss / d x = 8·w = [8, 24]
"""

import torch

x = torch.tensor([2.0, -1.0], requires_grad=True)
w = torch.tensor([1.0, 3.0], requires_grad=True)
c = torch.tensor(5.0, requires_grad=True)

hidden = torch.dot(w, x)
loss = (hidden + c) ** 2

(grad_w,) = torch.autograd.grad(loss, w, retain_graph=True)
grad_x, grad_hidden = torch.autograd.grad(loss, [x, hidden])

print("loss        =", loss.item())
print("grad w      =", grad_w.tolist())
print("grad x      =", grad_x.tolist())
print("grad hidden =", grad_hidden.item())
print(".grad       =", x.grad, w.grad, c.grad)
assert loss.item() == 16.0
assert grad_w.tolist() == [16.0, -8.0]
assert (grad_x.tolist(), grad_hidden.item()) == ([8.0, 24.0], 8.0)
assert x.grad is w.grad is c.grad is None
