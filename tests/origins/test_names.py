"""Leaves, roots, seeds and modules are named as the person would name them, and naming runs none of their code."""

from __future__ import annotations

import copy
import gc
import linecache
import sys
import weakref
from collections import namedtuple
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn

from gradscope.debuggee import frame_locals, optimizers, statements
from gradscope.debuggee.call_site import CallText, call_site, call_text
from gradscope.debuggee.names import LeafName, Names, leaf_names


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(2, 2)
        self.fc2 = nn.Linear(2, 2)
        self.fc2.weight = self.fc1.weight


def names_of(*tensors: torch.Tensor) -> list[str]:
    return [one.name for one in leaf_names(tensors, sys._getframe(1))]


def test_parameters_by_path_with_the_variable_as_alias() -> None:
    net = Net()
    assert leaf_names([net.fc1.weight, net.fc2.bias], sys._getframe()) == [
        LeafName("fc1.weight", ("fc2.weight", "net.fc1.weight", "net.fc2.weight"), "parameter", ""),
        LeafName("fc2.bias", ("net.fc2.bias",), "parameter", ""),
    ]


def test_several_nets_are_told_apart_by_their_variable() -> None:
    G, D = Net(), Net()
    found = leaf_names([G.fc1.bias, D.fc1.bias], sys._getframe())
    assert [(one.name, one.aliases) for one in found] == [("G.fc1.bias", ("fc1.bias",)), ("D.fc1.bias", ("fc1.bias",))]


def test_variables_containers_and_attributes() -> None:
    class Holder:
        def __init__(self) -> None:
            self.w = torch.ones(1, requires_grad=True)

    Pair = namedtuple("Pair", "left right")
    x = torch.ones(1, requires_grad=True)
    params = {"w": torch.ones(1, requires_grad=True), "layers": [torch.ones(1, requires_grad=True)]}
    inputs = [torch.ones(1), torch.ones(1, requires_grad=True)]
    pair = Pair(torch.ones(1, requires_grad=True), None)
    holder = Holder()
    assert names_of(x, params["w"], params["layers"][0], inputs[1], pair.left, holder.w, torch.ones(1)) == [
        "x",
        "params['w']",
        "params['layers'][0]",
        "inputs[1]",
        "pair.left",
        "holder.w",
        "leaf 6",
    ]


def test_an_outer_frame_knows_self_by_a_better_name() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = torch.ones(1, requires_grad=True)

        def name(self) -> str:
            return names_of(self.w)[0]

    model = Model()
    assert model.name() == "model.w"
    assert Model().name() == "self.w"


def test_modules_in_plain_lists_are_found() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(1, 1)]
            self.by_name = {"a": nn.Linear(1, 1)}

    plain = Plain()
    assert names_of(plain.layers[0].weight, plain.by_name["a"].bias) == ["layers[0].weight", "by_name['a'].bias"]


def test_a_net_that_no_frame_holds_is_found_all_the_same() -> None:
    net = Net()
    assert leaf_names([net.fc1.bias], None) == [LeafName("fc1.bias", ("Net.fc1.bias",), "parameter", "")]


def test_owners_are_optimizers_and_their_groups() -> None:
    net = Net()
    optimizer = torch.optim.AdamW([{"params": [net.fc1.weight]}, {"params": [net.fc2.bias]}])
    found = leaf_names([net.fc1.weight, net.fc2.bias, net.fc1.bias], sys._getframe())
    assert [one.owner for one in found] == ["AdamW[0]", "AdamW[1]", ""]
    assert len(optimizer.param_groups) == 2


def test_optimizers_are_noted_as_they_are_made() -> None:
    undo = optimizers.watch(torch)
    try:
        before = len(optimizers.all_of_them(torch))
        net = Net()
        one = torch.optim.SGD(net.parameters(), lr=0.1)
        other = copy.deepcopy(one)
        assert {id(one), id(other)} <= {id(each) for each in optimizers.all_of_them(torch)}
        del one, other
        gc.collect()
        assert len(optimizers.all_of_them(torch)) <= before
    finally:
        undo()


def test_unreached_parameters() -> None:
    net, spare = Net(), nn.Linear(1, 1)
    spare.bias.requires_grad_(False)
    reached = [net.fc1.weight, net.fc1.bias]
    assert [(one.name, one.kind) for _, one in Names(sys._getframe()).unreached(reached)] == [
        ("net.fc2.bias", "parameter"),
        ("spare.weight", "parameter"),
    ]
    spare.weight.requires_grad_(False)
    assert [one.name for _, one in Names(sys._getframe()).unreached(reached)] == ["fc2.bias"]
    assert Names(sys._getframe()).unreached([*reached, net.fc2.bias]) == []


def test_a_path_that_says_too_little_gets_the_variable() -> None:
    layer = nn.Linear(1, 1)
    assert leaf_names([layer.weight], sys._getframe())[0] == LeafName("layer.weight", ("weight",), "parameter", "")
    del layer
    stack = nn.Sequential(nn.Linear(1, 1))
    assert names_of(stack[0].bias) == ["stack.0.bias"]


def test_module_paths() -> None:
    outer = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))
    names = Names(sys._getframe())
    assert [names.module(one) for one in (outer, outer[0], outer[1][0])] == ["outer", "outer.0", "outer.1.0"]


