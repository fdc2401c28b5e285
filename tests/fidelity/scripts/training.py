"""Fourteen ways to train, three steps each. Prints what a training script prints, and a digest of all that it leaves behind."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

STEPS = 3


def digest(value: Any) -> str:
    """A short name for the exact bits of a tensor, a module's or an optimizer's state, or anything made of them."""
    found = hashlib.sha256()
    for part in parts(value):
        found.update(part)
    return found.hexdigest()[:16]


def parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, nn.Module):
        for name, tensor in [*value.named_parameters(), *value.named_buffers()]:
            yield name.encode()
            yield from parts(tensor)
            yield from parts(tensor.grad)
            yield str(tensor._version).encode()
    elif isinstance(value, torch.optim.Optimizer):
        yield from parts(value.state_dict())
    elif isinstance(value, torch.Tensor):
        yield f"{value.dtype}{tuple(value.shape)}{value.layout}".encode()
        dense = value.detach().to_dense() if value.layout != torch.strided else value.detach()
        yield f"{tuple(dense.stride())}".encode()
        yield bytes(dense.contiguous().view(-1).view(torch.uint8).tolist()) if dense.numel() else b""
    elif isinstance(value, dict):
        for key, item in value.items():
            yield repr(key).encode()
            yield from parts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from parts(item)
    else:
        yield repr(value).encode()


def mlp() -> Any:
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = net(torch.randn(4, 5)).square().mean()
        loss.backward()
        optimizer.step()
        print("mlp", loss.item())
    return net, optimizer


def cnn() -> Any:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(64, 2))
    net = net.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(net(torch.randn(3, 1, 6, 6)), torch.tensor([0, 1, 1])).backward()
        optimizer.step()
    return net, optimizer


def lstm() -> Any:
    net, head = nn.LSTM(3, 4, 2, dropout=0.2), nn.Linear(4, 1)
    optimizer = torch.optim.RMSprop([*net.parameters(), *head.parameters()])
    for _ in range(STEPS):
        optimizer.zero_grad()
        head(net(torch.randn(6, 2, 3))[0]).square().sum().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
    return net, head, optimizer


def transformer() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    net = nn.TransformerEncoder(layer, 2)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    padding = torch.tensor([[False, False, False, True], [False, False, True, True]])
    for _ in range(STEPS):
        net.train()
        optimizer.zero_grad()
        net(torch.randn(2, 4, 8), src_key_padding_mask=padding).square().mean().backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            print("transformer", digest(net(torch.ones(2, 4, 8), src_key_padding_mask=padding)))
    return net, optimizer


def norm_under_checkpoint() -> Any:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Tanh())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        checkpoint(net, torch.randn(5, 4), use_reentrant=False).square().sum().backward()
        optimizer.step()
    return net, optimizer


def reentrant_checkpoint() -> Any:
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
    for _ in range(STEPS):
        checkpoint(net, torch.randn(5, 4, requires_grad=True), use_reentrant=True).square().sum().backward()
    return net


def own_generator() -> Any:
    generator = torch.Generator().manual_seed(5)
    weight = torch.ones(3, requires_grad=True)

    def noisy(h: torch.Tensor) -> torch.Tensor:
        return h * torch.rand(3, generator=generator)

    for _ in range(STEPS):
        h = weight * 2
        h.register_hook(lambda g: g + torch.rand(3, generator=generator) + random.random())
        checkpoint(noisy, h, use_reentrant=False, preserve_rng_state=False).sum().backward()
    return weight, weight.grad, generator.get_state()


class Forgetful(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.factor = x + 1
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        [x] = ctx.saved_tensors
        factor = ctx.factor
        del ctx.factor
        return gradient * x * factor


def custom_function() -> Any:
    weight = torch.linspace(1, 2, 3, requires_grad=True)
    for _ in range(STEPS):
        Forgetful.apply(weight).sum().backward()
        with torch.no_grad():
            weight -= 0.01 * weight.grad
    return weight, weight.grad


def tied_embedding() -> Any:
    embedding = nn.Embedding(7, 4)
    optimizer = torch.optim.Adam(embedding.parameters())
    tokens = torch.tensor([1, 2, 2, 6])
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(embedding(tokens) @ embedding.weight.t(), tokens).backward()
        optimizer.step()
    return embedding, optimizer


def sparse_embedding() -> Any:
    embedding = nn.Embedding(7, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(embedding.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        embedding(torch.tensor([1, 2, 2, 6])).square().sum().backward()
        optimizer.step()
    return embedding.weight, optimizer


def accumulation() -> Any:
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        for _ in range(2):
            (net(torch.randn(4, 3)).square().mean() / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
    net(torch.ones(1, 3)).sum().backward()
    return net, optimizer


def gan() -> Any:
    maker, critic = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 1))
    one, other = torch.optim.Adam(maker.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(STEPS):
        made = maker(torch.randn(4, 2))
        other.zero_grad()
        (F.softplus(critic(made.detach())).mean() + F.softplus(-critic(torch.randn(4, 3))).mean()).backward()
        other.step()
        one.zero_grad()
        F.softplus(-critic(made)).mean().backward()
        one.step()
    return maker, critic, one, other


def double_backward() -> Any:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        x = torch.randn(5, 3, requires_grad=True)
        [gradient] = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        optimizer.zero_grad()
        (gradient.norm(dim=1) - 1).square().mean().backward()
        optimizer.step()
    return net, optimizer


def chosen_gradients() -> Any:
    weight, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    found = []
    for step in range(STEPS):
        h = weight * other
        loss = (h * h).sum()
        found.append(torch.autograd.grad(loss, [h, weight], retain_graph=True))
        found.append(torch.autograd.grad(h, [other], torch.tensor([1.0, 0.0, float(step)])))
        with torch.no_grad():
            weight -= 0.1 * found[-2][1]
    return weight, found


def optimizer_in_backward() -> Any:
    net = nn.Linear(3, 2)
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1, momentum=0.9) for parameter in net.parameters()}

    def step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(STEPS):
        net(torch.randn(4, 3)).square().mean().backward()
    return net, list(optimizers.values())


def hooks_that_take_notes() -> Any:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    notes: list[float] = []
    sums: dict[str, torch.Tensor] = {}

    def note(gradient: torch.Tensor) -> torch.Tensor:
        notes.append(float(gradient.norm()))
        print("hook", len(notes))
        return gradient.clamp(-0.1, 0.1)

    net[0].weight.register_hook(note)
    net[0].register_full_backward_hook(lambda module, sent, handed: sums.update({str(len(sums)): handed[0].clone()}))
    for _ in range(STEPS):
        h = net[0](torch.randn(2, 3, requires_grad=True))
        h.retain_grad()
        net[2](net[1](h)).sum().backward()
        sums["kept"] = h.grad
    return net, notes, sums


KINDS: list[Callable[[], Any]] = [
    mlp,
    cnn,
    lstm,
    transformer,
    norm_under_checkpoint,
    reentrant_checkpoint,
    own_generator,
    custom_function,
    tied_embedding,
    sparse_embedding,
    accumulation,
    gan,
    double_backward,
    chosen_gradients,
    optimizer_in_backward,
    hooks_that_take_notes,
]

if __name__ == "__main__":
    torch.use_deterministic_algorithms(False)
    for kind in KINDS:
        torch.manual_seed(1)
        random.seed(1)
        print(kind.__name__, digest(kind()), digest(torch.get_rng_state()), digest(list(random.getstate())))
    sys.exit(7)
