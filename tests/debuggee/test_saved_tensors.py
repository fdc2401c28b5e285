"""What nodes keep for backward: names, states, versions and bytes, against torch itself."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradscope.debuggee import inspecting
from gradscope.debuggee.capture import capture
from gradscope.debuggee.saved_tensors import read_saved
from gradscope.debuggee.subject import of_tensor
from gradscope.model.saved import EDITED, FREED, HERE, PACKED, RECOMPUTED, Saved, SavedTable
from gradscope.model.tensors import TensorTable
from gradscope.protocol import messages as m

pytestmark = pytest.mark.usefixtures("noted")


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers or (1.0, 2.0), requires_grad=True)


class Read:
    """What the graph below a root keeps, by op."""

    def __init__(self, root: torch.Tensor) -> None:
        self.captured = capture([root])
        self.table = SavedTable(read_saved(self.captured))

    def node(self, op: str) -> int:
        return self.captured.ops.index(op)

    def of(self, op: str) -> list[Saved]:
        return self.table.of_node(self.node(op))


class Scale(torch.autograd.Function):
    """Keeps two inputs, an output, and more on its ctx."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, factor: int) -> torch.Tensor:
        result = a * b * factor
        ctx.save_for_backward(a, None, b, result)
        ctx.factor = factor
        ctx.mask = a > 0
        ctx.more = {"halves": [a / 2], "label": "x"}
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        a, _, b, _ = ctx.saved_tensors
        return gradient * b * ctx.factor, gradient * a * ctx.factor, None


def test_names_shapes_and_versions_are_torchs() -> None:
    x, w = leaf(1.0, 2.0, 3.0), torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        w.mul_(2)
    read = Read((x * w).exp().sum())
    by_name = {saved.name: saved for saved in read.of("MulBackward0")}
    assert {name: (one.shape, one.dtype, one.bytes, one.text) for name, one in by_name.items()} == {
        "self": ((3,), "float32", 12, "here"),
        "other": ((2, 3), "float32", 24, "here"),
    }
    assert (by_name["other"].version_saved, by_name["other"].version_now) == (1, 1) == (w._version, w._version)
    assert (by_name["self"].version_saved, by_name["self"].version_now) == (0, 0)
    [result] = read.of("ExpBackward0")
    assert (result.name, result.shape, result.bytes) == ("result", (2, 3), 24)
    assert read.of("SumBackward0") == []
    assert read.table.total == 12 + 24 + 24


def test_a_storage_that_two_nodes_keep_counts_once() -> None:
    x = leaf()
    a = x.exp()
    read = Read((a * a.sin()).sum())
    exp, sin, mul = (read.node(f"{op}Backward0") for op in ("Exp", "Sin", "Mul"))
    [result] = read.of("ExpBackward0")
    assert sorted(result.shared) == sorted([sin, mul])
    assert read.table.bytes_of_node(mul) == 16
    assert read.table.bytes_of_nodes([exp, sin, mul]) == 16 == read.table.total
    assert read.table.by_bytes() == [mul, *sorted([exp, sin])]


def test_a_view_keeps_the_whole_storage() -> None:
    whole = torch.zeros(100)
    read = Read((leaf() * whole[3:5]).sum())
    [other] = [saved for saved in read.of("MulBackward0") if saved.name == "other"]
    assert (other.shape, other.bytes) == ((2,), 400)


def test_an_edited_tensor_is_read_past_torchs_error() -> None:
    x = leaf()
    a = x.exp()
    y = a.sin()
    a.detach().mul_(2)
    read = Read(y.sum())
    [kept] = read.of("SinBackward0")
    assert (kept.state, kept.version_saved, kept.version_now, kept.bytes) == (EDITED, 0, 1, 8)
    assert [saved.state for saved in read.of("ExpBackward0")] == [EDITED]
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        y.sum().backward()


