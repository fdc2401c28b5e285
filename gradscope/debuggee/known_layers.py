"""The forwards of layers and losses, from what their nodes have saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradscope.debuggee.forward_recipes import Made, NotKnown, Recipe, Saved

F: Any = torch.nn.functional
_REDUCTIONS = ("none", "mean", "sum")


def _layer_norm(s: Saved) -> Made:
    """ε was not saved: it follows from the saved 1 / sqrt(variance + ε)."""
    shape, x = s.normalized_shape, s.needed("input")
    variance = x.flatten(-len(shape)).var(-1, correction=0)
    eps = max(0.0, (s.needed("result2").reshape(variance.shape) ** -2 - variance).median().item())
    weight, bias = s.weight, s.bias
    weight = torch.ones(shape, dtype=torch.float64) if weight is None else weight
    bias = torch.zeros(shape, dtype=torch.float64) if bias is None else bias
    return lambda x, w, b: F.layer_norm(x, shape, w, b, eps), [x, weight, bias]


def _batch_norm(s: Saved) -> Made:
    training, eps, x = s.training, s.eps, s.needed("input")
    weight = s.weight
    weight = torch.ones(x.shape[1], dtype=torch.float64) if weight is None else weight
    bias = torch.zeros(x.shape[1], dtype=torch.float64)
    mean, variance = (None, None) if training else (s.needed("running_mean"), s.needed("running_var"))
    return lambda x, w, b: F.batch_norm(x, mean, variance, w, b, training, 0.0, eps), [x, weight, bias]


def _convolution(s: Saved) -> Made:
    """It is linear in each input: one that was not saved may be any of its shape."""
    sizes = s.bias_sym_sizes_opt
    bias = s.any(2, tuple(sizes)) if sizes is not None and sizes[0] else None
    options = (s.stride, s.padding, s.dilation, s.transposed, s.output_padding, s.groups)
    inputs = [s.operand("input", 0), s.operand("weight", 1)]
    if bias is None:
        return lambda x, w: torch.convolution(x, w, None, *options), inputs
    return lambda x, w, b: torch.convolution(x, w, b, *options), [*inputs, bias]


def _embedding(s: Saved) -> Made:
    index = s.indices
    if s.shapes[0] is None:
        raise NotKnown("the shape of the table was not saved")
    return lambda table: F.embedding(index, table), [s.any(0)]


def _loss(call: Callable[..., Any]) -> Recipe:
    def recipe(s: Saved) -> Made:
        reduction = _REDUCTIONS[s.reduction]
        return lambda a, b: call(a, b, reduction=reduction), [s.needed("self"), s.needed("target")]

    return recipe


def _smooth(s: Saved) -> Made:
    beta, reduction = s.beta, _REDUCTIONS[s.reduction]
    return lambda a, b: F.smooth_l1_loss(a, b, reduction=reduction, beta=beta), [s.needed("self"), s.needed("target")]


def _huber(s: Saved) -> Made:
    delta, reduction = s.delta, _REDUCTIONS[s.reduction]
    return lambda a, b: F.huber_loss(a, b, reduction=reduction, delta=delta), [s.needed("self"), s.needed("target")]


def _with_logits(s: Saved) -> Made:
    weight, positive, reduction = s.weight, s.pos_weight, _REDUCTIONS[s.reduction]

    def call(a: torch.Tensor, b: torch.Tensor) -> Any:
        return F.binary_cross_entropy_with_logits(a, b, weight, reduction=reduction, pos_weight=positive)

    return call, [s.needed("self"), s.needed("target")]


def _nll(s: Saved) -> Made:
    target, weight, ignored, reduction = s.target, s.weight, s.ignore_index, _REDUCTIONS[s.reduction]
    return lambda x: F.nll_loss(x, target, weight, ignore_index=ignored, reduction=reduction), [s.needed("self")]


LAYERS: dict[str, Recipe] = {
    "NativeLayerNormBackward0": _layer_norm,
    "NativeBatchNormBackward0": _batch_norm,
    "ConvolutionBackward0": _convolution,
    "EmbeddingBackward0": _embedding,
    "MseLossBackward0": _loss(F.mse_loss),
    "SmoothL1LossBackward0": _smooth,
    "HuberLossBackward0": _huber,
    "BinaryCrossEntropyBackward0": _loss(F.binary_cross_entropy),
    "BinaryCrossEntropyWithLogitsBackward0": _with_logits,
    "NllLossBackward0": _nll,
}
