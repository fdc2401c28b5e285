"""An LSTM cell unrolled by hand over eight steps: the same four weights get one contribution for each step.

Look at: how the gradient travels back in time through `cell`, and how the weights add up.
    m        to the end of a module: the loss, the head, then one call of the cell after the other, the last one first
    5        Leaves: cell.weight_hh 1/8, 2/8, …; select it and see each contribution in the Node pane
    d u      follow an edge toward the leaves, or toward the loss
"""

import torch
from torch import nn

torch.manual_seed(0)


class Reader(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, width)
        self.head = nn.Linear(width, 1)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        hidden = sequence.new_zeros(sequence.shape[1], self.cell.hidden_size)
        memory = torch.zeros_like(hidden)
        for step in sequence:
            hidden, memory = self.cell(step, (hidden, memory))
        return self.head(hidden)


sequence = torch.randn(8, 4, 3)  # eight steps, a batch of four
target = sequence[0, :, :1]  # remember the first thing seen

reader = Reader(5)
loss = nn.functional.mse_loss(reader(sequence), target)
loss.backward()

print(f"loss = {loss.item():.4f}")
for name, parameter in reader.named_parameters():
    print(f"{name:15} ‖grad‖ = {parameter.grad.norm().item():.4f}")
assert all(parameter.grad.abs().sum() > 0 for parameter in reader.parameters())
