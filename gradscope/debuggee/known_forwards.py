"""The forward of torch's own nodes, from what they have saved: enough to run it again with other numbers.

Not everything is saved. A result from which the input follows gives the input; an operand in which the op is linear may be any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradscope.debuggee.forward_recipes import (
    Made,
    NotKnown,
    Recipe,
    Saved,
    Shape,
    from_result,
    linear,
    one_saved,
    reduced,
    two,
    with_saved,
)
from gradscope.debuggee.known_layers import LAYERS

F: Any = torch.nn.functional


@dataclass(frozen=True, slots=True)
class Forward:
    """A forward that can be run again."""

    call: Callable[..., Any]
    """from the inputs, in the order of the node's edges, to a tensor or several"""
    inputs: list[torch.Tensor]
    """those that the node saved, or others in their place; floating ones in float64"""
    text: str
    """what is run: `torch.sin`"""


def _like_relu(result: torch.Tensor) -> torch.Tensor:
    return torch.where(result > 0, result, -torch.ones_like(result))


def _clamp(s: Saved) -> Made:
    low, high = s.min, s.max
    return lambda x: x.clamp(low, high), [s.needed("self")]


def _pow(s: Saved) -> Made:
    exponent = s.exponent
    return lambda x: x**exponent, [s.needed("self")]


def _pow_tensors(s: Saved) -> Made:
    return torch.pow, [s.needed("self"), s.needed("exponent")]


def _addmm(batched: bool) -> Recipe:
    def recipe(s: Saved) -> Made:
        alpha, beta = s.alpha, s.beta
        names = ("batch1", "batch2") if batched else ("mat1", "mat2")
        call = torch.baddbmm if batched else torch.addmm
        return lambda c, a, b: call(c, a, b, alpha=alpha, beta=beta), [s.any(0), s.operand(names[0], 1), s.operand(names[1], 2)]

    return recipe


def _expanded_sum(s: Saved) -> Callable[..., Any]:
    dim, keep = s.dim, s.keepdim
    return lambda x: x.sum(dim, keep)


def _mean(s: Saved) -> Callable[..., Any]:
    dim, keep = s.dim, s.keepdim
    return lambda x: x.mean(dim, keep)


def _add(s: Saved) -> Callable[..., Any]:
    alpha = s.alpha
    return lambda a, b: torch.add(a, b, alpha=alpha)


def _sub(s: Saved) -> Callable[..., Any]:
    alpha = s.alpha
    return lambda a, b: torch.sub(a, b, alpha=alpha)


def _to_shape(s: Saved) -> Callable[..., Any]:
    out = s.out
    return lambda x: x.reshape(out)


def _expand(s: Saved) -> Callable[..., Any]:
    out = s.out
    return lambda x: x.expand(out)


def _joined(call: Callable[..., Any]) -> Recipe:
    """cat and stack: as many inputs as there are edges."""

    def recipe(s: Saved) -> Made:
        dim = s.dim
        if None in s.shapes:
            raise NotKnown("the shape of an input that needs no gradient was not saved")
        return lambda *parts: call(parts, dim), [s.any(slot) for slot in range(len(s.shapes))]

    return recipe


def _slice(x: torch.Tensor, dim: int, start: int | None, end: int | None, step: int) -> torch.Tensor:
    index = [slice(None)] * x.dim()
    index[dim] = slice(start, end, step)
    return x[tuple(index)]


def _squeeze_all(x: torch.Tensor) -> torch.Tensor:
    return x.squeeze()


def _masked(s: Saved) -> Callable[..., Any]:
    mask = s.mask
    return lambda x: x.masked_fill(mask, 0.0)


def _where(s: Saved) -> Made:
    condition = s.condition
    return lambda a, b: torch.where(condition, a, b), [s.any(0), s.any(1)]


