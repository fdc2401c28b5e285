"""torchdiffeq: an ODE whose gradient is another ODE, solved backwards inside a custom Function."""

import torch
from keep import keep
from torchdiffeq import odeint_adjoint


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def forward(self, t, y):
        return self.net(y) * (1 + t)


torch.manual_seed(0)
field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=1e-2)
times = torch.linspace(0.0, 1.0, 3)
start = torch.randn(4, 2)
for _ in range(3):
    path = odeint_adjoint(field, start, times, method="rk4", options={"step_size": 0.25})
    loss = (path[-1] - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
keep(field)
