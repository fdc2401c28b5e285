"""The forward of torch's own nodes, from what they have saved: enough to run it again with other numbers.

Not everything is saved. A result from which the input follows gives the input; an operand in which the op is linear may be any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

F: Any = torch.nn.functional
Shape = tuple[int, ...]


class NotKnown(Exception):
    """Why the forward cannot be run again."""


@dataclass(frozen=True, slots=True)
class Forward:
    """A forward that can be run again."""

    call: Callable[..., Any]
    """from the inputs, in the order of the node's edges, to a tensor or several"""
    inputs: list[torch.Tensor]
    """those that the node saved, or others in their place; floating ones in float64"""
    text: str
    """what is run: `torch.sin`"""


class Saved:
    """Reads what a node has saved.

    Args:
        node: one of torch's own.
        shapes: of the input that each edge belongs to; None where it needs no gradient.
        out: shape of what the node made.
    """

    def __init__(self, node: Any, shapes: Sequence[Shape | None], out: Shape) -> None:
        self.node, self.shapes, self.out = node, shapes, out
        self._generator = torch.Generator().manual_seed(0)

    def __getattr__(self, name: str) -> Any:
        """An attribute: `dim`, `alpha`; a tensor in float64, None where it was not saved."""
        try:
            value = getattr(self.node, f"_saved_{name}")
        except AttributeError:
            raise NotKnown(f"this version of torch saves no {name}") from None
        except RuntimeError as error:
            raise NotKnown(str(error).splitlines()[0]) from None
        return _plain(value)

    def needed(self, name: str) -> torch.Tensor:
        """A tensor that must be there."""
        value = getattr(self, name)
        if not isinstance(value, torch.Tensor):
            raise NotKnown(f"{name} was not saved")
        return value

    def any(self, slot: int, shape: Shape | None = None) -> torch.Tensor:
        """Some numbers for an input in which the op is linear."""
        shape = self.shapes[slot] if shape is None and slot < len(self.shapes) else shape
        if shape is None:
            shape = self.out
        return torch.randn(shape, generator=self._generator, dtype=torch.float64)

    def operand(self, name: str, slot: int) -> torch.Tensor:
        """A tensor, or, where it was not saved as the op is linear in it, any."""
        value = getattr(self, name)
        return value if isinstance(value, torch.Tensor) else self.any(slot)


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            raise NotKnown("complex numbers are not checked")
        if value.layout != torch.strided:
            raise NotKnown(f"{value.layout} tensors are not checked")
        return value.detach().to("cpu", torch.float64) if value.is_floating_point() else value.detach().to("cpu")
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if type(value) is int and value >= 1 << 63:
        return value - (1 << 64)  # torch shows negative numbers so
    return value


Recipe = Callable[[Saved], tuple[Callable[..., Any], list[torch.Tensor]]]


def _unary(call: Callable[..., Any], saved: str = "self") -> Recipe:
    return lambda s: (call, [s.needed(saved)])


def _from_result(call: Callable[..., Any], inverse: Callable[[torch.Tensor], torch.Tensor]) -> Recipe:
    return lambda s: (call, [inverse(s.needed("result"))])


def _linear(make: Callable[[Saved], Callable[..., Any]], inputs: int = 1) -> Recipe:
    """An op that is linear in all its inputs and saves none of them."""
    return lambda s: (make(s), [s.any(slot) for slot in range(inputs)])


def _two(call: Callable[..., Any], first: str = "self", second: str = "other") -> Recipe:
    return lambda s: (call, [s.operand(first, 0), s.operand(second, 1)])


