"""Every node of whole models is led to the line that anomaly mode's tracebacks give, and through the same library frames."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from origin_ways import nodes
from torch import nn

from gradscope.debuggee import library_frames
from gradscope.debuggee.mode_origins import ModeOrigins
from gradscope.debuggee.origins import Origins


def transformer() -> torch.Tensor:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return model(torch.randn(2, 3, 8)).sum()


def lstm() -> torch.Tensor:
    whole, cell = nn.LSTM(4, 4, num_layers=2, bidirectional=True), nn.LSTMCell(8, 8)
    sequence, _ = whole(torch.randn(5, 2, 4))
    state = (torch.zeros(2, 8), torch.zeros(2, 8))
    for step in sequence:
        state = cell(
            step,
            state,
        )
    return state[0].sum()


def cnn() -> torch.Tensor:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5), nn.Flatten(), nn.Linear(36, 3)
    )
    target = torch.tensor([0, 1])
    return nn.functional.cross_entropy(model(torch.randn(2, 1, 8, 8)), target) + sum(p.abs().mean() for p in model.parameters())


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2)) / 2
        scores = scores.masked_fill(
            torch.ones(3, 3, dtype=torch.bool).triu(1),
            float("-inf"),
        )
        mixed = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x))
        x = x + self.mlp(self.norms[1](x))
        x[:, 0] *= 2
        return x


def own_transformer() -> torch.Tensor:
    x = torch.randn(2, 3, 8)
    for block in [Block(), Block()]:
        x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
    return x.square().mean()


def gpt2() -> torch.Tensor:
    transformers = __import__("transformers")
    config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2)
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(0, 32, (2, 8))
    return model(tokens, labels=tokens).loss


MODELS: list[Any] = [(transformer, 20), (lstm, 20), (cnn, 20), (own_transformer, 20)]
"""and more nodes than these"""
if find_spec("transformers"):  # of the extra named `real`
    MODELS.append(pytest.param(gpt2, 80, marks=pytest.mark.real))


def check(origins: Origins, build: Callable[[], torch.Tensor]) -> int:
    """Compare every node; says how many there are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(check_nan=False):
            loss = build()
    graph = nodes(loss)
    for node in graph:
        found = origins.lookup(node._sequence_nr(), node.name())
        assert found is not None, node.name()
        stack = entries(node)
        place = max(number for number, (file, _, _) in enumerate(stack) if file == __file__)
        assert (found.file, found.line) == stack[place][:2], node.name()
        below = [entry[:2] for entry in stack[place + 1 :] if library_frames._is_telling(entry[0])]
        frames = [(frame.file, frame.line) for frame in found.frames]
        assert below[: len(frames)] == frames, node.name()
        rest = below[len(frames) :]  # to the mode, a method of Tensor's that is written in Python is itself the call
        assert not rest or (isinstance(origins, ModeOrigins) and rest[0][0].endswith("torch/_tensor.py")), node.name()
    return len(graph)


def entries(node: Any) -> list[tuple[str, int, str]]:
    """The frames that anomaly mode kept of a node, outermost first."""
    found = []
    for text in node.metadata["traceback_"]:
        match = re.match(r'  File "(.*)", line (\d+), in (.*)', text)
        assert match is not None
        found.append((match[1], int(match[2]), match[3]))
    return found


@pytest.mark.parametrize(("build", "least"), MODELS)
def test_lines_and_library_frames(origins: Origins, build: Callable[[], torch.Tensor], least: int) -> None:
    torch.manual_seed(0)
    assert check(origins, build) > least
