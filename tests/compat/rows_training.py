"""Rows about what modules and training loops do round a backward pass."""

from __future__ import annotations

import copy

import torch
from harness import Rows
from torch import nn
from torch.nn.utils import parametrizations, parametrize, weight_norm
from torch.nn.utils import spectral_norm as old_spectral_norm
from torch.optim import swa_utils

rows = Rows()


def gradients(module: nn.Module) -> list[torch.Tensor | None]:
    return [parameter.grad for parameter in module.parameters()]


def step(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
    model(torch.randn(5, 3)).square().sum().backward()
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad()


class Symmetric(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).mT


@rows.add("parametrizations: of one's own, orthogonal, cached", calls=3)
def parametrization() -> object:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    parametrize.register_parametrization(model[0], "weight", Symmetric())
    parametrizations.orthogonal(model[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step(model, optimizer)
    step(model, optimizer)
    with parametrize.cached():
        (model(torch.randn(5, 3)) + model(torch.randn(5, 3))).square().sum().backward()
    return list(model.parameters()), gradients(model), model[0].weight


@rows.add("`spectral_norm` and `weight_norm`, old and new: their buffers", calls=4)
def norms() -> object:
    model = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(3, 4)),
        parametrizations.weight_norm(nn.Linear(4, 4)),
        old_spectral_norm(nn.Linear(4, 4)),
        weight_norm(nn.Linear(4, 2)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        step(model, optimizer)
    step(model.eval())
    return list(model.parameters()), gradients(model), list(model.buffers())


@rows.add("EMA and `swa_utils` (AveragedModel, SWALR, `update_bn`)", calls=4)
def averaged() -> object:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    ema = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True)
    swa, own = swa_utils.AveragedModel(model), copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = swa_utils.SWALR(optimizer, swa_lr=0.05)
    for _ in range(4):
        step(model, optimizer)
        ema.update_parameters(model)
        swa.update_parameters(model)
        schedule.step()
        with torch.no_grad():
            for mine, theirs in zip(own.parameters(), model.parameters(), strict=True):
                mine.lerp_(theirs, 0.1)
    swa_utils.update_bn([torch.randn(5, 3)], swa)
    return list(map(lambda one: (list(one.parameters()), list(one.buffers())), (model, ema, swa, own)))


@rows.add("dropout, BatchNorm, frozen and tied weights, a module used twice", calls=2)
def usual() -> object:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.out = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
            self.out.weight = self.embed.weight
            self.block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
            self.frozen = nn.Linear(4, 4).requires_grad_(False)

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            h = self.embed(index)
            return self.out(self.block(self.frozen(self.block(h))))

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        nn.functional.cross_entropy(model(torch.arange(6)), torch.arange(6)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return list(model.parameters()), gradients(model), list(model.buffers())


@rows.add("an LSTM and its cell by hand, truncated back-propagation (`detach`)", calls=3)
def recurrent() -> object:
    cell, whole, x = nn.LSTMCell(3, 4), nn.LSTM(3, 4, num_layers=2, dropout=0.2), torch.randn(6, 5, 3)
    state = (torch.zeros(5, 4), torch.zeros(5, 4))
    for part in x.split(3):
        for row in part:
            state = cell(row, state)
        state[0].square().sum().backward()
        state = (state[0].detach(), state[1].detach())
    whole(x)[0].square().sum().backward()
    return gradients(cell), gradients(whole)


@rows.add("LBFGS: its closure calls `backward()` many times a step", calls=10)
def lbfgs() -> object:
    model = nn.Linear(3, 1)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    return list(model.parameters()), gradients(model)


@rows.add("two losses, two optimizers (GAN): `detach`, frozen halves, `zero_grad(set_to_none=False)`", calls=4)
def adversarial() -> object:
    maker, judge = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 1))
    first, second = torch.optim.Adam(maker.parameters()), torch.optim.RMSprop(judge.parameters())
    for _ in range(2):
        made = maker(torch.randn(4, 2))
        second.zero_grad(set_to_none=False)
        (judge(made.detach()).mean() - judge(torch.randn(4, 3)).mean()).backward()
        second.step()
        first.zero_grad()
        judge.requires_grad_(False)
        (-judge(made).mean()).backward()
        judge.requires_grad_(True)
        first.step()
    return gradients(maker), gradients(judge), list(maker.parameters()), list(judge.parameters())


@rows.add("gradient accumulation over micro-batches, lazy modules, `copy.deepcopy` of a model", calls=4)
def accumulation() -> object:
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
    for part in torch.randn(8, 3).split(2):
        (model(part).square().mean() / 4).backward()
    twin = copy.deepcopy(model)
    return gradients(model), gradients(twin)


@rows.add("MAML: an inner step with `create_graph=True`, through `functional_call`", calls=3)
def maml() -> object:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    values = dict(model.named_parameters())
    for _ in range(2):
        loss = torch.func.functional_call(model, values, (torch.randn(5, 3),)).square().mean()
        slopes = torch.autograd.grad(loss, list(values.values()), create_graph=True)
        values = {name: value - 0.1 * slope for (name, value), slope in zip(values.items(), slopes, strict=True)}
    torch.func.functional_call(model, values, (torch.randn(5, 3),)).square().mean().backward()
    return gradients(model)
