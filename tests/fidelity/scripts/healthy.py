"""Healthy training loops: nothing in them is wrong, so nothing may be found. `healthy.py NAME STEPS`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 50


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in self.qkv(x).split(width, 2)
        )
        scores = (q @ k.transpose(-2, -1)) / (width // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1, self.attention = nn.LayerNorm(width), Attention(width, 2)
        self.ln_2, self.mlp = (
            nn.LayerNorm(width),
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """With tied weights, as nanoGPT has it."""

    def __init__(self, vocabulary: int = 17, width: int = 16, length: int = 12) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt() -> None:
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        tokens = torch.randint(17, (4, 13))
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 17), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def transformer() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    model = nn.Sequential(encoder, nn.Flatten(), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(6, 4, 8)), torch.randint(3, (6,))).backward()
        optimizer.step()
        schedule.step()
        model.eval()
        with torch.no_grad():
            model(torch.randn(2, 4, 8)).argmax(1)


def lstm() -> None:
    """Truncated backpropagation through time: the state is detached between windows."""
    cell, head = nn.LSTM(3, 8, 2, dropout=0.2), nn.Linear(8, 1)
    optimizer = torch.optim.RMSprop([*cell.parameters(), *head.parameters()], lr=1e-3)
    state = None
    for _ in range(STEPS):
        out, state = cell(torch.randn(7, 4, 3), state)
        state = tuple(part.detach() for part in state)
        loss = F.mse_loss(head(out[-1]).squeeze(1), torch.randn(4))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(cell.parameters(), 1.0)
        optimizer.step()


def cnn() -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(8, 3),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    total, right = 0.0, 0
    for _ in range(STEPS):
        x, y = torch.randn(16, 1, 10, 10), torch.randint(3, (16,))
        scores = net(x)
        loss = F.cross_entropy(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        right += int((scores.argmax(1) == y).sum())


def regression() -> None:
    """Gradients over two micro-batches, an average of the weights, and an evaluation now and then."""
    net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
    average = torch.optim.swa_utils.AveragedModel(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(STEPS):
        optimizer.zero_grad()
        for _ in range(2):
            x = torch.randn(8, 5)
            (F.mse_loss(net(x), x.sum(1, keepdim=True)) / 2).backward()
        optimizer.step()
        average.update_parameters(net)
        if step % 10 == 0:
            net.eval()
            with torch.no_grad():
                float(net(torch.randn(8, 5)).mean())
            net.train()


def gan() -> None:
    maker, critic = (
        nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)),
        nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(), nn.Linear(8, 1)),
    )
    of_maker, of_critic = torch.optim.Adam(maker.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(STEPS):
        made = maker(torch.randn(8, 2))
        of_critic.zero_grad()
        (F.softplus(critic(made.detach())).mean() + F.softplus(-critic(torch.randn(8, 3))).mean()).backward()
        of_critic.step()
        of_maker.zero_grad()
        F.softplus(-critic(made)).mean().backward()
        of_maker.step()


def actor_critic() -> None:
    """Advantages are detached, and targets come from a frozen copy that follows slowly."""
    actor, critic, target = nn.Linear(4, 3), nn.Linear(4, 1), nn.Linear(4, 1)
    target.load_state_dict(critic.state_dict())
    for parameter in target.parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
    for _ in range(STEPS):
        state, after, reward = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)
        chances = torch.distributions.Categorical(logits=actor(state))
        action = chances.sample()
        with torch.no_grad():
            wanted = reward + 0.9 * target(after).squeeze(1)
        value = critic(state).squeeze(1)
        advantage = (wanted - value).detach()
        loss = F.mse_loss(value, wanted) - (chances.log_prob(action) * advantage).mean() - 0.01 * chances.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), critic.parameters(), strict=True):
                slow.mul_(0.9).add_(fast, alpha=0.1)


def by_hand() -> None:
    """No optimizer: weights are stepped under no_grad, and their gradients cleared."""
    weight, bias = torch.randn(3, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    for _ in range(STEPS):
        x = torch.randn(8, 3)
        loss = (x @ weight + bias - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
            bias -= 0.1 * bias.grad
        weight.grad.zero_()
        bias.grad.zero_()


def mixed_precision() -> None:
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(torch.randn(8, 6)), torch.randint(2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def penalty() -> None:
    """Double backward: a gradient penalty."""
    net = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(STEPS):
        x = torch.randn(6, 3, requires_grad=True)
        out = net(x)
        [slope] = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = out.square().mean() + (slope.norm(dim=1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


KINDS: dict[str, Callable[[], Any]] = {
    kind.__name__: kind
    for kind in (gpt, transformer, lstm, cnn, regression, gan, actor_critic, by_hand, mixed_precision, penalty)
}

if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_num_threads(1)
    KINDS[sys.argv[1]]()
