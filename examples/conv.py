"""A small convolutional classifier: convolutions, batch norm, pooling, cross entropy.

Look at: shapes growing again on the way back, and what pooling and ReLU let through.
    n        to MaxPool2DWithIndicesBackward0: three quarters of what it sends is zero, only the winners get a gradient
    v        the values of a gradient, full screen: index by typing 0,3,:,:
    f        line by line: the forward code in reverse
"""

import torch
from torch import nn

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 8, 3, padding=1)
        self.head = nn.Linear(8 * 4 * 4, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm1(self.conv1(images)))
        x = nn.functional.max_pool2d(x, 2)
        x = torch.relu(self.conv2(x))
        x = nn.functional.max_pool2d(x, 2)
        return self.head(x.flatten(1))


images = torch.randn(6, 1, 16, 16)
labels = torch.tensor([0, 1, 2, 0, 1, 2])

model = Classifier()
logits = model(images)
logits.retain_grad()
loss = nn.functional.cross_entropy(logits, labels)
loss.backward()

# What arrives at the logits is (softmax - one-hot) / batch size: each row sums to zero.
expected = (logits.detach().softmax(1) - nn.functional.one_hot(labels, 3)) / len(labels)
print(f"loss = {loss.item():.4f}")
print("gradient of the first logits =", [round(value, 4) for value in logits.grad[0].tolist()])
assert torch.allclose(logits.grad, expected, atol=1e-6)
assert model.conv1.bias.grad.abs().max() < 1e-6  # batch norm takes the mean away: this bias has no effect
