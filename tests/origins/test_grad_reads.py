"""Reads of `.grad` of a tensor that has a graph and keeps no gradient."""

from __future__ import annotations

import pytest
import torch

from gradscope.debuggee.grad_reads import GradReadAt
from gradscope.debuggee.mode_origins import ModeOrigins

pytestmark = [pytest.mark.parametrize("origins", ["mode"], indirect=True), pytest.mark.filterwarnings("ignore")]


def test_what_is_told_of_a_read(origins: ModeOrigins) -> None:
    told: list[GradReadAt] = []
    x = torch.ones(3, requires_grad=True)
    hidden = x.tanh()
    assert hidden.grad is None
    origins.grad_reads.on_read = told.append
    text = f"{hidden.grad}"
    (read,) = told
    assert (read.name, read.op, read.sequence_nr, read.output_nr) == ("hidden", "TanhBackward0", hidden.grad_fn._sequence_nr(), 0)
    assert read.tensor() is hidden
    assert origins.places.origin(read.place).code == 'text = f"{hidden.grad}"'
    assert text == "None"


def test_names(origins: ModeOrigins) -> None:
    told: list[GradReadAt] = []
    origins.grad_reads.on_read = told.append
    x = torch.ones(3, requires_grad=True)
    module = torch.nn.Module()
    module.h = x * 2
    pairs = [x * 3]
    first = [module.h.grad, pairs[0].grad, getattr(module.h, "grad"), *(one.grad for one in pairs)]  # noqa: B009
    assert first == [None] * 4
    assert [read.name for read in told] == ["module.h", "", "", "one"]


def test_reads_that_are_in_order(origins: ModeOrigins) -> None:
    told: list[GradReadAt] = []
    origins.grad_reads.on_read = told.append
    x = torch.ones(3, requires_grad=True)
    kept = x * 2
    kept.retain_grad()
    plain = torch.ones(3)
    kept.sum().backward()
    optimizer = torch.optim.SGD([x], lr=0.1)
    optimizer.step()
    assert (kept.grad is None, x.grad is None, plain.grad is None) == (False, False, True)
    assert repr(x * 2).startswith("tensor")
    assert told == []
