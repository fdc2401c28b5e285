"""Hooks whose tensor was written in place, and calls that keep a graph in `.grad`, from live torch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from test_call_facts import Watched

from gradscope.debuggee import tensor_hooks
from gradscope.model.backward_graph import BackwardGraph


@pytest.fixture
def watched() -> Iterator[Watched]:
    one = Watched()
    yield one
    one.close()


def test_a_write_after_register_hook_leaves_the_hook_behind(watched: Watched) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: gradient)
    y.add_(1)
    y.register_hook(lambda gradient: gradient)
    z = y.sin()
    z.register_hook(lambda gradient: gradient)
    z.sum().backward()
    columns = watched.seen[1]
    (stale,) = columns.facts.stale_hooks
    assert (stale.name, stale.origin is not None and stale.origin.code) == ("y", "y.add_(1)")
    graph = BackwardGraph(columns)
    assert [graph.op(hook.node) for hook in columns.hooks] == ["SinBackward0", "AddBackward0", "MulBackward0"]
    assert graph.op(stale.node) == "MulBackward0"


def test_a_name_for_another_tensor_is_none_of_it(watched: Watched) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: gradient)
    y = y + 1
    y.sum().backward()
    assert watched.facts(1).stale_hooks == []


def test_the_tensor_is_not_kept_alive(watched: Watched) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: gradient)
    number = max(tensor_hooks.hooked)
    assert tensor_hooks.hooked[number] is y
    del y
    assert number not in tensor_hooks.hooked


@pytest.mark.parametrize(("create", "accumulates"), [(True, True), (False, True), (True, False)])
def test_gradients_with_a_graph_of_their_own(watched: Watched, create: bool, accumulates: bool) -> None:
    x = torch.ones(3, requires_grad=True)
    y = (x**3).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if accumulates:
            y.backward(create_graph=create)
        else:
            torch.autograd.grad(y, x, create_graph=create)
    x.grad = None
    assert watched.facts(1).create_graph == (create and accumulates)
