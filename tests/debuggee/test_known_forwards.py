"""The forwards of torch's own nodes, run again: each node's backward agrees with their differences, and a wrong one does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from gradscope.debuggee import known_forwards
from gradscope.debuggee.capture import capture
from gradscope.debuggee.checking import check
from gradscope.model.checks import RIGHT, UNKNOWN_RESULT, WRONG, CheckResult

SHAPE = (3, 3)
INDEX = torch.tensor([[0, 2, 1], [1, 1, 0]])


def numbers(place: int, low: float = 0.15, high: float = 0.85) -> torch.Tensor:
    generator = torch.Generator().manual_seed(place)
    return (low + (high - low) * torch.rand(SHAPE, generator=generator)).requires_grad_()


def alone(call: Callable[..., Any]) -> Callable[[torch.Tensor, torch.Tensor], Any]:
    return lambda x, y: call(x)


CASES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    **{
        f"{name}Backward0": alone(call)
        for name, call in {
            **{"Sin": torch.sin, "Cos": torch.cos, "Tan": torch.tan, "Asin": torch.asin, "Acos": torch.acos, "Atan": torch.atan},
            **{"Sinh": torch.sinh, "Cosh": torch.cosh, "Tanh": torch.tanh, "Asinh": torch.asinh, "Atanh": torch.atanh},
            **{"Log": torch.log, "Log2": torch.log2, "Log10": torch.log10, "Log1P": torch.log1p, "Abs": torch.abs},
            **{"Erf": torch.erf, "Erfc": torch.erfc, "Erfinv": torch.erfinv, "Lgamma": torch.lgamma, "Sinc": torch.sinc},
            **{"Exp": torch.exp, "Exp2": torch.exp2, "Expm1": torch.expm1, "Sqrt": torch.sqrt, "Rsqrt": torch.rsqrt},
            **{"Sigmoid": torch.sigmoid, "Reciprocal": torch.reciprocal, "Digamma": torch.digamma, "Logit": torch.logit},
            **{"Silu": F.silu, "Mish": F.mish, "Hardswish": F.hardswish, "Hardsigmoid": F.hardsigmoid, "Neg": torch.neg},
            **{"LogSigmoid": F.logsigmoid, "Gelu": F.gelu, "Softplus": F.softplus, "Prod": torch.prod, "Clone": torch.clone},
            **{"T": torch.t, "Trace": torch.trace, "Sum": torch.sum, "Mean": torch.mean},
        }.items()
    },
    "AcoshBackward0": lambda x, y: torch.acosh(x + 1),
    "ReluBackward0": lambda x, y: torch.relu(x - 0.5),
    "LeakyReluBackward0": lambda x, y: F.leaky_relu(x - 0.5, 0.1),
    "HardtanhBackward0": lambda x, y: F.hardtanh(x, -0.3, 0.4),
    "ClampBackward1": lambda x, y: x.clamp(0.3, 0.6),
    "ClampMinBackward0": lambda x, y: x.clamp_min(0.4),
    "ClampMaxBackward0": lambda x, y: x.clamp_max(0.4),
    "PowBackward0": lambda x, y: x**3,
    "PowBackward1": lambda x, y: x**y,
    "LogsumexpBackward0": lambda x, y: x.logsumexp(-1),
    "VarBackward0": lambda x, y: x.var(0),
    "StdBackward0": lambda x, y: x.std(-1, keepdim=True),
    "NativeLayerNormBackward0": lambda x, y: F.layer_norm(x, (3,), y[0], y[1], 1e-3),
    "CumprodBackward0": lambda x, y: x.cumprod(1),
    "CumsumBackward0": lambda x, y: x.cumsum(0),
    "SoftmaxBackward0": lambda x, y: x.softmax(-1),
    "LogSoftmaxBackward0": lambda x, y: x.log_softmax(1),
    "MulBackward0": lambda x, y: x * y[0],
    "DivBackward0": lambda x, y: x / y[:, :1],
    "MmBackward0": lambda x, y: x @ y,
    "BmmBackward0": lambda x, y: torch.bmm(x[None], y[None]),
    "MvBackward0": lambda x, y: torch.mv(x, y[0]),
    "DotBackward0": lambda x, y: torch.dot(x[0], y[1]),
    "Atan2Backward0": torch.atan2,
    "MaximumBackward0": torch.maximum,
    "MinimumBackward0": torch.minimum,
    "AddmmBackward0": lambda x, y: torch.addmm(x[0], x, y, beta=2, alpha=0.5),
    "BaddbmmBackward0": lambda x, y: torch.baddbmm(x[None], x[None], y[None]),
    "MseLossBackward0": lambda x, y: F.mse_loss(x, y),
    "SmoothL1LossBackward0": lambda x, y: F.smooth_l1_loss(x, y, reduction="sum", beta=0.1),
    "BinaryCrossEntropyBackward0": lambda x, y: F.binary_cross_entropy(x, y.detach()),
    "AddBackward0": lambda x, y: torch.add(x, y[0], alpha=3),
    "SubBackward0": lambda x, y: x - y,
    "SumBackward1": lambda x, y: x.sum(-1, keepdim=True),
    "MeanBackward1": lambda x, y: x.mean(0),
    "ViewBackward0": lambda x, y: x.view(9),
    "UnsafeViewBackward0": lambda x, y: torch.ops.aten._unsafe_view(x, [9]),
    "ExpandBackward0": lambda x, y: x.expand(2, 3, 3),
    "TransposeBackward0": lambda x, y: x.transpose(0, -1),
    "PermuteBackward0": lambda x, y: x.permute(1, 0),
    "UnsqueezeBackward0": lambda x, y: x.unsqueeze(-1),
    "SqueezeBackward0": lambda x, y: x[None].squeeze(),
    "SqueezeBackward1": lambda x, y: x[None].squeeze(0),
    "SelectBackward0": lambda x, y: x[:, -1],
    "SliceBackward0": lambda x, y: x[:, 1:],
    "CatBackward0": lambda x, y: torch.cat([x, y], -1),
    "StackBackward0": lambda x, y: torch.stack([x, y], 1),
    "UnbindBackward0": lambda x, y: x.unbind(1)[0],
    "FlipBackward0": lambda x, y: x.flip(-1),
    "TriuBackward0": lambda x, y: x.triu(-1),
    "TrilBackward0": lambda x, y: x.tril(),
    "GatherBackward0": lambda x, y: x.gather(-1, INDEX),
    "IndexSelectBackward0": lambda x, y: x.index_select(1, INDEX[0]),
    "MaskedFillBackward0": lambda x, y: x.masked_fill(x > 0.5, 7.0),
    "WhereBackward0": lambda x, y: torch.where(x > 0.5, x, y),
    "LinalgVectorNormBackward0": lambda x, y: torch.linalg.vector_norm(x, dim=-1),
    "AmaxBackward0": lambda x, y: x.amax(-1),
    "AminBackward0": lambda x, y: x.amin(0, keepdim=True),
    "MaxBackward1": lambda x, y: x.max(),
    "MinBackward1": lambda x, y: x.min(),
    "SplitBackward0": lambda x, y: x.split(2, -1)[0],
    "RepeatBackward0": lambda x, y: x.repeat(2, 1),
    "RollBackward0": lambda x, y: x.roll(1, -1),
    "AddcmulBackward0": lambda x, y: torch.addcmul(x, x, y, value=2),
    "ConvolutionBackward0": lambda x, y: F.conv1d(x[None], y[:2, None].expand(2, 3, 3)[..., :2], x[0, :2], padding=1),
    "NativeBatchNormBackward0": lambda x, y: F.batch_norm(x, None, None, y[0], y[1], True),
    "HuberLossBackward0": lambda x, y: F.huber_loss(x, y, delta=0.2),
    "BinaryCrossEntropyWithLogitsBackward0": lambda x, y: F.binary_cross_entropy_with_logits(
        x, y.detach(), pos_weight=y[0].detach()
    ),
    "NllLossBackward0": lambda x, y: F.nll_loss(x, torch.tensor([0, 2, -100]), torch.tensor([1.0, 2.0, 3.0])),
    "EmbeddingBackward0": lambda x, y: F.embedding(INDEX, x),
}


def checked(root: torch.Tensor, op: str) -> CheckResult:
    captured = capture([root])
    number = captured.ops.index(op)
    slots = captured.first_slot[number + 1] - captured.first_slot[number]
    return check(captured, number, [None] * slots)


@pytest.mark.parametrize("op", CASES)
def test_torchs_own_backward_is_right(op: str) -> None:
    x, y = numbers(1), numbers(2)
    result = checked(CASES[op](x, y), op)
    differences = [row for row in result.rows if row.what.startswith("∂")]
    assert differences
    assert [(row.what, row.verdict, row.error, row.why) for row in result.rows if row.verdict != RIGHT] == []
    assert result.how.endswith("again in float64, on what the node saved")
    assert all(row.error is not None and row.tolerance is not None and row.error <= row.tolerance for row in differences)


def test_the_table_is_not_small() -> None:
    assert sum(map(known_forwards.known, CASES)) == len(CASES) >= 100


@pytest.mark.parametrize("op", ["SinBackward0", "MmBackward0", "DivBackward0", "SoftmaxBackward0", "GatherBackward0"])
def test_a_wrong_derivative_is_found(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's forward is another one than the node's: what it makes of x is x + 0.01 x² more."""
    recipe = known_forwards._RECIPES[op]

    def spoilt(saved: known_forwards.Saved) -> Any:
        call, inputs = recipe(saved)
        return lambda *given: call(given[0] + 0.01 * given[0] ** 2, *given[1:]), inputs

    monkeypatch.setitem(known_forwards._RECIPES, op, spoilt)
    rows = [row for row in checked(CASES[op](numbers(1), numbers(2)), op).rows if row.verdict == WRONG]
    assert rows
    assert rows[0].error is not None
    assert 1e-3 < rows[0].error < 0.2
    assert rows[0].why.startswith("element [")


