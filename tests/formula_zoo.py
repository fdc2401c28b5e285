"""A broad zoo of torch's operations: one call of each, with the arguments named as in torch's own schema.

Each case is an operator of aten and its arguments, so that a formula can be checked against the node that the call makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

ATEN = torch.ops.aten
F64 = torch.float64


def t(*shape: int, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    """Random numbers that a gradient is wanted for."""
    return (torch.rand(shape, dtype=F64) * (high - low) + low).requires_grad_()


def positive(*shape: int) -> torch.Tensor:
    return t(*shape, low=0.2, high=2.0)


def inside(*shape: int) -> torch.Tensor:
    """In (0, 1)."""
    return t(*shape, low=0.1, high=0.9)


def plain(*shape: int, low: float = 0.2, high: float = 2.0) -> torch.Tensor:
    return t(*shape, low=low, high=high).detach()


def mask(*shape: int) -> torch.Tensor:
    return torch.rand(shape) > 0.5


def index(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(high, shape)


@dataclass(frozen=True)
class Made:
    """What one call made."""

    node: Any
    names: dict[str, Any]
    """arguments and results, by the names of the schema"""
    outputs: list[Any]


def call(operator: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Made:
    """Run an operator and name what goes in and what comes out."""
    out = operator(*arguments, **options)
    schema = operator._schema
    names = {argument.name: argument.default_value for argument in schema.arguments}
    names |= {argument.name: given for argument, given in zip(schema.arguments, arguments, strict=False)} | options
    outputs = list(out) if isinstance(out, (tuple, list)) else [out]
    results = [result.name for result in schema.returns]
    unnamed = ["result"] if len(results) == 1 else [f"result{place}" for place in range(len(results))]
    if len(results) == len(outputs):
        names |= {name or other: value for name, other, value in zip(results, unnamed, outputs, strict=True)}
    node = next(one.grad_fn for one in outputs if isinstance(one, torch.Tensor) and one.grad_fn is not None)
    return Made(node, names, outputs)


_UNARY = (
    "abs acos asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac i0 lgamma log log10"
    " log1p log2 neg rad2deg reciprocal round rsqrt sgn sigmoid sign sin sinc sinh sqrt tan tanh trunc relu silu mish hardsigmoid"
    " hardswish log_sigmoid_forward clone alias special_entr special_i0e special_ndtri special_log_ndtr special_erfcx nan_to_num"
)


def cases() -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """(operator, arguments, options)"""
    torch.manual_seed(0)
    made: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def add(operator: Any, *arguments: Any, **options: Any) -> None:
        made.append((operator, arguments, options))

    for name in _UNARY.split():
        add(getattr(ATEN, name).default, inside(3, 4))
    add(ATEN.acosh.default, t(3, low=1.1, high=3.0))
    _binary(add)
    _activations(add)
    _products(add)
    _reductions(add)
    _shapes(add)
    _places(add)
    _losses(add)
    _layers(add)
    _linear_algebra(add)
    return made


def _binary(add: Any) -> None:
    add(ATEN.add.Tensor, t(3), t(3), alpha=3)
    add(ATEN.sub.Tensor, t(3), t(3), alpha=2)
    add(ATEN.rsub.Scalar, t(3), 2)
    add(ATEN.mul.Tensor, t(3), t(3))
    add(ATEN.div.Tensor, t(3), positive(3))
    add(ATEN.div.Tensor_mode, t(3), positive(3), rounding_mode="floor")
    add(ATEN.pow.Tensor_Scalar, positive(3), 2.5)
    add(ATEN.pow.Tensor_Tensor, positive(3), t(3))
    add(ATEN.pow.Scalar, 2.0, t(3))
    add(ATEN.atan2.default, t(3), positive(3))
    add(ATEN.maximum.default, t(3), t(3))
    add(ATEN.minimum.default, t(3), t(3))
    add(ATEN.fmax.default, t(3), t(3))
    add(ATEN.fmin.default, t(3), t(3))
    add(ATEN.hypot.default, t(3), t(3))
    add(ATEN.logaddexp.default, t(3), t(3))
    add(ATEN.logaddexp2.default, t(3), t(3))
    add(ATEN.xlogy.Tensor, positive(3), positive(3))
    add(ATEN.fmod.Tensor, t(3), positive(3))
    add(ATEN.remainder.Tensor, t(3), positive(3))
    add(ATEN.copysign.Tensor, t(3), t(3))
    add(ATEN.lerp.Scalar, t(3), t(3), 0.3)
    add(ATEN.lerp.Tensor, t(3), t(3), t(3))
    add(ATEN.addcmul.default, t(3), t(3), t(3), value=2)
    add(ATEN.addcdiv.default, t(3), t(3), positive(3), value=2)
    add(ATEN.where.self, mask(4), t(4), t(4))
    add(ATEN.polygamma.default, 1, positive(3))
    add(ATEN.dist.default, t(3), t(3), 2)
    add(ATEN._cdist_forward.default, t(3, 2), t(4, 2), 2.0, None)


def _activations(add: Any) -> None:
    add(ATEN.threshold.default, t(5), 0.3, 0.0)
    add(ATEN.leaky_relu.default, t(5), 0.1)
    add(ATEN.elu.default, t(5), 1.5, 1.2, 0.7)
    add(ATEN.celu.default, t(5), 1.5)
    add(ATEN.gelu.default, t(5))
    add(ATEN.gelu.default, t(5), approximate="tanh")
    add(ATEN.hardtanh.default, t(5), -0.5, 0.6)
    add(ATEN.hardshrink.default, t(5), 0.4)
    add(ATEN.softshrink.default, t(5), 0.4)
    add(ATEN.softplus.default, t(5), 2.0, 1.0)
    add(ATEN.glu.default, t(3, 4), 1)
    add(ATEN.logit.default, inside(4))
    add(ATEN._prelu_kernel.default, t(2, 3), t(2, 3))
    add(ATEN.clamp.default, t(5), -0.5, 0.5)
    add(ATEN.clamp.Tensor, t(5), t(5, low=-1.0, high=-0.5), t(5, low=0.1, high=1.0))
    add(ATEN.clamp_min.default, t(5), 0.1)
    add(ATEN.clamp_max.default, t(5), 0.1)
    add(ATEN.native_dropout.default, t(8), 0.4, True)
    add(ATEN._softmax.default, t(3, 4), 1, False)
    add(ATEN._log_softmax.default, t(3, 4), 1, False)


def _products(add: Any) -> None:
    add(ATEN.mm.default, t(2, 3), t(3, 4))
    add(ATEN.mv.default, t(2, 3), t(3))
    add(ATEN.dot.default, t(3), t(3))
    add(ATEN.bmm.default, t(2, 3, 4), t(2, 4, 5))
    add(ATEN.addmm.default, t(4), t(2, 3), t(3, 4), beta=2, alpha=3)
    add(ATEN.addmv.default, t(2), t(2, 3), t(3), beta=2, alpha=3)
    add(ATEN.addr.default, t(2, 3), t(2), t(3), beta=2, alpha=3)
    add(ATEN.baddbmm.default, t(2, 3, 5), t(2, 3, 4), t(2, 4, 5), beta=2, alpha=3)
    add(ATEN.addbmm.default, t(3, 5), t(2, 3, 4), t(2, 4, 5), beta=2, alpha=3)


def _reductions(add: Any) -> None:
    add(ATEN.sum.default, t(2, 3))
    add(ATEN.sum.dim_IntList, t(2, 3, 4), [0, 2])
    add(ATEN.nansum.default, t(2, 3), [1])
    add(ATEN.mean.default, t(2, 3))
    add(ATEN.mean.dim, t(2, 3, 4), [-1])
    add(ATEN.var.correction, t(2, 3, 4), [1], correction=1)
    add(ATEN.std.correction, t(2, 3, 4), [1], correction=1)
    add(ATEN.var_mean.correction, t(2, 3), [1], correction=1)
    add(ATEN.std_mean.correction, t(2, 3), [1], correction=1)
    add(ATEN.norm.Scalar, t(2, 3), 2)
    add(ATEN.norm.ScalarOpt_dim, t(2, 3), 3, [1])
    add(ATEN.linalg_vector_norm.default, t(2, 3), 2, [1])
    add(ATEN.linalg_vector_norm.default, t(2, 3), 1)
    add(ATEN.max.default, t(2, 3))
    add(ATEN.max.dim, t(2, 3), 1)
    add(ATEN.min.dim, t(2, 3), 0)
    add(ATEN.median.dim, t(2, 3), 1)
    add(ATEN.mode.default, t(2, 3), 1)
    add(ATEN.kthvalue.default, t(2, 5), 2, 1)
    add(ATEN.amax.default, t(2, 3), [1])
    add(ATEN.amin.default, t(2, 3), [1])
    add(ATEN.logsumexp.default, t(2, 3), [1])
    add(ATEN.prod.default, positive(2, 3))
    add(ATEN.prod.dim_int, positive(2, 3), 1)
    add(ATEN.cumsum.default, t(2, 4), 1)
    add(ATEN.cumprod.default, positive(2, 4), 1)
    add(ATEN.cummax.default, t(2, 4), 1)
    add(ATEN.topk.default, t(2, 5), 2, 1)
    add(ATEN.sort.default, t(2, 5), 1)
    add(ATEN.trace.default, t(3, 3))


def _shapes(add: Any) -> None:
    add(ATEN.view.default, t(2, 6), [3, 4])
    add(ATEN._unsafe_view.default, t(2, 6), [3, 4])
    add(ATEN.expand.default, t(2, 1), [3, 2, 4])
    add(ATEN.transpose.int, t(2, 3, 4), 0, 2)
    add(ATEN.permute.default, t(2, 3, 4), [2, 0, 1])
    add(ATEN.t.default, t(2, 3))
    add(ATEN.unsqueeze.default, t(2, 3), 1)
    add(ATEN.squeeze.dim, t(2, 1, 3), 1)
    add(ATEN.squeeze.default, t(2, 1, 3))
    add(ATEN.slice.Tensor, t(6, 2), 0, 1, 5, 2)
    add(ATEN.select.int, t(3, 4), 1, 2)
    add(ATEN.diagonal.default, t(3, 4))
    add(ATEN.diag_embed.default, t(3))
    add(ATEN.as_strided.default, t(6), [2, 2], [2, 1], 1)
    add(ATEN.unfold.default, t(7), 0, 3, 2)
    add(ATEN.cat.default, [t(2, 3), t(1, 3)], 0)
    add(ATEN.block_diag.default, [t(2, 3), t(1, 3)])
    add(ATEN.stack.default, [t(2), t(2)], 1)
    add(ATEN.split.Tensor, t(5, 2), 2, 0)
    add(ATEN.split_with_sizes.default, t(5, 2), [2, 3], 0)
    add(ATEN.unbind.int, t(3, 2), 0)
    add(ATEN.repeat.default, t(2, 3), [2, 1, 2])
    add(ATEN.flip.default, t(2, 3), [1])
    add(ATEN.roll.default, t(2, 3), [1], [1])
    add(ATEN.rot90.default, t(2, 3), 1, [0, 1])
    add(ATEN.tril.default, t(3, 3), -1)
    add(ATEN.triu.default, t(3, 3), 1)
    add(ATEN.constant_pad_nd.default, t(2, 3), [1, 2], 0.5)
    add(ATEN.pixel_shuffle.default, t(1, 4, 2, 2), 2)
    add(ATEN._to_copy.default, t(3), dtype=torch.float32)
    add(ATEN._reshape_alias.default, t(2, 3), [3, 2], [2, 1])


def _places(add: Any) -> None:
    add(ATEN.index.Tensor, t(4, 3), [index(4, 5)])
    add(ATEN.index_select.default, t(4, 3), 0, index(4, 5))
    add(ATEN.gather.default, t(4, 3), 1, index(3, 4, 2))
    add(ATEN.take.default, t(4, 3), index(12, 5))
    add(ATEN.scatter.src, t(3, 4), 1, torch.tensor([[0, 2], [1, 3], [3, 0]]), t(3, 2))
    add(ATEN.scatter.value, t(3, 4), 1, torch.tensor([[0, 2], [1, 3], [3, 0]]), 1.5)
    add(ATEN.scatter_add.default, t(3, 4), 1, index(4, 3, 2), t(3, 2))
    add(ATEN.index_add.default, t(4, 3), 0, index(4, 2), t(2, 3), alpha=2)
    add(ATEN.index_copy.default, t(4, 3), 0, torch.tensor([3, 1]), t(2, 3))
    add(ATEN.index_fill.int_Scalar, t(4, 3), 0, torch.tensor([3, 1]), 0.0)
    add(ATEN.index_put.default, t(4, 3), [torch.tensor([3, 1])], t(2, 3))
    add(ATEN.masked_fill.Scalar, t(4), mask(4), 0.0)
    add(ATEN.masked_fill.Tensor, t(4), mask(4), t())
    add(ATEN.masked_select.default, t(6), mask(6))
    add(ATEN.masked_scatter.default, t(6), torch.tensor([1, 0, 1, 1, 0, 0], dtype=torch.bool), t(5))
    add(ATEN.select_scatter.default, t(3, 4), t(3), 1, 2)
    add(ATEN.slice_scatter.default, t(6), t(2), 0, 1, 3)
    add(ATEN.embedding.default, t(5, 3), index(5, 2, 4))


def _losses(add: Any) -> None:
    for reduction in (0, 1, 2):
        add(ATEN.mse_loss.default, t(3, 2), t(3, 2), reduction)
        add(ATEN.nll_loss_forward.default, t(4, 3), torch.tensor([0, 2, 1, 2]), plain(3), reduction, 1)
    add(ATEN.smooth_l1_loss.default, t(5), t(5), 1, 0.7)
    add(ATEN.huber_loss.default, t(5), t(5), 1, 0.7)
    add(ATEN.soft_margin_loss.default, t(5), torch.tensor([1.0, -1, 1, -1, -1], dtype=F64))
    add(ATEN.binary_cross_entropy.default, inside(4), inside(4), plain(4))
    add(ATEN.binary_cross_entropy_with_logits.default, t(4), inside(4), plain(4), plain(4))


def _layers(add: Any) -> None:
    add(ATEN.native_layer_norm.default, t(2, 3, 4), [4], t(4), t(4), 1e-5)
    add(ATEN.native_group_norm.default, t(2, 6, 4), t(6), t(6), 2, 6, 4, 3, 1e-5)
    add(ATEN.native_batch_norm.default, t(3, 2, 4), t(2), t(2), None, None, True, 0.1, 1e-5)
    add(ATEN.convolution.default, t(2, 3, 6, 5), t(4, 3, 3, 2), t(4), [2, 1], [1, 0], [1, 1], False, [0, 0], 1)
    add(ATEN.convolution.default, t(2, 3, 9), t(4, 3, 3), t(4), [2], [1], [1], False, [0], 1)
    add(ATEN.max_pool2d_with_indices.default, t(1, 2, 4, 4), [2, 2], [2, 2])
    add(ATEN.avg_pool2d.default, t(1, 2, 4, 4), [2, 2], [2, 2])
    add(ATEN._adaptive_avg_pool2d.default, t(1, 2, 4, 4), [2, 2])
    add(ATEN.upsample_nearest2d.default, t(1, 2, 3, 3), [6, 6])
    add(ATEN.upsample_bilinear2d.default, t(1, 2, 3, 3), [6, 6], False)
    add(ATEN.reflection_pad1d.default, t(1, 2, 4), [1, 2])
    add(ATEN.replication_pad1d.default, t(1, 2, 4), [1, 2])
    add(ATEN._weight_norm_interface.default, t(3, 4), positive(3, 1), 0)
    add(
        ATEN._scaled_dot_product_flash_attention_for_cpu.default,
        t(1, 2, 4, 8),
        t(1, 2, 4, 8),
        t(1, 2, 4, 8),
        0.0,
        True,
        scale=0.3,
    )


def _linear_algebra(add: Any) -> None:
    well = (torch.eye(3, dtype=F64) * 3 + plain(3, 3)).requires_grad_
    add(ATEN.linalg_inv_ex.default, well())
    add(ATEN._linalg_det.default, well())
    add(ATEN._linalg_slogdet.default, well())
    add(ATEN._linalg_solve_ex.default, well(), t(3, 2))
    add(ATEN.linalg_cross.default, t(2, 3), t(2, 3))