def _gather(x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
    return x.gather(dim, index)


def _gelu(s: Saved) -> Made:
    how = s.approximate
    return lambda x: F.gelu(x, approximate=how), [s.needed("self")]


def _var(root: bool) -> Recipe:
    def recipe(s: Saved) -> Made:
        dim, keep = s.dim, s.keepdim
        correction = 1 if s.correction is None else s.correction
        call = torch.std if root else torch.var
        return lambda x: call(x, dim=dim, correction=correction, keepdim=keep), [s.needed("self")]

    return recipe


def _softmax_input(result: torch.Tensor) -> torch.Tensor:
    if not bool((result > 0).all()):
        raise NotKnown("a probability is 0: its logarithm, the input, cannot be told")
    return result.log()


def _addcmul(s: Saved) -> Made:
    value = s.value
    inputs = [s.any(0), s.operand("tensor1", 1), s.operand("tensor2", 2)]
    return lambda c, a, b: torch.addcmul(c, a, b, value=value), inputs


_RECIPES: dict[str, Recipe] = {
    # of one input that was saved
    **{
        f"{name}Backward0": one_saved(call)
        for name, call in {
            "Sin": torch.sin,
            "Cos": torch.cos,
            "Asin": torch.asin,
            "Acos": torch.acos,
            "Atan": torch.atan,
            "Sinh": torch.sinh,
            "Cosh": torch.cosh,
            "Asinh": torch.asinh,
            "Acosh": torch.acosh,
            "Atanh": torch.atanh,
            "Log": torch.log,
            "Log2": torch.log2,
            "Log10": torch.log10,
            "Log1P": torch.log1p,
            "Abs": torch.abs,
            "Erf": torch.erf,
            "Erfc": torch.erfc,
            "Erfinv": torch.erfinv,
            "Lgamma": torch.lgamma,
            "Digamma": torch.digamma,
            "Sinc": torch.sinc,
            "Logit": torch.logit,
            "Silu": F.silu,
            "Mish": F.mish,
            "Hardswish": F.hardswish,
            "Hardsigmoid": F.hardsigmoid,
            "LogSigmoid": F.logsigmoid,
            "Prod": torch.prod,
        }.items()
    },
    "GeluBackward0": _gelu,
    "SoftplusBackward0": lambda s: (with_saved(F.softplus, "beta", "threshold")(s), [s.needed("self")]),
    "LeakyReluBackward0": lambda s: (with_saved(F.leaky_relu, "negative_slope")(s), [s.needed("self")]),
    "HardtanhBackward0": lambda s: (with_saved(F.hardtanh, "min_val", "max_val")(s), [s.needed("self")]),
    "ClampBackward1": _clamp,
    "ClampMinBackward0": lambda s: (with_saved(torch.clamp_min, "min")(s), [s.needed("self")]),
    "ClampMaxBackward0": lambda s: (with_saved(torch.clamp_max, "max")(s), [s.needed("self")]),
    "PowBackward0": _pow,
    "PowBackward1": _pow_tensors,
    "LogsumexpBackward0": reduced(torch.logsumexp),
    "VarBackward0": _var(False),
    "StdBackward0": _var(True),
    "LinalgVectorNormBackward0": lambda s: (with_saved(torch.linalg.vector_norm, "ord", "dim", "keepdim")(s), [s.needed("self")]),
    "AmaxBackward0": reduced(torch.amax),
    "AminBackward0": reduced(torch.amin),
    "MaxBackward1": one_saved(torch.max),
    "MinBackward1": one_saved(torch.min),
    "CumprodBackward0": lambda s: (with_saved(torch.cumprod, "dim")(s), [s.needed("self")]),
    # of one input that follows from the result
    "ExpBackward0": from_result(torch.exp, torch.log),
    "Exp2Backward0": from_result(torch.exp2, torch.log2),
    "Expm1Backward0": from_result(torch.expm1, torch.log1p),
    "TanBackward0": from_result(torch.tan, torch.atan),
    "TanhBackward0": from_result(torch.tanh, torch.atanh),
    "SigmoidBackward0": from_result(torch.sigmoid, torch.logit),
    "SqrtBackward0": from_result(torch.sqrt, torch.square),
    "RsqrtBackward0": from_result(torch.rsqrt, lambda y: 1 / y**2),
    "ReciprocalBackward0": from_result(torch.reciprocal, torch.reciprocal),
    "ReluBackward0": from_result(torch.relu, _like_relu),
    "SoftmaxBackward0": lambda s: (with_saved(torch.softmax, "dim")(s), [_softmax_input(s.needed("result"))]),
    "LogSoftmaxBackward0": lambda s: (with_saved(torch.log_softmax, "dim")(s), [s.needed("result")]),
    # of two and more
    "AddcmulBackward0": _addcmul,
    "MulBackward0": two(torch.mul),
    "DivBackward0": two(torch.div),
    "MmBackward0": two(torch.mm, "self", "mat2"),
    "BmmBackward0": two(torch.bmm, "self", "mat2"),
    "MvBackward0": two(torch.mv, "self", "vec"),
    "DotBackward0": two(torch.dot, "self", "tensor"),
    "Atan2Backward0": two(torch.atan2),
    "MaximumBackward0": two(torch.maximum),
    "MinimumBackward0": two(torch.minimum),
    "AddmmBackward0": _addmm(False),
    "BaddbmmBackward0": _addmm(True),
    # linear: what was not saved may be any
    "AddBackward0": linear(_add, 2),
    "SubBackward0": linear(_sub, 2),
    "NegBackward0": linear(lambda s: torch.neg),
    "CloneBackward0": linear(lambda s: torch.clone),
    "SumBackward0": linear(lambda s: torch.sum),
    "SumBackward1": linear(_expanded_sum),
    "MeanBackward0": linear(lambda s: torch.mean),
    "MeanBackward1": linear(_mean),
    "ViewBackward0": linear(_to_shape),
    "UnsafeViewBackward0": linear(_to_shape),
    "ReshapeAliasBackward0": linear(_to_shape),
    "ExpandBackward0": linear(_expand),
    "TBackward0": linear(lambda s: torch.t),
    "TransposeBackward0": linear(with_saved(torch.transpose, "dim0", "dim1")),
    "PermuteBackward0": linear(with_saved(torch.permute, "dims")),
    "UnsqueezeBackward0": linear(with_saved(torch.unsqueeze, "dim")),
    "SqueezeBackward0": linear(lambda s: _squeeze_all),
    "SqueezeBackward1": linear(with_saved(torch.squeeze, "dim")),
    "SelectBackward0": linear(with_saved(torch.select, "dim", "index")),
    "SliceBackward0": linear(with_saved(_slice, "dim", "start", "end", "step")),
    "CatBackward0": _joined(torch.cat),
    "StackBackward0": _joined(torch.stack),
    "UnbindBackward0": linear(with_saved(torch.unbind, "dim")),
    "SplitBackward0": linear(with_saved(torch.split, "split_size", "dim")),
    "RepeatBackward0": linear(with_saved(torch.Tensor.repeat, "repeats")),
    "RollBackward0": linear(with_saved(torch.roll, "shifts", "dims")),
    "CumsumBackward0": linear(with_saved(torch.cumsum, "dim")),
    "FlipBackward0": linear(with_saved(torch.flip, "dims")),
    "TriuBackward0": linear(with_saved(torch.triu, "diagonal")),
    "TrilBackward0": linear(with_saved(torch.tril, "diagonal")),
    "TraceBackward0": linear(lambda s: torch.trace),
    "GatherBackward0": linear(with_saved(_gather, "dim", "index")),
    "IndexSelectBackward0": linear(with_saved(torch.index_select, "dim", "index")),
    "MaskedFillBackward0": linear(_masked),
    "WhereBackward0": _where,
    # layers and losses
    **LAYERS,
}


def recipe_of(op: str) -> Recipe | None:
    """How the forward of this kind of node follows from what it saved."""
    return _RECIPES.get(op)


def known(op: str) -> bool:
    """Whether the table has this kind of node."""
    return op in _RECIPES


def forward_of(op: str, node: Any, shapes: Sequence[Shape | None], out: Shape) -> Forward:
    """The forward of a node, with inputs to run it on.

    Args:
        op: the node's name.
        node: it.
        shapes: for each edge the shape of the input, None where it needs no gradient.
        out: shape of what the node made.

    Raises:
        NotKnown: it cannot be run again.
    """
    recipe = _RECIPES.get(op)
    if recipe is None:
        raise NotKnown(f"the forward of {op} is not in gradscope's table")
    call, inputs = recipe(Saved(node, shapes, out))
    if not all(bool(torch.isfinite(one).all()) for one in inputs if one.is_floating_point()):
        raise NotKnown("an input is not finite, or cannot be told from the result")
    return Forward(call, inputs, function_name(op))


def function_name(op: str) -> str:
    """`NativeLayerNormBackward0` -> `native_layer_norm`, as torch calls the operation."""
    name = op.rstrip("0123456789").removesuffix("Backward")
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\d)(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
