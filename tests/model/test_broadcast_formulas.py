"""Formulas of operands that broadcasting expanded: what they say has the shape, and the numbers, of what is sent."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from derivative_tables import table
from evaluating import evaluate
from formula_zoo import ATEN, Made, call, cases, mask, plain, positive, t
from torch import nn

from gradscope.debuggee.capture import capture
from gradscope.debuggee.graph_columns import graph_columns
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.cpp import to_python
from gradscope.model.elementwise import expands
from gradscope.model.formulas import Formula, Formulas, written

FORMULAS = Formulas(table(), "2.13.0")


def complex_(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.complex128).requires_grad_()


BROADCAST: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (ATEN.mul.Tensor, (t(2, 3), t()), {}),
    (ATEN.div.Tensor, (t(2, 3), positive(3)), {}),
    (ATEN.mul.Tensor, (t(2, 1), t(1, 3)), {}),
    (ATEN.mul.Tensor, (t(1), t()), {}),
    (ATEN.add.Tensor, (t(3), t(2, 1)), {"alpha": 3}),
    (ATEN.sub.Tensor, (t(), t(2, 3)), {"alpha": 2}),
    (ATEN.rsub.Tensor, (t(2, 3), t(2, 1)), {}),
    (ATEN.pow.Tensor_Tensor, (positive(2, 1), t(3)), {}),
    (ATEN.atan2.default, (t(3), positive(2, 3)), {}),
    (ATEN.hypot.default, (t(2, 3), t(3)), {}),
    (ATEN.maximum.default, (t(2, 3), t(3)), {}),
    (ATEN.minimum.default, (t(), t(3)), {}),
    (ATEN.fmax.default, (t(2, 3), t(2, 1)), {}),
    (ATEN.fmin.default, (t(3), t(2, 3)), {}),
    (ATEN.logaddexp.default, (t(3), t(2, 1)), {}),
    (ATEN.logaddexp2.default, (t(3), t(2, 1)), {}),
    (ATEN.xlogy.Tensor, (positive(3), positive(2, 1)), {}),
    (ATEN.special_xlog1py.default, (positive(3), positive(2, 1)), {}),
    (ATEN.fmod.Tensor, (t(2, 3), positive(3)), {}),
    (ATEN.remainder.Tensor, (t(2, 3), positive(1)), {}),
    (ATEN.copysign.Tensor, (t(3), t(2, 3)), {}),
    (ATEN.where.self, (mask(4, 3), t(3), t()), {}),
    (ATEN.lerp.Scalar, (t(3), t(2, 1), 0.3), {}),
    (ATEN.lerp.Tensor, (t(3), t(2, 1), t()), {}),
    (ATEN.addcmul.default, (t(3), t(2, 1), t(1)), {"value": 2}),
    (ATEN.addcdiv.default, (t(3), t(2, 3), positive(2, 1)), {"value": 2}),
    (ATEN.clamp.Tensor, (t(2, 3), t(3, low=-1.0, high=-0.5), t(low=0.1, high=1.0)), {}),
    (ATEN.clamp_min.Tensor, (t(2, 3), t(3)), {}),
    (ATEN.clamp_max.Tensor, (t(2, 3), t(2, 1)), {}),
    (ATEN._prelu_kernel.default, (t(2, 3), t(1, 3)), {}),
    (ATEN.masked_fill.Scalar, (t(3), mask(2, 3), 0.0), {}),
    (ATEN.addmm.default, (t(4), t(2, 3), t(3, 4)), {"beta": 2, "alpha": 3}),
    (ATEN.addmm.default, (t(), t(2, 3), t(3, 4)), {}),
    (ATEN.addmv.default, (t(1), t(2, 3), t(3)), {"beta": 2}),
    (ATEN.addr.default, (t(3), t(2), t(3)), {"beta": 2}),
    (ATEN.baddbmm.default, (t(5), t(2, 3, 4), t(2, 4, 5)), {"beta": 2, "alpha": 3}),
    (ATEN.addbmm.default, (t(3, 1), t(2, 3, 4), t(2, 4, 5)), {"beta": 2, "alpha": 3}),
    (ATEN.index_put.default, (t(4, 3), [torch.tensor([3, 1])], t(3)), {}),
    (ATEN.index_put.default, (t(4, 3), [torch.tensor([3, 1])], t()), {"accumulate": True}),
    (ATEN.dist.default, (t(2, 3), t(3), 3), {}),
    (ATEN.linalg_cross.default, (t(1, 3), t(2, 3)), {}),
    (ATEN.mul.Tensor, (complex_(2, 3), complex_(3)), {}),
    (ATEN.mul.Tensor, (t(3), complex_(2, 3)), {}),
    (ATEN.add.Tensor, (complex_(2, 3), t()), {}),
    (ATEN.div.Tensor, (positive(2, 3), complex_(3)), {}),
    (ATEN.polar.default, (positive(3), t(2, 1)), {}),
]


def graph_of(root: torch.Tensor) -> BackwardGraph:
    return BackwardGraph(graph_columns(capture([root])))


def root_of(made: Made) -> torch.Tensor:
    return next(out for out in made.outputs if isinstance(out, torch.Tensor) and out.grad_fn is not None)


def formula_of(root: torch.Tensor) -> Formula:
    graph = graph_of(root)
    return FORMULAS.of(graph, graph.roots[0].node)


def detached(names: dict[str, Any]) -> dict[str, Any]:
    return {name: value.detach() if isinstance(value, torch.Tensor) else value for name, value in names.items()}


@pytest.mark.parametrize("case", BROADCAST, ids=lambda case: str(case[0]).removeprefix("aten."))
def test_what_is_written_is_what_is_sent(case: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> None:
    made = call(*case)
    out = root_of(made)
    grad = torch.randn_like(out)
    tensors = {name: one for name, one in made.names.items() if isinstance(one, torch.Tensor)}
    wanted = {name: one for name, one in tensors.items() if one.is_leaf and one.requires_grad}
    sent = dict(zip(wanted, torch.autograd.grad(out, list(wanted.values()), grad), strict=True))
    found = formula_of(out)
    names = detached(made.names) | {"grad": grad}
    if isinstance(names.get("indices"), list):
        names["indices"] = tuple(names["indices"])
    assert dict(found.outputs).keys() == sent.keys()
    for argument, text in found.outputs:
        value = evaluate(text, found.where, names)
        torch.testing.assert_close(value, sent[argument], rtol=1e-6, atol=1e-9, msg=lambda said, text=text: f"{text}\n{said}")


def test_a_sum_is_written_only_where_one_is_made() -> None:
    a, scale = t(2, 5, 8), t()
    assert formula_of(a * scale).outputs == [("self", "grad * other"), ("other", "sum_to(grad * self, other.shape)")]
    linear = nn.Linear(3, 4)
    assert formula_of(linear(torch.rand(16, 3))).outputs[0] == ("self", "sum_to(grad * beta, self.shape)")
    assert formula_of(t(2, 3) * t(2, 3)).outputs == [("self", "grad * other"), ("other", "grad * self")]
    both = formula_of(torch.complex(t(3), t(2, 3)))
    assert both.outputs == [("real", "sum_to(real(grad), real.shape)"), ("imag", "imag(grad)")]
    copied = formula_of(torch.empty(2, 3, dtype=torch.float64).copy_(t(3)))
    assert copied.outputs == [("src", "sum_to(grad.type_as(src), src.shape)")]
    assert "sum_to(g, shape): g summed over the dims that were expanded" in copied.where


def test_operands_of_one_shape_are_not_summed() -> None:
    for case in cases():
        made = call(*case)
        op = made.node.name()
        plainly = {
            name: written(op, name, cpp, place, len(names)).text
            for names, cpp in table()[op].derivatives
            for place, name in enumerate(names)
        }
        for argument, text in formula_of(root_of(made)).outputs:
            assert text == plainly[argument] or case[0] is ATEN.addmm.default, op


def test_a_shape_that_only_the_pass_knows() -> None:
    """The second of two results of a node: the graph has the first one's shape alone."""
    _, second = t(2, 3).unbind(0)
    root = second * plain(4, 3).requires_grad_()
    graph = graph_of(root)
    node = graph.roots[0].node
    (edge,) = (edge for edge in graph.out_edges(node) if graph.input_nr[edge] == 1)
    unsure = FORMULAS.of(graph, node)
    assert unsure.outputs[0] == ("self", "grad * other")
    assert "∂self is summed to self.shape where the forward expanded it" in unsure.where
    assert FORMULAS.of(graph, node, sent={edge: (3,)}).outputs[0] == ("self", "sum_to(grad * other, self.shape)")
    same = FORMULAS.of(graph, node, sent={edge: (4, 3)})
    assert (same.outputs[0], same.where) == (("self", "grad * other"), [])


