"""Each node is led back to the line, function and module that made it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import torch
from origin_ways import install, nodes
from torch import nn

from gradscope.debuggee.mode_origins import ModeOrigins
from gradscope.debuggee.names import Names
from gradscope.debuggee.origins import Origins
from gradscope.model.places import Origin


def by_mode(origins: Origins) -> bool:
    """Whether the function of torch's is known, and the expression wherever Python tells it."""
    return isinstance(origins, ModeOrigins)


def line_here() -> int:
    return sys._getframe(1).f_lineno


def of(origins: Origins, tensor: torch.Tensor) -> Origin:
    assert tensor.grad_fn is not None
    return of_node(origins, tensor.grad_fn)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.fc(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.h = nn.ModuleList([Block(), Block()])
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.h:
            x = block(x)
        return x * self.scale


def test_line_function_statement_and_target(origins: Origins) -> None:
    x = torch.ones(3, requires_grad=True)
    b = x.sin()
    line = line_here() - 1
    assert of(origins, b) == Origin(
        file=__file__,
        line=line,
        function=of(origins, b).function,
        torch_function="Tensor.sin" if by_mode(origins) else "",
        code="b = x.sin()",
        expression="x.sin()",
        target="b",
    )
    assert of(origins, b).function.endswith("test_line_function_statement_and_target")


def test_only_the_whole_expression_makes_the_target(origins: Origins) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.sin().cos()
    last, first = of(origins, y), of_node(origins, y.grad_fn.next_functions[0][0])
    assert last.code == first.code == "y = x.sin().cos()"
    assert (last.target, first.target) == ("y", "")
    assert (last.expression, first.expression) == ("x.sin().cos()", "x.sin()")
    if by_mode(origins):
        assert (last.torch_function, first.torch_function) == ("Tensor.cos", "Tensor.sin")


def test_statement_over_several_lines(origins: Origins) -> None:
    x = torch.ones(3, requires_grad=True)
    y = torch.add(
        x,  # a remark
        other=x,
    )
    assert of(origins, y).code == "y = torch.add(x, other=x)"
    assert of(origins, y).line == line_here() - 5


def test_in_place_and_views_and_many_outputs(origins: Origins) -> None:
    x = torch.ones(4, requires_grad=True)
    y = x * 2
    y.mul_(3)
    assert (of(origins, y).code, of(origins, y).line) == ("y.mul_(3)", line_here() - 1)
    y[0] = 5.0
    assert (of(origins, y).code, of(origins, y).target) == ("y[0] = 5.0", "y")
    a, b = torch.chunk(y, 2)
    assert of(origins, a).code == of(origins, b).code == "a, b = torch.chunk(y, 2)"
    turned = of(origins, a.view(1, 2).T)
    assert turned.torch_function == ("Tensor.T" if by_mode(origins) else "")


def test_library_code_belongs_to_the_persons_line_and_keeps_its_module(origins: Origins) -> None:
    net = Net()
    out = net(torch.ones(1, 2))
    names = Names(sys._getframe(), origins.modules())
    with origins.naming_modules(names.module):
        found = {
            (node.name(), place.module, place.module_type, place.code) for node in nodes(out) if (place := of_node(origins, node))
        }
    assert ("AddmmBackward0", "h.0.fc", "Linear", "return torch.tanh(self.fc(x))") in found
    assert ("AddmmBackward0", "h.1.fc", "Linear", "return torch.tanh(self.fc(x))") in found
    assert ("TanhBackward0", "h.1", "Block", "return torch.tanh(self.fc(x))") in found
    assert ("MulBackward0", "", "Net", "return x * self.scale") in found


def of_node(origins: Origins, node: torch.autograd.graph.Node) -> Origin:
    found = origins.lookup(node._sequence_nr(), node.name().rpartition("::")[2])
    assert found is not None, node.name()
    return found


def test_every_node_of_every_kind_of_layer_has_a_line(origins: Origins) -> None:
    models = [
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), torch.randn(2, 3, 8)),
        (nn.LSTM(4, 5, num_layers=2), torch.randn(3, 2, 4)),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5)), torch.randn(2, 1, 5, 5)),
        (nn.MultiheadAttention(8, 2), torch.randn(3, 2, 8)),
    ]
    for model, x in models:
        inputs = (x, x, x) if isinstance(model, nn.MultiheadAttention) else (x,)
        out = model(*inputs)
        line = line_here() - 1
        out = out[0] if isinstance(out, tuple) else out
        for node in nodes(out):
            place = of_node(origins, node)
            assert (place.file, place.line) == (__file__, line), node.name()
            assert place.module_type != ""


