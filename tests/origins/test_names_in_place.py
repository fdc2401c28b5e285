"""What in-place operations make is named by what it is: the view by its expression, the whole tensor by its own name."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import torch
from origin_ways import nodes

from gradscope.debuggee.capture import capture
from gradscope.debuggee.graph_columns import graph_columns
from gradscope.debuggee.mode_origins import ModeOrigins
from gradscope.debuggee.origins import Origins
from gradscope.model.backward_graph import BackwardGraph

X = torch.ones(10, 4, requires_grad=True)


def tells_parts(origins: Origins) -> bool:
    """Whether a node is known to come from a part of its line: by the instruction, with the positions that Python 3.11 has."""
    return isinstance(origins, ModeOrigins) and sys.version_info >= (3, 11)


def named(origins: Origins, tensor: torch.Tensor) -> list[tuple[str, str, tuple[int, ...] | None]]:
    """Op, name and shape of the nodes in forward order."""
    assert nodes(tensor)
    graph = BackwardGraph(graph_columns(capture([tensor]), origin_of=origins.lookup, root_names=[""]))
    order = sorted((node for node in range(len(graph)) if not graph.is_accumulate(node)), key=graph.sequence_nr)
    return [(graph.short(node), graph.gradient_name(node).removeprefix("∂"), graph.shape(node)) for node in order]


def test_an_operation_on_a_part_makes_the_part_and_then_the_whole(origins: Origins) -> None:
    placed = tells_parts(origins)
    work = X.clone()
    work[0] *= 3
    assert named(origins, work) == [
        ("Clone", "work", (10, 4)),
        ("CopySlices", "", (10, 4)),
        ("AsStrided", "work[0]" if placed else "", (4,)),
        ("CopySlices", "work" if placed else "", (10, 4)),
    ]


def test_slices_and_attributes(origins: Origins) -> None:
    placed = tells_parts(origins)
    held = SimpleNamespace()
    held.h = X.clone()
    held.h *= 2
    held.h[2:4, 1] -= 1.0
    held.h[5] = 7.0
    assert named(origins, held.h) == [
        ("Clone", "held.h", (10, 4)),
        ("Mul", "held.h", (10, 4)),
        ("CopySlices", "", (10, 4)),
        ("AsStrided", "held.h[2:4, 1]" if placed else "", (2,)),
        ("CopySlices", "held.h" if placed else "", (10, 4)),
        ("CopySlices", "held.h", (10, 4)),
    ]


def test_items_of_a_list_are_themselves(origins: Origins) -> None:
    parts = [X.clone(), X.clone()]
    parts[0] *= 2
    found = named(origins, parts[0])
    assert found == [("Clone", "", (10, 4)), ("Mul", "parts[0]", (10, 4))]


def test_an_operation_on_a_view_does_not_give_the_base_its_name(origins: Origins) -> None:
    work = X.clone()
    row = work[1]
    row *= 2
    assert named(origins, work) == [("Clone", "work", (10, 4)), ("CopySlices", "", (10, 4))]
    flat = work.view(-1)
    flat[3] = 1.0
    assert named(origins, work)[-1] == ("CopySlices", "", (10, 4))


def test_a_base_of_another_name_is_not_called_as_its_view(origins: Origins) -> None:
    work = X.clone()
    flat = work.view(-1)
    flat[3] = 1.0
    assert named(origins, work) == [("Clone", "work", (10, 4)), ("CopySlices", "", (10, 4))]


def test_an_index_of_numbers(origins: Origins) -> None:
    work, rows = X.clone(), torch.tensor([1, 2])
    work = work * 2
    work[rows] *= 3
    found = named(origins, work)
    assert [(op, name, shape) for op, name, shape in found if op in ("IndexPut", "Mul")][-1][0] == "IndexPut"
    assert ("Mul", "work", (10, 4)) in found
    names = {name: shape for op, name, shape in found if name}
    assert names["work"] == (10, 4)
    assert names.get("work[rows]", (2, 4)) == (2, 4)


def test_several_targets_name_nothing(origins: Origins) -> None:
    work = X.clone()
    work[0], other = work[1] * 2, work[2] * 3
    found = named(origins, work.sum() + other.sum())
    assert {name for _, name, _ in found} == {"", "work"}
    assert all(shape == (10, 4) for _, name, shape in found if name == "work")
