"""Names of tensors in every kind of holder: containers of parameters, shared modules, buffers, dataclasses, closures, globals."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from gradscope.debuggee.names import Names, leaf_names


def leaf() -> torch.Tensor:
    return torch.ones(1, requires_grad=True)


GLOBAL = leaf()
TABLE = {"scale": leaf()}


def names_of(*tensors: torch.Tensor) -> list[str]:
    return [one.name for one in leaf_names(tensors, sys._getframe(1))]


def test_containers_of_parameters() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ws = nn.ParameterList([nn.Parameter(torch.ones(1))])
            self.named = nn.ParameterDict({"a": nn.Parameter(torch.ones(1))})
            self.layers = nn.ModuleDict({"in": nn.Linear(1, 1)})
            self.stack = nn.Sequential(OrderedDict(first=nn.Linear(1, 1)))
            self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(1, 1))

    net = Net()
    assert names_of(
        net.ws[0],
        net.named["a"],
        net.layers["in"].weight,
        net.stack.first.bias,
        net.normed.parametrizations.weight.original0,
        net.normed.bias,
    ) == ["ws.0", "named.a", "layers.in.weight", "stack.first.bias", "normed.parametrizations.weight.original0", "normed.bias"]


def test_a_shared_module_has_all_its_paths() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(2, 2)
            self.decoder = self.encoder
            self.head = nn.Linear(2, 2)
            self.head.weight = self.encoder.weight

    net = Net()
    (found,) = leaf_names([net.encoder.weight], sys._getframe())
    assert {found.name, *found.aliases} >= {"encoder.weight", "decoder.weight", "head.weight"}
    names = Names(sys._getframe(), [net], [net.encoder.weight])
    assert names.module(net.decoder) in ("encoder", "decoder")


def test_buffers_by_path() -> None:
    net = nn.Sequential(nn.BatchNorm1d(2))
    names = Names(sys._getframe())
    assert net[0].running_mean is not None
    assert [one.name for one in names.leaves([net[0].running_mean])] == ["net.0.running_mean"]


@dataclass
class Params:
    w: torch.Tensor = field(default_factory=leaf)
    layers: list[torch.Tensor] = field(default_factory=lambda: [leaf()])


@dataclass(slots=True)
class Slotted:
    w: torch.Tensor = field(default_factory=leaf)


class Trainer:
    def __init__(self) -> None:
        self.params = Params()
        self.state = {"w": leaf()}

    def name(self) -> list[str]:
        return names_of(self.params.w, self.params.layers[0], self.state["w"])


def test_dataclasses_and_attributes() -> None:
    params, slotted = Params(), Slotted()
    assert names_of(params.w, params.layers[0], slotted.w) == ["params.w", "params.layers[0]", "slotted.w"]
    trainer = Trainer()
    assert trainer.name() == ["trainer.params.w", "trainer.params.layers[0]", "trainer.state['w']"]


def test_globals_and_closures() -> None:
    w = leaf()

    def inner() -> list[str]:
        return names_of(w, GLOBAL, TABLE["scale"])

    assert inner() == ["w", "GLOBAL", "TABLE['scale']"]


def test_what_a_called_closure_holds() -> None:
    def make() -> tuple[Callable[[], Any], torch.Tensor]:
        hidden = leaf()
        return lambda: hidden * 2, hidden

    f, found = make()
    keep = iter([found])
    del found
    (tensor,) = keep
    names = [one.name for one in leaf_names([tensor], sys._getframe())]
    assert names == ["tensor"]
    assert f is not None


def test_nested_and_odd_keys() -> None:
    nested = {"block": {"attn": [(leaf(),)]}, 3: leaf(), ("a", 1): leaf()}
    assert names_of(nested[3], nested[("a", 1)], nested["block"]["attn"][0][0]) == [
        "nested[3]",
        "nested[('a', 1)]",
        "nested['block']['attn'][0][0]",
    ]