def _reduced(call: Callable[..., Any]) -> Recipe:
    """Over dimensions, the input saved."""

    def recipe(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
        dim, keep = s.dim, s.keepdim
        return lambda x: call(x, dim, keep), [s.needed("self")]

    return recipe


def _like_relu(result: torch.Tensor) -> torch.Tensor:
    return torch.where(result > 0, result, -torch.ones_like(result))


def _layer_norm(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """ε was not saved: it follows from the saved 1 / sqrt(variance + ε)."""
    shape, x = s.normalized_shape, s.needed("input")
    variance = x.flatten(-len(shape)).var(-1, correction=0)
    eps = max(0.0, (s.needed("result2").reshape(variance.shape) ** -2 - variance).median().item())
    weight, bias = s.weight, s.bias
    weight = torch.ones(shape, dtype=torch.float64) if weight is None else weight
    bias = torch.zeros(shape, dtype=torch.float64) if bias is None else bias
    return lambda x, w, b: F.layer_norm(x, shape, w, b, eps), [x, weight, bias]


def _clamp(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    low, high = s.min, s.max
    return lambda x: x.clamp(low, high), [s.needed("self")]


def _pow(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    exponent = s.exponent
    return lambda x: x**exponent, [s.needed("self")]


def _pow_tensors(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    return torch.pow, [s.needed("self"), s.needed("exponent")]


def _addmm(batched: bool) -> Recipe:
    def recipe(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
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


def _scalar_factor(name: str, call: Callable[[torch.Tensor, Any], Any]) -> Callable[[Saved], Callable[..., Any]]:
    def make(s: Saved) -> Callable[..., Any]:
        factor = getattr(s, name)
        return lambda x: call(x, factor)

    return make


def _with(call: Callable[..., Any], *names: str) -> Callable[[Saved], Callable[..., Any]]:
    """The op with attributes that the node saved, in their order."""

    def make(s: Saved) -> Callable[..., Any]:
        values = [getattr(s, name) for name in names]
        return lambda *inputs: call(*inputs, *values)

    return make


def _to_shape(s: Saved) -> Callable[..., Any]:
    out = s.out
    return lambda x: x.reshape(out)


def _expand(s: Saved) -> Callable[..., Any]:
    out = s.out
    return lambda x: x.expand(out)


def _joined(call: Callable[..., Any]) -> Recipe:
    """cat and stack: as many inputs as there are edges."""

    def recipe(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
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


def _where(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    condition = s.condition
    return lambda a, b: torch.where(condition, a, b), [s.any(0), s.any(1)]


def _gather(x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
    return x.gather(dim, index)


def _embedding(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    index = s.indices
    if s.shapes[0] is None:
        raise NotKnown("the shape of the table was not saved")
    return lambda table: F.embedding(index, table), [s.any(0)]


def _loss(call: Callable[..., Any]) -> Recipe:
    names = ("none", "mean", "sum")

    def recipe(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
        reduction = names[s.reduction]
        return lambda a, b: call(a, b, reduction=reduction), [s.needed("self"), s.needed("target")]

    return recipe


def _gelu(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    how = s.approximate
    return lambda x: F.gelu(x, approximate=how), [s.needed("self")]


def _var(root: bool) -> Recipe:
    def recipe(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
        dim, keep = s.dim, s.keepdim
        correction = 1 if s.correction is None else s.correction
        call = torch.std if root else torch.var
        return lambda x: call(x, dim=dim, correction=correction, keepdim=keep), [s.needed("self")]

    return recipe


def _softmax_input(result: torch.Tensor) -> torch.Tensor:
    if not bool((result > 0).all()):
        raise NotKnown("a probability is 0: its logarithm, the input, cannot be told")
    return result.log()


_RECIPES: dict[str, Recipe] = {
    # of one input that was saved
    **{
        f"{name}Backward0": _unary(call)
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
    "SoftplusBackward0": lambda s: (_with(F.softplus, "beta", "threshold")(s), [s.needed("self")]),
    "LeakyReluBackward0": lambda s: (_with(F.leaky_relu, "negative_slope")(s), [s.needed("self")]),
    "HardtanhBackward0": lambda s: (_with(F.hardtanh, "min_val", "max_val")(s), [s.needed("self")]),
    "ClampBackward1": _clamp,
    "ClampMinBackward0": lambda s: (_with(torch.clamp_min, "min")(s), [s.needed("self")]),
    "ClampMaxBackward0": lambda s: (_with(torch.clamp_max, "max")(s), [s.needed("self")]),
    "PowBackward0": _pow,
    "PowBackward1": _pow_tensors,
    "LogsumexpBackward0": _reduced(torch.logsumexp),
    "VarBackward0": _var(False),
    "StdBackward0": _var(True),
    "NativeLayerNormBackward0": _layer_norm,
    "CumprodBackward0": lambda s: (_with(torch.cumprod, "dim")(s), [s.needed("self")]),
    # of one input that follows from the result
    "ExpBackward0": _from_result(torch.exp, torch.log),
    "Exp2Backward0": _from_result(torch.exp2, torch.log2),
    "Expm1Backward0": _from_result(torch.expm1, torch.log1p),
    "TanBackward0": _from_result(torch.tan, torch.atan),
    "TanhBackward0": _from_result(torch.tanh, torch.atanh),
    "SigmoidBackward0": _from_result(torch.sigmoid, torch.logit),
    "SqrtBackward0": _from_result(torch.sqrt, torch.square),
    "RsqrtBackward0": _from_result(torch.rsqrt, lambda y: 1 / y**2),
    "ReciprocalBackward0": _from_result(torch.reciprocal, torch.reciprocal),
    "ReluBackward0": _from_result(torch.relu, _like_relu),
    "SoftmaxBackward0": lambda s: (_with(torch.softmax, "dim")(s), [_softmax_input(s.needed("result"))]),
    "LogSoftmaxBackward0": lambda s: (_with(torch.log_softmax, "dim")(s), [s.needed("result")]),
    # of two and more
    "MulBackward0": _two(torch.mul),
    "DivBackward0": _two(torch.div),
    "MmBackward0": _two(torch.mm, "self", "mat2"),
    "BmmBackward0": _two(torch.bmm, "self", "mat2"),
    "MvBackward0": _two(torch.mv, "self", "vec"),
    "DotBackward0": _two(torch.dot, "self", "tensor"),
    "Atan2Backward0": _two(torch.atan2),
    "MaximumBackward0": _two(torch.maximum),
    "MinimumBackward0": _two(torch.minimum),
    "AddmmBackward0": _addmm(False),
    "BaddbmmBackward0": _addmm(True),
    "MseLossBackward0": _loss(F.mse_loss),
    "SmoothL1LossBackward0": lambda s: _smooth(s),
    "BinaryCrossEntropyBackward0": _loss(F.binary_cross_entropy),
    # linear: what was not saved may be any
    "AddBackward0": _linear(_add, 2),
    "SubBackward0": _linear(_sub, 2),
    "NegBackward0": _linear(lambda s: torch.neg),
    "CloneBackward0": _linear(lambda s: torch.clone),
    "SumBackward0": _linear(lambda s: torch.sum),
    "SumBackward1": _linear(_expanded_sum),
    "MeanBackward0": _linear(lambda s: torch.mean),
    "MeanBackward1": _linear(_mean),
    "ViewBackward0": _linear(_to_shape),
    "UnsafeViewBackward0": _linear(_to_shape),
    "ReshapeAliasBackward0": _linear(_to_shape),
    "ExpandBackward0": _linear(_expand),
    "TBackward0": _linear(lambda s: torch.t),
    "TransposeBackward0": _linear(_with(torch.transpose, "dim0", "dim1")),
    "PermuteBackward0": _linear(_with(torch.permute, "dims")),
    "UnsqueezeBackward0": _linear(_with(torch.unsqueeze, "dim")),
    "SqueezeBackward0": _linear(lambda s: _squeeze_all),
    "SqueezeBackward1": _linear(_with(torch.squeeze, "dim")),
    "SelectBackward0": _linear(_with(torch.select, "dim", "index")),
    "SliceBackward0": _linear(_with(_slice, "dim", "start", "end", "step")),
    "CatBackward0": _joined(torch.cat),
    "StackBackward0": _joined(torch.stack),
    "UnbindBackward0": _linear(_with(torch.unbind, "dim")),
    "CumsumBackward0": _linear(_with(torch.cumsum, "dim")),
    "FlipBackward0": _linear(_with(torch.flip, "dims")),
    "TriuBackward0": _linear(_with(torch.triu, "diagonal")),
    "TrilBackward0": _linear(_with(torch.tril, "diagonal")),
    "TraceBackward0": _linear(lambda s: torch.trace),
    "GatherBackward0": _linear(_with(_gather, "dim", "index")),
    "IndexSelectBackward0": _linear(_with(torch.index_select, "dim", "index")),
    "MaskedFillBackward0": _linear(_masked),
    "WhereBackward0": _where,
    "EmbeddingBackward0": _embedding,
}


def _smooth(s: Saved) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    beta, reduction = s.beta, ("none", "mean", "sum")[s.reduction]
    return lambda a, b: F.smooth_l1_loss(a, b, reduction=reduction, beta=beta), [s.needed("self"), s.needed("target")]


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
    return Forward(call, inputs, op.rstrip("0123456789").removesuffix("Backward").lower())