def test_shapes_that_broadcasting_expands() -> None:
    assert all(expands(small, large) for small, large in [((), (2,)), ((1, 3), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 3))])
    assert not any(expands(small, large) for small, large in [((2, 3), (2, 3)), ((2,), (2, 3)), ((1, 2), (2,)), ((3,), ())])


# ---------------------------------------------------------------- C++


NOISE = re.compile(
    r"Geometry|::|->|[{}]|\bstd\.(?!shape)|\bat\.|\bc10\b|optional|OptionalArrayRef|\.defined\(|options\(\)|\bvector\(|\bkJagged|scalartypes"
    r"|nested_tensor_impl|\.back\(|_symint|sym_|GradMode|scalar_type|M_PI|toDouble"
)


def test_no_cpp_is_left_in_the_table() -> None:
    noisy = []
    for op, entry in table().items():
        for names, cpp in entry.derivatives:
            for place, name in enumerate(names):
                for is_complex in (False, True):
                    said = written(op, name, cpp, place, len(names), is_complex=is_complex)
                    noisy += [f"{op} {name}: {line}" for line in (said.text, *said.where) if NOISE.search(line)]
    assert noisy == []


def test_a_view_by_strides_says_where_its_gradient_goes() -> None:
    found = formula_of(t(6).as_strided([2, 2], [2, 1], 1))
    assert found.outputs == [("self", "as_strided_backward(grad, self.shape, size, stride, storage_offset)")]
    assert found.where == ["as_strided_backward: each number of grad is added where the view read it"]


def test_each_way_of_a_choice_has_the_result_asked_for() -> None:
    cpp = "training ? native_batch_norm_backward(grad, x, w, m, v, a, b, training, e, mask) : f_backward(grad)"
    assert written("Odd", "bias", cpp, 2, 3).text == "per_channel(grad) if training else f_backward(grad)[2]"
    assert to_python(cpp).startswith("(native_batch_norm_backward(")
