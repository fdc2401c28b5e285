"""Formulas of real graphs as a person reads them, and what is said where there is none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from derivative_tables import table
from formula_zoo import call, cases
from graphs import Drawing
from torch import nn

from gradscope.debuggee.capture import capture
from gradscope.debuggee.graph_columns import graph_columns
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.cpp import to_python
from gradscope.model.derivatives import Entry, read
from gradscope.model.formulas import Formula, Formulas, spoken
from gradscope.model.notation import write
from gradscope.model.places import CodePlace


def formulas() -> Formulas:
    return Formulas(table(), "2.13.0")


def graph_of(root: torch.Tensor) -> BackwardGraph:
    return BackwardGraph(graph_columns(capture([root])))


def formula(root: torch.Tensor, op: str, known: dict[str, str] | None = None) -> Formula:
    """Of the first node of this kind below the root."""
    graph = graph_of(root)
    node = next(node for node in range(len(graph)) if graph.op(node) == op)
    return formulas().of(graph, node, known)


def x(*shape: int) -> torch.Tensor:
    return torch.rand(shape).requires_grad_()


# ---------------------------------------------------------------- the texts


READ = [
    (lambda: x(2, 3) @ x(3, 4), "MmBackward0", {"self": "grad @ mat2ᵀ", "mat2": "selfᵀ @ grad"}),
    (lambda: x(3) * x(3), "MulBackward0", {"self": "grad * other", "other": "grad * self"}),
    (lambda: x(3) / x(3), "DivBackward0", {"self": "grad / other", "other": "-grad * (self / other²)"}),
    (lambda: x(3) ** 3, "PowBackward0", {"self": "grad * (exponent * self ** (exponent - 1))"}),
    (lambda: x(3).sin(), "SinBackward0", {"self": "grad * cos(self)"}),
    (lambda: x(3).cos(), "CosBackward0", {"self": "-grad * sin(self)"}),
    (lambda: x(3).exp(), "ExpBackward0", {"self": "grad * result"}),
    (lambda: x(3).tanh(), "TanhBackward0", {"self": "grad * (1 - result²)"}),
    (lambda: x(3).sqrt(), "SqrtBackward0", {"self": "grad / (2 * result)"}),
    (lambda: x(3).rsqrt(), "RsqrtBackward0", {"self": "-grad / 2 * result³"}),
    (lambda: x(3).relu(), "ReluBackward0", {"self": "where(result <= 0, 0, grad)"}),
    (lambda: x(2, 3).sum(), "SumBackward0", {"self": "grad.expand(self.shape)"}),
    (lambda: x(2, 3).sum(1), "SumBackward1", {"self": "put_back(grad, dim).expand(self.shape)"}),
    (lambda: x(2, 3).softmax(1), "SoftmaxBackward0", {"self": "result * (grad - (grad * result).sum(dim, keepdim=True))"}),
    (lambda: x(2, 3).log_softmax(1), "LogSoftmaxBackward0", {"self": "grad - exp(result) * grad.sum(dim, keepdim=True)"}),
    (lambda: x(2, 3).t(), "TBackward0", {"self": "gradᵀ"}),
    (lambda: x(2, 3).view(3, 2), "ViewBackward0", {"self": "grad.reshape(self.shape)"}),
    (lambda: torch.cat([x(2), x(3)]), "CatBackward0", {"tensors": "grad.split(sizes, dim)[i]"}),
    (
        lambda: nn.functional.mse_loss(x(3), x(3)),
        "MseLossBackward0",
        {"self": "grad * 2 * (self - target) / N", "target": "grad * 2 * (target - self) / N"},
    ),
    (
        lambda: torch.addmm(x(4), x(2, 3), x(3, 4)),
        "AddmmBackward0",
        {"self": "sum_to(grad * beta, self.shape)", "mat1": "grad @ mat2ᵀ * alpha", "mat2": "mat1ᵀ @ grad * alpha"},
    ),
]


@pytest.mark.parametrize(("make", "op", "expected"), READ, ids=[op for _, op, _ in READ])
def test_texts(make: Any, op: str, expected: dict[str, str]) -> None:
    found = formula(make(), op)
    assert dict(found.outputs) == expected
    assert found.source == "derivatives.yaml of torch 2.13.0"
    assert found.why_not == ""


def test_numbers_that_are_known_are_put_in() -> None:
    root = torch.addmm(x(2, 4), x(2, 3), x(3, 4))
    assert formula(root, "AddmmBackward0").where == ["beta is 1, alpha is 1 where the call gives no other"]
    assert formula(root, "AddmmBackward0", {"alpha": "1", "beta": "1"}).where == []
    assert dict(formula(root, "AddmmBackward0", {"alpha": "1", "beta": "1"}).outputs) == {
        "self": "grad",
        "mat1": "grad @ mat2ᵀ",
        "mat2": "mat1ᵀ @ grad",
    }
    assert formula(x(3) ** 3, "PowBackward0", {"exponent": "3"}).outputs == [("self", "grad * (3 * self²)")]
    assert formula(x(3) ** 2, "PowBackward0", {"exponent": "2"}).outputs == [("self", "grad * (2 * self)")]
    kept = formula(x(2, 3).sum(1, keepdim=True), "SumBackward1", {"keepdim": "True", "dim": "[1]"})
    assert (kept.outputs, kept.where) == ([("self", "grad.expand(self.shape)")], [])


def test_what_names_mean_is_said() -> None:
    found = formula(nn.LayerNorm(4)(x(2, 4)), "NativeLayerNormBackward0")
    assert found.outputs[0] == ("input", "result2 * (g - avg(g) - xhat * avg(g * xhat))")
    assert found.outputs[2] == ("bias", "sum_to(grad, bias.shape)")
    assert found.where[:2] == ["g = grad * weight", "xhat = (input - result1) * result2"]
    assert any(line.startswith("sum_to(g, shape): ") for line in found.where)


def test_only_what_the_graph_needs_is_written() -> None:
    found = formula(x(2, 3) @ torch.rand(3, 4), "MmBackward0")
    assert found.outputs == [("self", "grad @ mat2ᵀ")]
    assert [len(edges) for edges in found.edges.values()] == [1]


def test_a_list_has_an_edge_for_each_tensor() -> None:
    found = formula(torch.cat([x(2), x(3), x(4)]), "CatBackward0")
    assert {name: len(edges) for name, edges in found.edges.items()} == {"tensors": 3}


def test_the_weight_of_a_linear_layer_is_seen_through_its_transpose() -> None:
    drawing = Drawing()
    node, turned, weight = drawing.node("AddmmBackward0"), drawing.node("TBackward0"), drawing.leaf("fc.weight")
    other = drawing.leaf("fc.bias")
    drawing.edge(node, other)
    drawing.edge(node, turned)
    drawing.edge(turned, weight)
    found = formulas().of(drawing.graph(), node)
    assert found.names == {"self": "fc.bias", "mat1": "fc.weightᵀ"}


def test_forwards_are_spoken_without_types() -> None:
    assert spoken("addmm(Tensor self, Tensor mat1, *, Scalar beta=1) -> Tensor") == "addmm(self, mat1, *, beta=1)"
    assert spoken("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor") == "sum(self, dim, keepdim=False)"
    assert spoken("_fft(Tensor self, int[2] k=[1, 1]) -> Tensor") == "_fft(self, k=[1, 1])"
    assert spoken("odd") == "odd"


# ---------------------------------------------------------------- where there is none


def test_a_leaf_and_an_in_place_view_have_rules_of_their_own() -> None:
    leaf = formula(x(3).sin(), "AccumulateGrad")
    assert leaf.outputs == [("grad", "variable.grad + grad")]
    assert leaf.source == "torch/csrc/autograd/functions/accumulate_grad.h"
    base = x(3) * 2
    base[0].mul_(3)
    copied = formula(base.sum(), "CopySlices")
    assert copied.outputs[0][0] == "base"
    assert copied.source.endswith("functions/tensor.cpp")


def test_a_function_of_the_person_shows_its_code() -> None:
    drawing = Drawing()
    node, leaf = drawing.node("MyReluBackward"), drawing.leaf("w")
    drawing.edge(node, leaf)
    drawing.root(node)
    graph = drawing.graph()
    place = CodePlace("/home/ada/net.py", 12, "MyRelu.backward", 15)
    graph.columns.backward_code[node] = place
    found = formulas().of(graph, node)
    assert (found.source, found.code) == ("backward of MyRelu (net.py:12)", place)
    assert found.names == {"input 0": "w"}
    assert found.outputs == []


@pytest.mark.parametrize(
    ("op", "why"),
    [
        ("CompiledFunctionBackward", "compiled"),
        ("CppFunction", "compiled"),
        ("OddBackward", "no operation of torch's table"),
        ("OddBackward0", "lists no derivative"),
    ],
)
def test_what_no_table_has_is_said(op: str, why: str) -> None:
    drawing = Drawing()
    drawing.node(op)
    assert why in formulas().of(drawing.graph(), 0).why_not


def test_without_a_table_it_is_said_why() -> None:
    drawing = Drawing()
    drawing.node("MmBackward0")
    graph = drawing.graph()
    assert Formulas({}, "2.13.0", "no torchgen").of(graph, 0).why_not == "no torchgen"
    assert "not read yet" in Formulas({}).of(graph, 0).why_not


def test_a_derivative_that_torch_lacks_is_said() -> None:
    drawing = Drawing()
    drawing.node("IgammaBackward0")
    drawing.edge(0, drawing.leaf("a"))
    found = formulas().of(drawing.graph(), 0)
    assert (found.outputs, found.why_not) == ([], "torch has no derivative here: it would raise (igamma: input)")


def test_a_snapshot_takes_the_entries_of_its_graph() -> None:
    graph = graph_of((x(2, 3) @ x(3, 4)).sin())
    assert formulas().entries(graph).keys() == {"SinBackward0", "MmBackward0"}


# ---------------------------------------------------------------- reading


def test_cpp_becomes_python() -> None:
    assert to_python("at::where(a->b ? c : d ? e : f, {1, 2})") == "where((c if a.b else (e if d else f)), [1, 2])"
    assert to_python("!x && std::get<0>(y) /* note */ || true") == " not x and get(y) or True"
    for odd in ("a ? b", "f(a", "a)", "[](int i){return i;}"):
        with pytest.raises(ValueError, match=r"."):
            to_python(odd)


def test_what_cannot_be_read_stays_as_it_is() -> None:
    assert write("f(x, [](int i){return i;})", 0, 1, is_complex=False).text == "f(x, [](int i){return i;})"


def test_damaged_tables_are_refused() -> None:
    for text in ("", "[]", "{}", '{"format": 99, "nodes": {}}', '{"format": 1}', '{"format": 1, "nodes": {"A": {}}}'):
        with pytest.raises(ValueError, match=r"."):
            read(text)
    entry = '{"forward": "f(Tensor a) -> Tensor", "inputs": [["a", "Tensor"]], "returns": ["result"], "differentiable": [true],'
    entry += '"saved": [], "derivatives": [[["a"], "grad"]]}'
    assert read(f'{{"format": 1, "nodes": {{"FBackward0": {entry}}}}}') == {
        "FBackward0": Entry("f(Tensor a) -> Tensor", [("a", "Tensor")], ["result"], [True], [], [(["a"], "grad")])
    }


# ---------------------------------------------------------------- how much


def models() -> list[torch.Tensor]:
    """Losses of the usual networks."""
    torch.manual_seed(0)
    image, words = torch.rand(2, 3, 8, 8), torch.rand(2, 5, 8)
    convolutions = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    )
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, activation="gelu")
    lstm, gru = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True), nn.GRU(8, 6)
    return [
        nn.functional.cross_entropy(convolutions(image), torch.tensor([0, 2])),
        layer(words).square().mean(),
        nn.MultiheadAttention(8, 2, batch_first=True)(words, words, words)[0].std(),
        lstm(words)[0].norm(),
        gru(words)[0].sum(),
        nn.functional.scaled_dot_product_attention(x(1, 2, 4, 8), x(1, 2, 4, 8), x(1, 2, 4, 8)).var(),
        nn.utils.parametrizations.weight_norm(nn.Linear(8, 4))(words).logsumexp(-1).sum(),
        nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4))(words).abs().max(),
        nn.functional.smooth_l1_loss(nn.EmbeddingBag(9, 4)(torch.tensor([[1, 2], [3, 4]])), torch.rand(2, 4)),
        torch.fft.rfft(x(8)).abs().sum(),
        torch.linalg.svdvals(x(3, 3)).sum()
        + torch.linalg.eigvalsh(x(3, 3)).sum()
        + torch.linalg.cholesky(torch.eye(3) + x(3, 3) * 0).sum(),
    ]


def test_nearly_every_kind_of_node_has_a_formula() -> None:
    seen: dict[str, Formula] = {}
    graphs = [graph_of(root) for root in models()]
    graphs += [graph_of(next(out for out in call(*case).outputs if out.grad_fn is not None)) for case in cases()]
    for graph in graphs:
        for node in range(len(graph)):
            seen.setdefault(graph.op(node), formulas().of(graph, node))
    without = [op for op, found in seen.items() if not found.outputs]
    in_torchs_words = [op for op, found in seen.items() if any("helper of torch's own" in line for line in found.where)]
    assert len(seen) >= 220
    assert len(without) <= 0.05 * len(seen), without
    assert len(in_torchs_words) <= 0.05 * len(seen), in_torchs_words
