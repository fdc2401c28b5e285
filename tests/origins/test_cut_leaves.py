"""Which leaves lie behind a cut, and the first of the cuts that a tensor came through."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gradscope.debuggee.boundaries import Boundary
from gradscope.debuggee.given_gradients import given, shapes_of
from gradscope.debuggee.leaves_behind import leaves_behind
from gradscope.debuggee.mode_origins import ModeOrigins


@pytest.fixture
def origins(by_mode: ModeOrigins) -> ModeOrigins:
    return by_mode


def code(origins: ModeOrigins, cut: Boundary | None) -> str:
    assert cut is not None
    return origins.places.origin(cut.place).code


def behind(cut: Boundary | None) -> list[Any]:
    assert cut is not None
    return [leaf() for leaf in cut.leaves]


def same(found: list[Any], expected: list[torch.Tensor]) -> bool:
    return {id(one) for one in found} == {id(one) for one in expected}


def test_the_walk_finds_every_leaf_and_keeps_within_bounds() -> None:
    a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
    y = (a * b).sin() + a
    assert same([leaf() for leaf in leaves_behind([y, c])], [a, b, c])
    deep = a
    for _ in range(50):
        deep = deep * 2
    assert [leaf() for leaf in leaves_behind([deep], most=50)] == []
    assert same([leaf() for leaf in leaves_behind([deep], most=51)], [a])
    assert leaves_behind([torch.ones(2)]) == ()


def test_leaves_behind_a_detach(origins: ModeOrigins) -> None:
    net = torch.nn.Linear(2, 2)
    h = net(torch.ones(1, 2)).detach()
    assert same(behind(origins.boundaries.of(h)), [net.weight, net.bias])
    (cut,) = origins.boundaries.since()
    assert (cut.kind, code(origins, cut)) == ("detach", "h = net(torch.ones(1, 2)).detach()")
    assert same(behind(cut), [net.weight, net.bias])


def test_what_is_computed_of_a_cut_tensor_came_of_that_cut(origins: ModeOrigins) -> None:
    net = torch.nn.Linear(2, 1)
    out = net(torch.ones(1, 2)).data
    loss = (out - 1).pow(2).mean()
    assert not loss.requires_grad
    found = origins.boundaries.of(loss)
    assert code(origins, found) == "out = net(torch.ones(1, 2)).data"
    assert same(behind(found), [net.weight, net.bias])
    assert [cut.kind for cut in origins.boundaries.since()] == ["data"]


def test_a_leaf_rebound_under_no_grad(origins: ModeOrigins) -> None:
    w = old = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        w = w - 0.1
    loss = (w * 2 - 1).pow(2).mean()
    found = origins.boundaries.of(loss)
    assert found is not None
    assert (found.kind, code(origins, found)) == ("no_grad", "w = w - 0.1")
    assert same(behind(found), [old])


def test_all_parameters_of_a_net_that_ran_under_no_grad(origins: ModeOrigins) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    prompt = torch.zeros(2, requires_grad=True)
    with torch.no_grad():
        h = net(prompt + 1)
    found = origins.boundaries.of(h)
    assert code(origins, found) == "h = net(prompt + 1)"
    assert same(behind(found), [prompt, *net.parameters()])


def test_a_copy_of_a_list(origins: ModeOrigins) -> None:
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    losses = [(a * 2).sum(), (b * 2).sum()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        total = torch.tensor(losses).mean()
    found = origins.boundaries.of(total)
    assert found is not None
    assert (found.kind, code(origins, found)) == ("copy", "total = torch.tensor(losses).mean()")
    assert same(behind(found), [a, b])


def test_functions_without_a_derivative(origins: ModeOrigins) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    y = x * 2
    for whole in (y.argmax(1), y > 0, y.long(), y.max(1)[1], y.isnan()):
        found = origins.boundaries.of(whole.float() * 2)
        assert found is not None
        assert found.kind == "flat"
        assert same(behind(found), [x])
    for empty in (torch.zeros_like(y), y.new_ones(3), torch.empty_like(y, dtype=torch.long), y.max(1)[0].detach() * 0):
        found = origins.boundaries.of(empty)
        assert found is None or found.kind == "detach"


def test_a_parameter_made_of_a_tensor_with_a_graph(origins: ModeOrigins) -> None:
    x = torch.ones(3, requires_grad=True)
    fresh = torch.nn.Parameter(torch.ones(3))
    p = torch.nn.Parameter(x * 2)
    assert origins.boundaries.of(fresh) is None
    found = origins.boundaries.of(p)
    assert found is not None
    assert (found.kind, code(origins, found)) == ("parameter", "p = torch.nn.Parameter(x * 2)")
    assert same(behind(found), [x])
    q = torch.nn.Parameter(x.detach().t() if x.dim() > 1 else x.detach())
    assert [cut.kind for cut in origins.boundaries.since()] == ["parameter", "detach", "parameter"]
    assert same(behind(origins.boundaries.since()[-1]), [x])
    assert q.requires_grad


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_none_of_whose_inputs_needs_a_gradient(origins: ModeOrigins) -> None:
    block = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 2))
    h = checkpoint(block, torch.ones(1, 2), use_reentrant=True)
    found = origins.boundaries.of(h)
    assert found is not None
    assert (found.kind, code(origins, found)) == ("checkpoint", "h = checkpoint(block, torch.ones(1, 2), use_reentrant=True)")
    assert same(behind(found), list(block.parameters()))
    assert {cut.kind for cut in origins.boundaries.since()} == {"checkpoint"}


def test_inside_a_custom_function_nothing_is_cut(origins: ModeOrigins) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.detach() * 2 + x

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g * 3

    x = torch.ones(2, requires_grad=True)
    y = Double.apply(x)
    z = checkpoint(torch.sin, x * 2, use_reentrant=True)
    assert (y.requires_grad, z.requires_grad) == (True, True)
    assert origins.boundaries.since() == []


def test_printing_saving_and_moving_cut_nothing(origins: ModeOrigins, capsys: pytest.CaptureFixture[str]) -> None:
    net = torch.nn.Linear(2, 2)
    y = net(torch.ones(2)).sum()
    print(y, net.weight, f"{y:.3f}")
    net.state_dict()
    optimizer = torch.optim.Adam(net.parameters())
    y.backward()
    optimizer.step()
    net.double()
    assert origins.boundaries.since() == []


def test_those_since_a_mark(origins: ModeOrigins) -> None:
    x = torch.ones(1, requires_grad=True)
    y = (x * 2).sum()

    def log() -> None:
        y.item()

    z = y.detach()
    log()
    assert [cut.kind for cut in origins.boundaries.since()] == ["detach", "item"]
    mark = origins.boundaries.mark()
    assert origins.boundaries.since(mark) == []
    log()
    assert [cut.kind for cut in origins.boundaries.since(mark)] == ["item"]
    assert z == 2


def test_a_place_that_cuts_again_and_again_is_looked_behind_seldom_and_never_wrongly(
    origins: ModeOrigins, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradscope.debuggee import boundaries

    walks = []

    def counted(sources: Any) -> Any:
        walks.append(1)
        return leaves_behind(sources)

    monkeypatch.setattr(boundaries, "leaves_behind", counted)
    x = torch.ones(1, requires_grad=True)

    def cut(leaf: torch.Tensor) -> torch.Tensor:
        return (leaf * 2).detach()

    kept = [cut(x) for _ in range(100)]
    assert len(walks) == 8
    assert same(behind(origins.boundaries.of(kept[-1])), [x])
    del x
    gc.collect()
    other = torch.ones(1, requires_grad=True)
    origins.boundaries.mark()
    last = cut(other)
    assert len(walks) == 9
    assert same(behind(origins.boundaries.of(last)), [other])


def test_no_leaf_is_kept_alive(origins: ModeOrigins) -> None:
    x = torch.ones(1, requires_grad=True)
    y = (x * 2).detach()
    dead = weakref.ref(x)
    del x
    gc.collect()
    assert dead() is None
    assert behind(origins.boundaries.of(y)) == [None]


def test_a_running_mean_of_cut_values_does_not_grow(origins: ModeOrigins) -> None:
    x = torch.ones(1, requires_grad=True)
    mean = torch.zeros(1)
    for _ in range(50):
        mean = 0.9 * mean + 0.1 * (x * 2).detach()
    known = origins.boundaries._cuts[int(mean.untyped_storage()._cdata)][1][-1]
    assert len(known.spots) == 1


def test_gradients_given_without_a_graph(origins: ModeOrigins) -> None:
    w, x = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    y = (w * x).sin().sum()
    frame = sys._getframe()
    gave = origins.boundaries.differentiated([y], frame)

    def run() -> tuple[torch.Tensor, ...]:
        result = torch.autograd.grad(y, [x])
        try:
            return tuple(list(result))
        finally:
            gave(given(shapes_of([x])))

    (g,) = run()
    penalty = (g.norm() - 1) ** 2
    found = origins.boundaries.of(penalty)
    assert found is not None
    assert (found.kind, code(origins, found)) == ("no_create_graph", "gave = origins.boundaries.differentiated([y], frame)")
    assert same(behind(found), [w, x])
    assert given(shapes_of([torch.ones(7, 1, 3)])) == []
    assert given(()) == []


def test_a_tensor_made_of_numbers_may_come_of_the_last_cast(origins: ModeOrigins) -> None:
    net = torch.nn.Linear(2, 1)
    assert origins.boundaries.of(torch.tensor(0.5)) is None
    total = 0.0
    for _ in range(2):
        total += net(torch.ones(1, 2)).mean().item()
    line = "total += net(torch.ones(1, 2)).mean().item()"
    for loss in (torch.tensor(total, requires_grad=True), torch.as_tensor([[total]]) * 2):
        found = origins.boundaries.of(loss)
        assert found is not None
        assert (found.kind, code(origins, found), found.certain) == ("item", line, False)
        assert same(behind(found), [net.weight, net.bias])
    values = net(torch.ones(1, 2)).detach().numpy()
    found = origins.boundaries.of(torch.tensor(values + 1).sum())
    assert found is not None
    assert (found.kind, found.certain) == ("detach", False)
    assert origins.boundaries.of(torch.tensor([1, 2])) is None


def test_a_function_of_several_tensors_cuts_none_off(origins: ModeOrigins) -> None:
    """`mse_loss` broadcasts what it is given, and gives the target back as it came: without a graph."""
    x = torch.ones(3, requires_grad=True)
    broadcast, target = torch.broadcast_tensors(x, torch.ones(3))
    assert (broadcast.requires_grad, target.requires_grad) == (True, False)
    assert origins.boundaries.of(target) is None
    assert origins.boundaries.since() == []


def test_a_copy_that_is_a_leaf_of_its_own(origins: ModeOrigins) -> None:
    x = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = torch.tensor((x * 2).sum(), requires_grad=True)
    found = origins.boundaries.of(loss)
    assert found is not None
    assert (found.kind, found.certain) == ("copy", True)
    assert same(behind(found), [x])