def test_custom_function(origins: Origins) -> None:
    x = torch.ones(3, requires_grad=True)
    y = Square.apply(x)
    assert y.grad_fn.name() == "SquareBackward"
    assert (of(origins, y).code, of(origins, y).line) == ("y = Square.apply(x)", line_here() - 2)
    z = y + 1
    assert of(origins, z).code == "z = y + 1"


def test_a_node_nobody_saw_has_no_origin(origins: Origins) -> None:
    x = torch.ones(3, requires_grad=True)
    before = x.sin()
    origins.pause()
    unseen = x.cos()
    origins.resume()
    after = x.tan()
    assert origins.lookup(unseen.grad_fn._sequence_nr()) is None
    assert (of(origins, before).target, of(origins, after).target) == ("before", "after")


def test_pauses_nest_and_find_their_place_among_other_modes(origins: Origins) -> None:
    seen = []

    class Theirs(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: object, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(3, requires_grad=True)
    with Theirs():
        origins.pause()
        origins.pause()
        unseen = x.sin()
        origins.resume()
        still_unseen = x.cos()
        origins.resume()
        noted = x.tan()
        assert not isinstance(origins, ModeOrigins) or torch._C._get_function_stack_at(0) is origins.mode
    assert origins.lookup(unseen.grad_fn._sequence_nr()) is None
    assert origins.lookup(still_unseen.grad_fn._sequence_nr()) is None
    # The innermost frame of the person's is that of their own mode: the line that really called torch.
    assert of(origins, noted).code == "return func(*args, **(kwargs or {}))"
    assert seen == [torch.Tensor.sin, torch.Tensor.cos, torch.Tensor.tan]


def test_second_derivatives_belong_to_the_call_that_made_them(origins: Origins) -> None:
    x = torch.ones(3, requires_grad=True)
    y = (x**3).sum()
    end = origins.span()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    end()
    assert of(origins, gradient).code in ("end()", "(gradient,) = torch.autograd.grad(y, x, create_graph=True)")
    assert of(origins, y).code == "y = (x**3).sum()"


def test_a_dead_module_is_never_named_for_a_new_one(origins: Origins) -> None:
    class Doubled(nn.Linear):
        pass

    def call(kind: type[nn.Linear]) -> tuple[torch.Tensor, weakref.ref[nn.Linear]]:
        layer = kind(2, 2)
        return layer(torch.ones(2)), weakref.ref(layer)

    _, first = call(nn.Linear)
    gc.collect()
    assert first() is None
    for _ in range(20):
        out, _ = call(Doubled)
        assert of(origins, out).module_type == "Doubled"
        assert of(origins, out).module == ""


def test_nothing_is_kept_alive(origins: Origins) -> None:
    net = Net()
    x = torch.ones(1, 2, requires_grad=True)
    out = net(x)
    dead = [weakref.ref(net), weakref.ref(x), weakref.ref(out)]
    del net, x, out
    gc.collect()
    assert [one() for one in dead] == [None, None, None]


def test_other_threads_are_left_alone(origins: Origins) -> None:
    x = torch.ones(3, requires_grad=True)
    mine = [x.sin() for _ in range(3)]
    found: list[object] = []

    def elsewhere() -> None:
        y = [x.cos() for _ in range(3)]
        origins.pause()
        origins.resume()
        found.extend(origins.lookup(one.grad_fn._sequence_nr()) for one in y)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [None, None, None]
    assert {of(origins, one).code for one in mine} == {"mine = [x.sin() for _ in range(3)]"}


def test_memory_is_bounded(origins: Origins) -> None:
    origins.spans.most = 1000
    x = torch.ones(1, requires_grad=True)
    start = torch.autograd._get_sequence_nr()
    for _ in range(10_000):
        last = x.sin()
    assert len(origins.spans) <= 2000
    assert origins.lookup(start) is None
    assert of(origins, last).code == "last = x.sin()"


def test_remove_leaves_torch_as_it_was() -> None:
    before = {
        name: getattr(torch.nn.functional, name)
        for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    }
    unwrap = torch._functorch.utils.unwrap_dead_wrappers
    table = install("mode")
    assert torch.nn.functional.has_torch_function_unary is not before["has_torch_function_unary"]
    table.remove()
    assert {name: getattr(torch.nn.functional, name) for name in before} == before
    assert torch._C._len_torch_function_stack() == 0
    assert torch._functorch.utils.unwrap_dead_wrappers is unwrap


def test_line_events_touch_nothing_of_torch() -> None:
    asked, unwrap = torch.nn.functional.has_torch_function, torch._functorch.utils.unwrap_dead_wrappers
    table = install("lines")
    assert torch.nn.functional.has_torch_function is asked
    assert torch._functorch.utils.unwrap_dead_wrappers is unwrap
    assert torch._C._len_torch_function_stack() == 0
    table.remove()