def test_only_the_operand_that_needs_it_is_checked() -> None:
    x, y = numbers(1), numbers(2).detach()
    result = checked(x @ y, "MmBackward0")
    assert [row.what for row in result.rows] == ["linear in the incoming gradient", "∂self against finite differences"]
    result = checked(y * x, "MulBackward0")
    assert [(row.what, row.verdict) for row in result.rows[1:]] == [("∂other against finite differences", RIGHT)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_every_precision_has_its_own_tolerance(dtype: torch.dtype) -> None:
    x = numbers(1).detach().to(dtype).requires_grad_()
    result = checked(x.sin(), "SinBackward0")
    assert [row.verdict for row in result.rows] == [RIGHT, RIGHT]
    tolerance = {torch.float64: 1e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}[dtype]
    assert result.rows[1].tolerance == tolerance


def test_large_tensors_are_checked_along_random_directions() -> None:
    x = torch.randn(50, 40, generator=torch.Generator().manual_seed(0), requires_grad=True)
    row = checked(x.exp().sum(), "ExpBackward0").rows[1]
    assert (row.verdict, row.why) == (RIGHT, "along 8 random directions")


def test_a_sparse_gradient_is_checked_like_a_dense_one() -> None:
    row = checked(F.embedding(INDEX, numbers(1), sparse=True), "EmbeddingBackward0").rows[1]
    assert (row.what, row.verdict, row.why) == ("∂weight against finite differences", RIGHT, "")


def test_a_kink_is_left_out() -> None:
    x = torch.tensor([0.0, 1.0, -2.0], requires_grad=True)
    row = checked(x.clamp(0.0, 2.0), "ClampBackward1").rows[1]
    assert (row.verdict, row.why) == (RIGHT, "1 left out: the forward has a kink there")


def test_what_cannot_be_known_says_why() -> None:
    x = numbers(1)
    for root, op, why in [
        (torch.linalg.det(x), "LinalgDetBackward0", "the forward of LinalgDetBackward0 is not in gradscope's table"),
        ((x - 200).softmax(0) * (x > 2), "MulBackward0", ""),
        ((x * torch.tensor([0.0, 1e4, 0.0])).softmax(1), "SoftmaxBackward0", "a probability is 0"),
        (torch.tanh(x * 100), "TanhBackward0", "an input is not finite"),
        ((x + 0j).abs(), "AbsBackward0", "complex numbers are not checked"),
    ]:
        row = checked(root, op).rows[-1]
        assert why in row.why
        assert row.verdict == (UNKNOWN_RESULT if why else RIGHT)
    h = x.sin()
    root = h.exp().cos()
    root.grad_fn.next_functions[0][0]._saved_result.mul_(2)  # type: ignore[union-attr]
    assert "modified by an inplace operation" in checked(root, "ExpBackward0").rows[-1].why
    assert "a leaf has no backward" in checked(h, "AccumulateGrad").rows[0].why


def test_operations_go_by_torchs_names() -> None:
    names = {
        **{"NativeLayerNorm": "native_layer_norm", "NllLoss": "nll_loss", "LogSoftmax": "log_softmax", "Addmm": "addmm"},
        **{"Log1P": "log1p", "NllLoss2D": "nll_loss2d", "MaxPool2DWithIndices": "max_pool2d_with_indices", "Atan2": "atan2"},
        **{"LinalgVectorNorm": "linalg_vector_norm", "UpsampleBilinear2D": "upsample_bilinear2d", "Exp2": "exp2", "T": "t"},
    }
    assert {op: known_forwards.function_name(f"{op}Backward0") for op in names} == names
