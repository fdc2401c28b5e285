"""Gradient accumulation: four micro-batches, one optimizer step, the gradient of the whole batch.

Look at: the Node of model.weight at each of the four stops: "was" is None at first, then what the calls before left there.
    c        to the end, where model.weight is: was, the total of this call, and what .grad becomes
    >        the next micro-batch: was is now what .grad became before
    s *4     Enter: what would happen without dividing the loss by four

By hand: the mean over a batch of eight is the mean of the means over four batches of two, so each loss is divided by four.
"""

import torch
from torch import nn

torch.manual_seed(0)

x, y = torch.randn(8, 3), torch.randn(8, 1)
model = nn.Linear(3, 1)

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.zero_grad()
for part_x, part_y in zip(x.split(2), y.split(2), strict=True):
    loss = nn.functional.mse_loss(model(part_x), part_y) / 4
    loss.backward()
    print("weight.grad so far:", [round(value, 5) for value in model.weight.grad[0].tolist()])

(whole,) = torch.autograd.grad(nn.functional.mse_loss(model(x), y), model.weight)
print("of the whole batch:", [round(value, 5) for value in whole[0].tolist()])
assert torch.allclose(model.weight.grad, whole, atol=1e-6)
optimizer.step()
