"""Prints what an exploring pass costs as a multiple of the backward pass. Run it: `python tests/bench/bench_explore.py [name …]`.

Ratios of processor time, the least of interleaved runs on one thread.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from gradscope.debuggee import tensor_hooks
from gradscope.debuggee.capture import capture
from gradscope.debuggee.explore import explore

RUNS = 15


def rnn(steps: int = 2000, width: int = 32) -> torch.Tensor:
    weight, bias = torch.randn(width, width) * 0.2, torch.zeros(width)
    weight.requires_grad_()
    bias.requires_grad_()
    state = torch.randn(1, width)
    for _ in range(steps):
        state = torch.tanh(state @ weight + bias)
    return state.sum()


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.first(x)
        x = x + self.attention(normal, normal, normal, need_weights=False)[0]
        return x + self.outer(torch.nn.functional.gelu(self.inner(self.second(x))))


def gpt(layers: int = 2, width: int = 64, length: int = 32, batch: int = 8) -> torch.Tensor:
    embedding = nn.Embedding(256, width)
    blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
    tokens = torch.randint(0, 256, (batch, length))
    logits = nn.functional.linear(blocks(embedding(tokens)), embedding.weight)
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def conv(layers: int = 10) -> torch.Tensor:
    net: list[nn.Module] = []
    width = 3
    for _ in range(layers):
        net += [nn.Conv2d(width, 16, 3, padding=1), nn.ReLU()]
        width = 16
    out: torch.Tensor = nn.Sequential(*net)(torch.randn(8, 3, 32, 32))
    return out.square().mean()


def seconds(work: Callable[[], object]) -> float:
    started = time.thread_time()
    result = work()
    took = time.thread_time() - started
    del result
    return took


def measure(name: str, build: Callable[[], torch.Tensor], limit: float) -> None:
    loss = build()
    seed = torch.ones_like(loss)
    backwards: list[float] = []
    first: list[float] = []
    again: list[float] = []
    captures: list[float] = []
    for _ in range(RUNS):
        gc.collect()
        backwards.append(seconds(lambda: loss.backward(retain_graph=True)))
        captures.append(seconds(lambda: capture([loss])))
        first.append(seconds(lambda: explore(capture([loss]), [seed])))
        captured = capture([loss])
        again.append(seconds(partial(explore, captured, [seed])))
    one = min(backwards)
    print(
        f"{name:6} {len(captured):6} nodes  backward {one * 1e3:7.2f} ms  capture {min(captures) * 1e3:6.2f} ms  "
        f"capture and explore ×{min(first) / one:.2f} (must be ≤ {limit})  again ×{min(again) / one:.2f}"
    )


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tensor_hooks.install()  # as the program does
    works = {"rnn2k": (rnn, 2.6), "gpt": (gpt, 2.0), "conv": (conv, 1.5)}
    for name in sys.argv[1:] or works:
        measure(name, *works[name])


if __name__ == "__main__":
    main()