def test_a_freed_graph_keeps_nothing() -> None:
    x = leaf()
    y = (x.exp() * Scale.apply(x, x, 2)).sum()
    y.backward()
    read = Read(y)
    assert {saved.state for op in ("MulBackward0", "ExpBackward0", "ScaleBackward") for saved in read.of(op)[:1]} == {FREED}
    assert [(saved.shape, saved.bytes) for saved in read.of("ExpBackward0")] == [(None, 0)]


def test_an_optional_tensor_that_is_not_there_has_no_row() -> None:
    read = Read(nn.functional.layer_norm(leaf(), (2,)).sum())
    [op] = [op for op in read.captured.ops if "LayerNorm" in op]
    assert {"input", "result1", "result2"} == {saved.name for saved in read.of(op)}


def test_lists_are_told_apart() -> None:
    x = torch.randn(4, 4, requires_grad=True)
    read = Read(x[torch.tensor([0, 1]), torch.tensor([2, 3])].sum())
    assert [(saved.name, saved.dtype, saved.bytes) for saved in read.of("IndexBackward0")] == [
        ("indices[0]", "int64", 16),
        ("indices[1]", "int64", 16),
    ]


def test_what_a_custom_function_keeps() -> None:
    a, b = leaf(), leaf(3.0, 4.0)
    read = Read(Scale.apply(a, b, 5).sum())
    kept = read.of("ScaleBackward")
    assert [saved.name for saved in kept] == [
        *("saved_tensors[0]", "saved_tensors[2]", "saved_tensors[3]"),
        *("ctx.mask", "ctx.more['halves'][0]"),
    ]
    assert [saved.bytes for saved in kept] == [8, 8, 8, 2, 8]
    assert {saved.state for saved in kept} == {HERE}
    assert kept[3].version_saved == -1  # torch watches over what save_for_backward has, and nothing else


def test_an_edited_output_of_a_custom_function() -> None:
    y = Scale.apply(leaf(), leaf(3.0, 4.0), 5)
    y.detach().zero_()
    states = {saved.name: (saved.state, saved.version_now) for saved in Read(y.sum()).of("ScaleBackward")}
    assert states["saved_tensors[3]"] == (EDITED, 1)
    assert states["saved_tensors[0]"] == states["saved_tensors[2]"] == (HERE, 0)


def test_checkpoint_is_not_run_again() -> None:
    runs = []

    def inside(a: torch.Tensor) -> torch.Tensor:
        runs.append(1)
        return (a * a.exp()).sin()

    x = leaf()
    read = Read(checkpoint(inside, x, use_reentrant=False).sum())
    for op in ("SinBackward0", "MulBackward0", "ExpBackward0"):
        assert {saved.state for saved in read.of(op)} == {RECOMPUTED}
    assert (read.table.total, len(runs)) == (0, 1)


def test_unpack_hooks_are_not_run_and_what_they_packed_counts() -> None:
    unpacked = []

    def unpack(packed: tuple[str, torch.Tensor]) -> torch.Tensor:
        unpacked.append(1)
        return packed[1].float()

    x = leaf()
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: ("half", tensor.half()), unpack):
        y = x.exp()
    subject = of_tensor(y.sum(), "y", None, None)
    table = SavedTable(read_saved(subject.captured))
    exp = subject.captured.ops.index("ExpBackward0")
    [kept] = table.of_node(exp)
    assert (kept.state, kept.shape, kept.bytes, unpacked) == (PACKED, None, 4, [])
    looked = inspecting.answer(subject, None, m.Inspect(1, exp))
    assert isinstance(looked, m.Inspected)
    assert (looked.places, len(looked.notes), unpacked) == ([], 1, [])
    assert "packed it, as float16 [2]" in looked.notes[0]
    assert "unpack (test_saved_tensors.py:" in looked.notes[0]


def test_composed_tensors_count_all_their_parts() -> None:
    sparse = torch.eye(3).to_sparse().requires_grad_()
    read = Read(torch.sparse.mm(sparse, torch.ones(3, 2, requires_grad=True)).sum())
    op = next(op for op in read.captured.ops if op.startswith("SparseAddmm"))
    assert [(saved.name, saved.bytes) for saved in read.of(op)] == [("mat1", 12), ("mat1.indices", 48), ("mat2", 24)]
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged, requires_grad=True)
    [kept, offsets, *_] = Read((nested.sin()).values().sum()).of("SinBackward0")
    assert (kept.name, kept.bytes, offsets.name, offsets.bytes) == ("self", 36, "self.offsets", 24)


