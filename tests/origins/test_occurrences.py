"""A node is told in which run of its line it was made: all nodes of one run have one number, however many they are."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import torch
from origin_ways import nodes
from torch import nn

from gradscope.debuggee.capture import capture
from gradscope.debuggee.graph_columns import graph_columns
from gradscope.debuggee.mode_origins import ModeOrigins
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.runs import Mark
from gradscope.model.backward_graph import BackwardGraph

X = torch.ones(2, 2, requires_grad=True)


def made(origins: Origins, tensor: torch.Tensor) -> dict[str, list[tuple[str, int]]]:
    """For each statement the nodes that it made and their runs, in forward order."""
    numbers = sorted(nodes(tensor), key=lambda node: node._sequence_nr())
    runs = origins.occurrences([node._sequence_nr() for node in numbers])
    found: dict[str, list[tuple[str, int]]] = {}
    for node, run in zip(numbers, runs, strict=True):
        name = node.name().rpartition("::")[2].partition("Backward")[0]
        place = origins.lookup(node._sequence_nr(), node.name())
        assert place is not None
        found.setdefault(place.code, []).append((name, run))
    return found


def test_all_nodes_of_a_round_have_its_number(origins: Origins) -> None:
    state, gain = torch.zeros(2), torch.ones(2, requires_grad=True)
    for row in range(2):
        for column in range(2):
            state = torch.tanh(state * 0.9 + X[row, column].mean() * gain)
    runs = made(origins, state)["state = torch.tanh(state * 0.9 + X[row, column].mean() * gain)"]
    one = ["Select", "Select", "Mean", "Mul", "Add", "Tanh"]
    first, later = [(op, 1) for op in one], [[("Mul", run), *((op, run) for op in one)] for run in (2, 3, 4)]
    assert runs == [*first, *later[0], *later[1], *later[2]]


def test_a_line_that_runs_once_has_one_run_whatever_it_makes(origins: Origins) -> None:
    work = X.clone()
    work[0] *= 3
    y = (work * work).sum() * (work * 2).sum()
    found = made(origins, y)
    assert found["work[0] *= 3"] == [("CopySlices", 1), ("AsStrided", 1), ("CopySlices", 1)]
    assert {run for _, run in found["y = (work * work).sum() * (work * 2).sum()"]} == {1}


class Shared(nn.Module):
    """Library code may call one module again and again: `Sequential` does."""

    def __init__(self) -> None:
        super().__init__()
        layer, tanh = nn.Linear(2, 2), nn.Tanh()
        self.layers = nn.Sequential(layer, tanh, layer, tanh)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * 2


def test_one_call_of_a_library_is_one_run_however_often_it_calls_one_module(origins: Origins) -> None:
    net, h = Shared(), X
    for _ in range(3):
        h = net(h)
    runs = made(origins, h)["return self.layers(x) * 2"]
    assert [run for op, run in runs if op == "Tanh"] == [1, 1, 2, 2, 3, 3]
    assert [run for op, run in runs if op == "Addmm"] == [1, 1, 2, 2, 3, 3]
    assert [run for op, run in runs if op == "Mul"] == [1, 2, 3]


def test_a_layer_of_torch_called_round_after_round(origins: Origins) -> None:
    net, h = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), X
    for _ in range(3):
        h = net(h)
    assert made(origins, h)["h = net(h)"] == [(op, run) for run in (1, 2, 3) for op in ("T", "Addmm", "Relu")]


def deep(x: torch.Tensor, depth: int) -> torch.Tensor:
    if depth == 0:
        return x
    return deep(x.sin(), depth - 1).cos() * 2


def test_each_frame_of_a_recursion_is_a_run_of_its_own(origins: Origins) -> None:
    runs = made(origins, deep(X, 3))["return deep(x.sin(), depth - 1).cos() * 2"]
    assert runs == [
        ("Sin", 1),
        ("Sin", 2),
        ("Sin", 3),
        ("Cos", 3),
        ("Mul", 3),
        ("Cos", 2),
        ("Mul", 2),
        ("Cos", 1),
        ("Mul", 1),
    ]


def parts(x: torch.Tensor, late: bool) -> torch.Tensor:
    first, second = (x, x.detach()) if late else (x.detach(), x)
    return first.sin() + second.cos()


def test_a_function_called_again_has_run_again_though_it_goes_on_further_on(origins: Origins) -> None:
    y = parts(X, late=True) * parts(X, late=False)
    runs = made(origins, y)["return first.sin() + second.cos()"]
    assert runs == [("Sin", 1), ("Add", 1), ("Cos", 2), ("Add", 2)]


def test_functions_of_the_persons_own_within_a_line(origins: Origins) -> None:
    y = X
    for _ in range(2):
        y = parts(y.exp(), late=True) * parts(y, late=True).exp()
    found = made(origins, y)
    assert found["y = parts(y.exp(), late=True) * parts(y, late=True).exp()"] == [
        (op, run) for run in (1, 2) for op in ("Exp", "Exp", "Mul")
    ]
    assert [run for op, run in found["return first.sin() + second.cos()"] if op == "Sin"] == [1, 2, 3, 4]


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


def test_custom_functions(origins: Origins) -> None:
    y = X
    for _ in range(3):
        y = Double.apply(y) + Double.apply(y)
    assert made(origins, y)["y = Double.apply(y) + Double.apply(y)"] == [
        (op, run) for run in (1, 2, 3) for op in ("Double", "Double", "Add")
    ]


def test_several_lines_of_one_statement_are_one_run(origins: Origins) -> None:
    y = X
    for _ in range(2):
        y = torch.add(
            y.sin(),
            other=y.cos(),
        )
    runs = made(origins, y)["y = torch.add(y.sin(), other=y.cos())"]
    assert runs == [(op, run) for run in (1, 2) for op in ("Sin", "Cos", "Add")]


def test_rounds_of_a_generator_are_runs_beside_those_of_the_line(origins: Origins) -> None:
    y = X
    for _ in range(2):
        y = torch.stack(list(part.sin() for part in y)) * 2
    runs = made(origins, y)["y = torch.stack(list(part.sin() for part in y)) * 2"]
    assert [run for op, run in runs if op == "Sin"] == [1, 2, 3, 4]
    assert [run for op, run in runs if op in ("Stack", "Mul")] == [1, 1, 2, 2]


def test_nothing_is_said_where_instructions_do_not_tell(origins: Origins) -> None:
    by_instruction = isinstance(origins, ModeOrigins)
    y = X
    for turn in range(4):
        y = y.sin() if turn % 2 else y.cos()
    runs = made(origins, y)["y = y.sin() if turn % 2 else y.cos()"]
    assert runs == [("Cos", 0), ("Sin", 0)] * 2 if by_instruction else [("Cos", 1), ("Sin", 2), ("Cos", 3), ("Sin", 4)]
    for _ in range(2):
        y = sum(y)  # type: ignore[assignment]
        y = functools.reduce(torch.add, [y, y, y]).expand(2, 2)
    found = made(origins, y)
    assert [run for _, run in found["y = sum(y)"] if _ == "Add"] == ([0] * 4 if by_instruction else [1, 1, 2, 2])
    reduced = found["y = functools.reduce(torch.add, [y, y, y]).expand(2, 2)"]
    assert [run for op, run in reduced if op == "Expand"] == ([0, 0] if by_instruction else [1, 2])
    while (y := y.sin()).sum() > 0.5:
        y = y * 0.5
    rounds = [run for op, run in made(origins, y)["while (y := y.sin()).sum() > 0.5:"] if op == "Sin"]
    assert len(rounds) > 2
    assert rounds == ([0] * len(rounds) if by_instruction else [*range(1, len(rounds) + 1)])


def test_nothing_is_said_where_events_of_lines_do_not_tell(origins: Origins) -> None:
    y = X
    for _ in range(2):
        y = (y.sin()
             + y.cos())  # fmt: skip
    runs = made(origins, y)["y = (y.sin() + y.cos())"]
    assert [run for op, run in runs if op != "Cos"] == ([1, 1, 2, 2] if isinstance(origins, ModeOrigins) else [0] * 4)
    assert [run for op, run in runs if op == "Cos"] == [1, 2]


def test_a_file_that_cannot_be_read_says_nothing(origins: Origins) -> None:
    names = {"x": X}
    exec(compile("for _ in range(2): x = x.sin()", "<typed in>", "exec"), names)
    runs = origins.occurrences([names["x"].grad_fn._sequence_nr()])  # type: ignore[union-attr]
    assert runs == [0]


def test_nodes_that_nobody_saw_being_made(origins: Origins) -> None:
    origins.pause()
    y = X.sin()
    origins.resume()
    assert y.grad_fn is not None
    assert origins.occurrences([y.grad_fn._sequence_nr()]) == [0]


def test_the_graph_tells_run_and_number_of_runs(origins: Origins) -> None:
    y = X
    for _ in range(3):
        y = (y * 2) * (y * 3)
    once = y.sum() * 2
    columns = graph_columns(capture([once]), origin_of=origins.lookup, occurrences=origins.occurrences)
    graph = BackwardGraph(columns)
    muls = [node for node in range(len(graph)) if graph.makes(node) in ("y * 2", "y * 3", "y = (y * 2) * (y * 3)")]
    assert len(muls) == 9
    assert [graph.occurrence(node) for node in sorted(muls, key=graph.sequence_nr)] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert {graph.occurrences(node) for node in muls} == {3}
    assert (graph.occurrence(0), graph.occurrences(0)) == (1, 1)


def test_runs_of_this_graph_only_are_counted(origins: Origins) -> None:
    for turn in range(3):
        y = X.sin() * turn
    assert made(origins, y)["y = X.sin() * turn"] == [("Sin", 1), ("Mul", 1)]


def test_a_mark_is_no_trace_function_for_a_debugger() -> None:
    mark = Mark()
    assert not mark
    frame = sys._getframe()
    call: Callable[..., object] = mark
    assert call(frame, "line", None) is None
