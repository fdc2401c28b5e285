"""A classic bug: a layer that never learns, because its output was cut off the graph.

Look at: the Leaves pane. `encoder` owns two parameters that the optimizer steps, and no pass reaches them.
    5        Leaves: encoder.weight and encoder.bias are "not used", and SGD[0] steps them; head.weight and head.bias get theirs
    a        to the finding, which lists what may have cut the graph: here it is the detach() in forward
    >        the next call: the same again

The cure: leave out .detach() in forward. To freeze a layer on purpose, say so: encoder.requires_grad_(False).
"""

import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, 3)
        self.head = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = torch.tanh(self.encoder(x)).detach()  # the bug
        return self.head(features)


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
before = model.encoder.weight.detach().clone()

for epoch in range(3):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch}: loss = {loss.item():.4f}  encoder.weight.grad = {model.encoder.weight.grad}")

print("encoder moved:", not torch.equal(before, model.encoder.weight))
assert model.encoder.weight.grad is None
assert model.head.weight.grad is not None
assert torch.equal(before, model.encoder.weight)
