"""Two linear layers with a ReLU, a squared error and SGD: zero_grad, backward, step, over and over.

Look at: how one pass runs through the net from the loss back to fc1, and what it leaves in each parameter.
    n        node by node; f line by line of the forward code in reverse; m to the end of a module
    5        Leaves: what .grad was, the norm of what has come so far, and the optimizer that owns it (SGD[0])
    >        the next backward call; .grad was None again, because zero_grad came before it
    b        on a line or node sets a breakpoint: b, then r
"""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(2, 8)
        self.fc2 = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.fc1(x))
        return self.fc2(hidden)


x = torch.rand(32, 2) * 2 - 1
y = torch.relu(x[:, :1]) - 0.5 * x[:, 1:]

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.3)

losses = []
for epoch in range(60):
    optimizer.zero_grad()
    prediction = net(x)
    loss = nn.functional.mse_loss(prediction, y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if epoch % 10 == 0:
        print(f"epoch {epoch:2}: loss = {losses[-1]:.4f}")

print(f"loss: {losses[0]:.4f} at first, {losses[-1]:.4f} after {len(losses)} epochs")
assert losses[-1] < losses[0] / 4