def test_a_meta_tensor_takes_no_memory() -> None:
    read = Read(torch.ones(1000, device="meta", requires_grad=True).exp().sum())
    assert [(saved.shape, saved.bytes, saved.device) for saved in read.of("ExpBackward0")] == [((1000,), 0, "meta")]


def test_nodes_that_tell_nothing_say_so() -> None:
    h = leaf() * 2
    h[0] = 5.0
    read = Read(h.sum())
    assert "does not show" in read.table.why_untold(read.node("CopySlices"))


def test_reading_bumps_no_version_and_keeps_nothing_alive() -> None:
    x = leaf()
    a = x.exp()
    y = a.sin().sum()
    read = Read(y)
    assert (x._version, a._version) == (0, 0)
    gone = weakref.ref(a)
    read.captured.release()
    del a, y
    gc.collect()
    assert gone() is None


def test_owners_by_name() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(2, 2)
            self.bn = nn.BatchNorm1d(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.bn(self.fc1(x).exp())

    net, batch = Net().eval(), torch.ones(3, 2, requires_grad=True)
    loss = net(batch).exp()
    subject = of_tensor(loss, "loss", sys._getframe(), None)
    table = SavedTable(inspecting.saved_of(subject, None))
    of = {op: {saved.name: saved.owner for saved in table.of_node(node)} for node, op in enumerate(subject.captured.ops)}
    assert of["AddmmBackward0"] == {"mat1": "leaf batch", "mat2": "parameter fc1.weight"}
    assert of["NativeBatchNormBackward0"]["running_mean"] == "buffer bn.running_mean"
    assert of["NativeBatchNormBackward0"]["weight"] == "parameter bn.weight"
    exps = [table.of_node(node)[0] for node, op in enumerate(subject.captured.ops) if op == "ExpBackward0"]
    assert [one.owner for one in exps] == ["root loss", ""]
    assert table.own == 24  # the inner exp
    assert table.total > table.own


def test_looking_into_a_node() -> None:
    a, b = leaf(), leaf(3.0, 4.0)
    y = Scale.apply(a, b, 5).sum()
    subject = of_tensor(y, "y", None, None)
    node = subject.captured.ops.index("ScaleBackward")
    looked = inspecting.answer(subject, None, m.Inspect(7, node))
    assert isinstance(looked, m.Inspected)
    table = TensorTable(looked.tensors)
    assert (looked.request, looked.node, looked.places) == (7, node, [0, 1, 2, 3, 4])
    assert [table.values(row) for row in range(len(table))] == [(1.0, 2.0), (3.0, 4.0), (15.0, 40.0), (True, True), (0.5, 1.0)]
    attributes = dict(looked.attributes)
    assert attributes["ctx.factor"] == "5"
    assert attributes["ctx.more"] == "{'halves': [a tensor], 'label': 'x'}"
    assert attributes["needs_input_grad"] == "(True, True, False)"
    part = inspecting.answer(subject, None, m.FetchSaved(8, node, 2, [(1, 2, 1)]))
    assert isinstance(part, m.TensorSlice)
    assert (part.request, part.shape, part.values) == (8, (1,), [40.0])


def test_attributes_of_a_built_in_node() -> None:
    subject = of_tensor(torch.ones(2, 3, requires_grad=True).sum(-1).sum(), "y", None, None)
    node = next(n for n, op in enumerate(subject.captured.ops) if op == "SumBackward1")
    looked = inspecting.answer(subject, None, m.Inspect(1, node))
    assert isinstance(looked, m.Inspected)
    assert dict(looked.attributes) == {"dim": "(-1,)", "keepdim": "False", "self_sizes": "(2, 3)"}
