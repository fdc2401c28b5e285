"""Functions of two tensors of different rank whose result is larger than either."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from origin_ways import nodes

from gradscope.debuggee.mode_origins import ModeOrigins

pytestmark = [pytest.mark.parametrize("origins", ["mode"], indirect=True), pytest.mark.filterwarnings("ignore")]


def found(origins: ModeOrigins, tensor: torch.Tensor) -> dict[str, tuple[Any, ...]]:
    """By node, the shapes and the result."""
    told = [(node.name(), origins.broadcasts.of(node._sequence_nr())) for node in nodes(tensor)]
    return {name: (*expansion.shapes, expansion.result) for name, expansion in told if expansion is not None}


def test_operators_and_methods(origins: ModeOrigins) -> None:
    x, y = torch.ones(5, 1, requires_grad=True), torch.ones(5)
    larger = ((5, 1), (5,), (5, 5))
    assert found(origins, x - y) == {"SubBackward0": larger}
    assert found(origins, y - x) == {"SubBackward0": ((5,), (5, 1), (5, 5))}
    assert found(origins, torch.mul(x, other=y)) == {"MulBackward0": larger}
    assert found(origins, x**y) == {"PowBackward1": larger}
    assert found(origins, y / x) == {"DivBackward0": ((5,), (5, 1), (5, 5))}


@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_losses(origins: ModeOrigins, loss: str) -> None:
    x, y = torch.ones(5, 1, requires_grad=True), torch.ones(5)
    (shapes,) = found(origins, getattr(torch.nn.functional, loss)(x, y)).values()
    assert shapes == ((5, 1), (5,), (5, 5))


def test_those_that_are_meant(origins: ModeOrigins) -> None:
    x = torch.ones(5, 3, requires_grad=True)
    assert found(origins, x + torch.ones(3)) == {}
    assert found(origins, x * torch.tensor(2.0)) == {}
    assert found(origins, x.unsqueeze(1) - x.unsqueeze(0)) == {}
    assert found(origins, torch.nn.functional.mse_loss(x, torch.ones(5, 3))) == {}
    first, second = torch.broadcast_tensors(x.unsqueeze(1), torch.ones(3, 3, 3)[:, 0])
    assert found(origins, first * second) == {}


def test_without_a_graph_no_node_is_told_of(origins: ModeOrigins) -> None:
    torch.nn.functional.mse_loss(torch.ones(5, 1), torch.ones(5))
    with torch.no_grad():
        torch.nn.functional.mse_loss(torch.ones(5, 1, requires_grad=True), torch.ones(5))
    x = torch.ones(5, requires_grad=True)
    assert found(origins, (x * 2).sum()) == {}
