"""What noting origins costs a forward pass, beside anomaly mode: `python tests/bench/bench_origins.py`."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from gradscope.debuggee import origins


def rnn2k() -> Callable[[], torch.Tensor]:
    weight = (torch.randn(32, 32) / 32).requires_grad_()
    bias = torch.zeros(32, requires_grad=True)

    def forward() -> torch.Tensor:
        x = torch.randn(1, 32)
        for _ in range(2000):
            x = torch.tanh(x @ weight + bias)
        return x.sum()

    return forward


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, 4, width // 4).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2) / (width // 4) ** 0.5).masked_fill(
            torch.triu(torch.ones(length, length, dtype=torch.bool), 1), float("-inf")
        )
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(torch.nn.Module):
    def __init__(self, layers: int = 2, width: int = 64, length: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(256, width), torch.nn.Embedding(length, width)
        self.h = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, 256, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.head(self.norm(x))


def gpt() -> Callable[[], torch.Tensor]:
    model = Gpt()
    tokens = torch.randint(0, 256, (4, 32))
    return lambda: torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


def tokens() -> Callable[[], object]:
    """Plain Python beside the model: words to numbers, as a tokenizer's loop does it."""
    text = "the quick brown fox jumps over the lazy dog and runs away from it " * 200
    vocabulary = {word: number for number, word in enumerate(sorted(set(text.split())))}

    def pieces(word: str) -> list[str]:
        found = []
        while word:
            found.append(word[:3])
            word = word[3:]
        return found

    def forward() -> list[int]:
        numbers = []
        for word in text.split():
            known = vocabulary.get(word)
            if known is None:
                known = 0
            for piece in pieces(word):
                known += len(piece) % 7
            numbers.append(known)
        return numbers

    return forward


def seconds(forward: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        forward()
        best = min(best, time.thread_time() - start)
    return best


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name, make, repeats in (("rnn2k", rnn2k, 5), ("gpt", gpt, 40), ("tokens", tokens, 5)):
        forward = make()
        forward()
        plain = noted = anomaly = float("inf")
        for _ in range(5):  # in turns, so that a busy machine slows all of them alike
            plain = min(plain, seconds(forward, repeats))
            table = origins.install(torch)
            forward()
            noted = min(noted, seconds(forward, repeats))
            table.remove()
            with torch.autograd.detect_anomaly(check_nan=False):
                anomaly = min(anomaly, seconds(forward, max(repeats // 10, 2)))
        print(f"{name:6} plain {plain * 1e3:7.2f} ms   origins ×{noted / plain:.2f}   anomaly ×{anomaly / plain:.2f}")


if __name__ == "__main__":
    main()
