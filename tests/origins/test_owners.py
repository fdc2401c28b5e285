"""Optimizers are told apart, and what belongs to functions that have returned plays no part."""

from __future__ import annotations

import gc
import sys
from typing import Any

import torch
from torch import nn

from gradscope.debuggee.names import Names, leaf_names


def owners(*tensors: torch.Tensor) -> list[str]:
    return [one.owner for one in leaf_names(tensors, sys._getframe(1))]


def test_one_optimizer_goes_by_its_class() -> None:
    net = nn.Linear(1, 1)
    optimizer = torch.optim.Adam([{"params": [net.weight]}, {"params": [net.bias]}])
    assert owners(net.weight, net.bias, torch.ones(1)) == ["Adam[0]", "Adam[1]", ""]
    assert optimizer.param_groups


def test_several_go_by_their_variables() -> None:
    G, D = nn.Linear(1, 1), nn.Linear(1, 1)
    optimizers = {"G": torch.optim.Adam(G.parameters())}
    opt_D = torch.optim.Adam(D.parameters())
    assert owners(G.weight, D.weight) == ["optimizers['G'].Adam[0]", "opt_D.Adam[0]"]
    assert optimizers
    assert opt_D


def test_several_without_variables_are_numbered() -> None:
    G, D = nn.Linear(1, 1), nn.Linear(1, 1)
    kept = iter([torch.optim.SGD(G.parameters()), torch.optim.SGD(D.parameters())])
    assert sorted(owners(G.weight, D.weight)) == ["SGD#2[0]", "SGD[0]"]
    assert kept


def test_two_that_step_the_same_count_as_one() -> None:
    net = nn.Linear(1, 1)
    first, second = torch.optim.SGD(net.parameters()), torch.optim.AdamW(net.parameters())
    assert owners(net.weight) in (["SGD[0]"], ["AdamW[0]"])
    assert first is not second


def test_what_nothing_names_goes_by_its_place_in_the_optimizer() -> None:
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True), torch.ones(2, requires_grad=True)], lr=0.1)
    tensors = optimizer.param_groups[0]["params"]
    found = leaf_names(list(tensors), None)
    assert [one.name for one in found] == ["SGD[0].params[0]", "SGD[0].params[1]"]


def test_the_models_of_functions_that_have_returned_play_no_part() -> None:
    def earlier() -> Any:
        net = nn.Sequential(nn.Linear(1, 1))
        optimizer = torch.optim.Adam(net.parameters())
        cycle: list[Any] = [net, optimizer]
        cycle.append(cycle)  # lives on until the next collection
        return iter(cycle)

    def now(outer: Any) -> tuple[list[str], list[str], list[str]]:
        net = nn.Linear(1, 1)
        optimizer = torch.optim.Adam(net.parameters())
        names = Names(sys._getframe(), outer, [net.weight])
        assert optimizer
        (found,) = names.leaves([net.weight])
        return [found.name, found.owner], [one.name for _, one in names.unreached([net.weight])], [names.module(net)]

    gc.disable()
    try:
        kept = earlier()
        dead = [one for one in gc.get_objects() if type(one) is nn.Sequential]
        modules = iter(dead)
        del dead
        assert now(modules) == (["net.weight", "Adam[0]"], ["net.bias"], ["net"])
        assert kept
    finally:
        gc.enable()


def test_names_never_hold_ids() -> None:
    x = torch.ones(1, requires_grad=True)
    by_id = {id(x): torch.ones(1, requires_grad=True), (id(x), 1): torch.ones(1), 7: torch.ones(1)}
    by_object = {(0, x): torch.ones(1)}
    names = Names(sys._getframe())
    holder = vars(names)
    found = [one.name for one in leaf_names([*by_id.values(), *by_object.values()], sys._getframe())]
    assert found == ["leaf 0", "leaf 1", "by_id[7]", "leaf 3"]
    assert holder


def test_gradscopes_own_tables_name_nothing() -> None:
    def names_of_one() -> Names:
        layer = torch.ones(1, requires_grad=True)
        return Names(sys._getframe(), ends=[layer])

    ours = names_of_one()
    held = vars(ours)  # as gc.get_referrers gives it
    (tensor,) = [one for one in vars(ours._holdings)["_tensors"].values() if one.shape == (1,)]
    found = iter([tensor])
    del tensor
    assert [one.name for one in leaf_names(list(found), sys._getframe())] == ["leaf 0"]
    assert held