def test_a_root_with_named_children_has_the_empty_path() -> None:
    net = Net()
    names = Names(sys._getframe())
    assert [names.module(one) for one in (net, net.fc1)] == ["", "fc1"]


def test_a_compiled_module_keeps_its_paths() -> None:
    net = Net()
    fast = torch.compile(net, backend="eager")
    del net
    assert leaf_names([fast.fc1.bias], sys._getframe())[0] == LeafName("fc1.bias", ("fast.fc1.bias",), "parameter", "")


def test_naming_runs_none_of_the_persons_code() -> None:
    class Trap:
        w = property(lambda self: pytest.fail("property called"))

        def __getattr__(self, name: str) -> Any:
            pytest.fail(f"__getattr__({name}) called")

        def __iter__(self) -> Any:
            pytest.fail("__iter__ called")

        def __eq__(self, other: object) -> bool:
            pytest.fail("__eq__ called")

        def __hash__(self) -> int:
            pytest.fail("__hash__ called")

        def __len__(self) -> int:
            pytest.fail("__len__ called")

        def __bool__(self) -> bool:
            pytest.fail("__bool__ called")

    class OddDict(dict[str, Any]):
        def items(self) -> Any:
            pytest.fail("items() called")

        def __iter__(self) -> Any:
            pytest.fail("__iter__ called")

    class Slotted:
        __slots__ = ("x",)

    class Pretender:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            pytest.fail("__dict__ property called")

        @property
        def __class__(self) -> Any:  # type: ignore[override]
            pytest.fail("__class__ property called")

    x = torch.ones(1, requires_grad=True)
    traps = [Trap(), Slotted(), Pretender(), OddDict(inner=x)]
    loop: list[Any] = [traps]
    loop.append(loop)
    assert names_of(x) == ["x"]


def test_reading_variables_leaves_no_trace() -> None:
    def script() -> tuple[dict[str, Any], list[str], Any]:
        held = torch.ones(1)
        reference = weakref.ref(held)
        settings = locals()
        later = 1
        frame_locals.variables(sys._getframe())
        del held
        return settings, list(settings), (reference, later)

    settings, keys, (reference, _) = script()
    assert keys == ["held", "reference"]
    assert settings["held"] is not None
    settings.clear()
    assert reference() is None


def test_variables_are_not_kept_alive() -> None:
    class Thing:
        pass

    def script() -> Any:
        thing = Thing()
        reference = weakref.ref(thing)
        assert frame_locals.variables(sys._getframe())["thing"] is thing
        del thing
        return reference()

    assert script() is None


def seen(text: str, count: int, **values: Any) -> CallText:
    """What is read from a call when its engine is asked for."""
    found: list[CallText] = []
    engine = torch.autograd._engine_run_backward

    def note(*args: Any, **kwargs: Any) -> Any:
        frame: FrameType = sys._getframe(1)
        found.append(call_text(frame, count))
        return engine(*args, **kwargs)

    source = text + "\n"
    linecache.cache["<call>"] = (len(source), None, source.splitlines(keepends=True), "<call>")
    statements.forget()
    torch.autograd._engine_run_backward = note
    try:
        exec(compile(source, "<call>", "exec"), {"torch": torch, **values})
    finally:
        torch.autograd._engine_run_backward = engine
    return found[-1]


def test_roots_and_seeds_as_written() -> None:
    x = torch.ones(2, requires_grad=True)
    loss = (x * 2).sum()
    assert seen("loss.backward(retain_graph=True)", 1, loss=loss) == CallText(("loss",), ("",), ())
    assert seen("(x * 3).sum().backward()", 1, x=x).roots == ("(x * 3).sum()",)
    assert seen("J.backward(torch.tensor([1.0, 2.0]), inputs=[x])", 1, J=x * 2, x=x) == CallText(
        ("J",), ("torch.tensor([1.0, 2.0])",), ("x",)
    )
    assert seen(
        "torch.autograd.backward(\n    [a, b], [v, w]\n)", 2, a=x * 2, b=x * 3, v=torch.ones(2), w=torch.ones(2)
    ) == CallText(("a", "b"), ("v", "w"), ())
    assert seen("torch.autograd.grad(out.sum(), x, grad_outputs=None)", 1, out=x * 2, x=x) == CallText(
        ("out.sum()",), ("",), ("x",)
    )
    assert seen("losses = [x.sum(), x.prod()]\ntorch.autograd.backward(losses)", 2, x=x).roots == ("losses[0]", "losses[1]")
    if sys.version_info >= (3, 11):
        assert seen("a.backward(retain_graph=True); b.backward()", 1, a=x.sum(), b=x.prod()).roots == ("b",)


def test_a_trainer_that_calls_backward_for_you() -> None:
    class Accelerator:
        def backward(self, loss: torch.Tensor) -> None:
            loss.backward()

    text = "accelerator.backward(the_loss)"
    x = torch.ones(1, requires_grad=True)
    # This file is a person's: the innermost of their lines is the one inside Accelerator.
    assert seen(text, 1, accelerator=Accelerator(), the_loss=x.sum()).roots == ("loss",)


def test_call_site() -> None:
    site = call_site(sys._getframe())
    assert (site.file, site.code) == (__file__, "site = call_site(sys._getframe())")
    assert site.function.endswith("test_call_site")
    assert call_site(None).line == 0
