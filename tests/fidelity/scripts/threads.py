"""Sets the number of threads before it imports torch: with another number the sums come out in another order."""

import os

os.environ["OMP_NUM_THREADS"] = "2"

import hashlib

import torch

torch.manual_seed(0)
net = torch.nn.Linear(300, 300)
for _ in range(3):
    net(torch.randn(2000, 300)).tanh().sum().backward()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter -= 1e-4 * parameter.grad
    print(hashlib.sha256(bytes(net.weight.detach().view(-1).view(torch.uint8).tolist())).hexdigest())
print(torch.get_num_threads())
