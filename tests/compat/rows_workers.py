"""Rows of the compatibility suite about processes of the script's own: each is the text of a script."""

from __future__ import annotations

from harness import Row

WORKERS = r"""
import multiprocessing

import torch


def work(number, queue):
    x = torch.full((2,), float(number), requires_grad=True)
    (x.exp() * x).sum().backward()
    queue.put((number, x.grad.tolist()))


def main():
    w = torch.ones(2, requires_grad=True)
    (w * 3).sum().backward()
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        workers = [context.Process(target=work, args=(number, queue)) for number in (1, 2)[: 2 if method == "fork" else 1]]
        for worker in workers:
            worker.start()
        print(*sorted(queue.get() for _ in workers), sep="\n")
        for worker in workers:
            worker.join()
        print(method, [worker.exitcode for worker in workers])
    (w * 3).sum().backward()
    print(w.grad.tolist())


if __name__ == "__main__":
    main()
"""

LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset


class Gradients(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, place):
        x = torch.tensor([float(place)], requires_grad=True)
        x.sin().sum().backward()
        return x.grad


torch.manual_seed(0)
net = torch.nn.Linear(1, 1)
for batch in DataLoader(Gradients(), batch_size=2, num_workers=2, shuffle=True):
    net(batch).sum().backward()
print(net.weight.grad.tolist(), net.bias.grad.tolist(), torch.rand(1).item())
"""

CHILDREN = "your own process explored and recorded; worker processes run as without gradscope"
rows = [
    Row("forked and spawned workers that call `backward()`", what=CHILDREN, source=WORKERS, calls=2),
    Row("`torch.utils.data.DataLoader` with workers that call `backward()`", what=CHILDREN, source=LOADER, calls=2),
]
