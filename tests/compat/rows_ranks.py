"""Rows of the compatibility suite that need two ranks: DDP and FSDP2 over gloo. `ranks.py` runs them, the same on each rank."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from harness import Rows
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rows = Rows()
AVERAGED = "DistributedDataParallel averages gradients over the ranks"
SHARDED = "with FSDP all ranks must run the pass"


class Branches(nn.Module):
    """One of its layers is not used by every rank."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.seldom = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x).tanh()
        return self.second(h) + (self.seldom(h) if dist.get_rank() else 0)


def share() -> torch.Tensor:
    """This rank's part of the data."""
    return torch.randn(2, 2, 3)[dist.get_rank()]


def trained(net: DistributedDataParallel, steps: int = 2) -> Any:
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        net(share()).square().sum().backward()
        optimizer.step()
    return list(net.state_dict().values()), [parameter.grad for parameter in net.parameters()]


def dense() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 2))


@rows.add("DDP", why=AVERAGED, calls=2, commit="unchecked", recorded="unchecked", values=False)
def ddp() -> object:
    return trained(DistributedDataParallel(dense()))


@rows.add(
    "DDP, gradients that are views of its buckets", why=AVERAGED, calls=2, commit="unchecked", recorded="unchecked", values=False
)
def ddp_bucket_views() -> object:
    return trained(DistributedDataParallel(dense(), gradient_as_bucket_view=True))


@rows.add("DDP with `find_unused_parameters`", why=AVERAGED, calls=2, commit="unchecked", recorded="unchecked", values=False)
def ddp_unused() -> object:
    return trained(DistributedDataParallel(Branches(), find_unused_parameters=True))


@rows.add("DDP with `no_sync`", calls=2)
def ddp_no_sync() -> object:
    net = DistributedDataParallel(dense())
    with net.no_sync():
        for _ in range(2):
            net(share()).square().sum().backward()
    return [parameter.grad for parameter in net.parameters()]


@rows.add(
    "DDP with `static_graph`",
    expect="recorded",
    why="with static_graph DistributedDataParallel would reduce gradients in this pass too",
    commit="unchecked",
    exact="unchecked",
    calls=2,
    values=False,
)
def ddp_static() -> object:
    return trained(DistributedDataParallel(dense(), static_graph=True))


@rows.add("FSDP2 (`fully_shard`)", expect="recorded", why=SHARDED, calls=2, exact="unchecked", values=False)
def fsdp() -> object:
    from torch.distributed.fsdp import fully_shard

    net = dense()
    for layer in (net[0], net[3]):
        fully_shard(layer)
    fully_shard(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(share()).square().sum().backward()
        optimizer.step()
    return [parameter.to_local() for parameter in net.parameters()]


@rows.add("DTensor parameters", values=False)
def dtensor() -> object:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2,))
    weight = distribute_tensor(torch.randn(4, 3), mesh, [Shard(0)]).requires_grad_()
    x = distribute_tensor(torch.randn(2, 3), mesh, [Replicate()])
    (x @ weight.mT).square().sum().backward()
    return weight.grad.to_local()
