"""Evaluates readable formulas with torch: `grad @ mat2ᵀ` as Python, and the words that `formula_rules` explains in prose."""

from __future__ import annotations

import ast
import functools
import math
import re
from typing import Any

import torch

Names = dict[str, Any]


def evaluate(text: str, where: list[str], names: Names) -> Any:
    """The value of a formula.

    Args:
        text: as a person reads it.
        where: its explanations; those that are `name = expression` are evaluated first.
        names: the forward's arguments and results, and `grad` and `grads`.
    """
    scope = Scope(names)
    for line in where:
        name, equals, expression = line.partition(" = ")
        if equals and re.fullmatch(r"\w+(, \w+)*", name) and name != "N":
            value = _value(expression, scope)
            scope.update(zip(name.split(", "), value, strict=True) if "," in name else [(name, value)])
    return _value(text, scope)


def _value(text: str, scope: Scope) -> Any:
    code = to_python(text)
    bound = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    return eval(code, {name: scope[name] for name in used - bound})


def to_python(text: str) -> str:
    """Python again: ᵀ, ², √ and π as they are typed."""
    text = re.sub(r"([\w.\]]+)ᴴ", r"\1.mH", text)
    for sign, typed in (("ᵀ", ".mT"), ("²", " ** 2"), ("³", " ** 3"), ("√(", "sqrt("), ("π", "pi")):
        text = text.replace(sign, typed)
    return text


class Scope(Names):
    """Names of a formula; what is missing is looked for among `WORDS`, in torch, and last among aten's own operators."""

    def __missing__(self, name: str) -> Any:
        if name in WORDS:
            return functools.partial(WORDS[name], self)
        if name in VALUES:
            return VALUES[name](self)
        for room in (torch, torch.nn.functional, torch.special, torch.linalg):
            if hasattr(room, name):
                return getattr(room, name)
        return getattr(torch.ops.aten, name)


# ---------------------------------------------------------------- words


def put_back(scope: Scope, x: torch.Tensor, dim: Any) -> torch.Tensor:
    if scope.get("keepdim") or not isinstance(x, torch.Tensor):
        return x
    rank = next(scope[name] for name in ("self", "input") if name in scope).dim()
    dims = range(rank) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    for one in sorted(one % rank for one in dims):
        x = x.unsqueeze(one)
    return x


def numbers_of_each(scope: Scope) -> int:
    """n: how many elements each reduced number is of."""
    x = scope["self"]
    dim = scope.get("dim")
    dims = range(x.dim()) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    return math.prod(x.shape[one] for one in dims)


def average(scope: Scope, x: torch.Tensor) -> torch.Tensor:
    if "normalized_shape" in scope:
        return x.mean(tuple(range(-len(scope["normalized_shape"]), 0)), keepdim=True)
    if "group" in scope:
        grouped = x.reshape(scope["N"], scope["group"], -1)
        return grouped.mean(-1, keepdim=True).expand_as(grouped).reshape(x.shape)
    return x.mean([dim for dim in range(x.dim()) if dim != 1], keepdim=True)


def per_channel(scope: Scope, x: torch.Tensor) -> torch.Tensor:
    return x.sum([dim for dim in range(x.dim()) if dim != 1])


def of_channel(scope: Scope, w: torch.Tensor) -> torch.Tensor:
    return w.reshape(1, -1, *[1] * (scope["input"].dim() - 2))


def conv_input(scope: Scope, grad: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A convolution is linear in its input: its transpose, by differentiating one that is made of torch's unfold and einsum."""
    x = torch.zeros(scope["input"].shape, dtype=grad.dtype, requires_grad=True)
    return torch.autograd.grad(_convolution(scope, x, weight), x, grad)[0]


def conv_weight(scope: Scope, grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    weight = torch.zeros(scope["weight"].shape, dtype=grad.dtype, requires_grad=True)
    return torch.autograd.grad(_convolution(scope, x, weight), weight, grad)[0]


def _convolution(scope: Scope, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A convolution by unfolding, without torch's own."""
    rank = x.dim() - 2
    stride, padding = scope["stride"], scope["padding"]
    x = torch.nn.functional.pad(x, [size for size in reversed(padding) for _ in (0, 1)])
    for dim in range(rank):
        x = x.unfold(2 + dim, weight.shape[2 + dim], stride[dim])
    places, kernel = "uvw"[:rank], "xyz"[:rank]
    return torch.einsum(f"nc{places}{kernel},oc{kernel}->no{places}", x, weight)


def at_places(scope: Scope, shape: Any, indices: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    flat = indices.flatten(2)
    return torch.zeros(*shape[:2], math.prod(shape[2:]), dtype=grad.dtype).scatter_add(2, flat, grad.flatten(2)).reshape(shape)


def at_targets(scope: Scope, target: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    used = torch.where(target == scope["ignore_index"], 0, g.expand(target.shape))
    return torch.zeros_like(scope["self"]).scatter(1, target.clamp(min=0).unsqueeze(1), used.unsqueeze(1))


def attention_weights(scope: Scope, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    scores = query @ key.mT * scope["scale"]
    if scope["is_causal"]:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, -math.inf)
    return scores.softmax(-1)


def other_dims(scope: Scope, x: torch.Tensor) -> torch.Tensor:
    return x.sum([dim for dim in range(x.dim()) if dim != scope["dim"]], keepdim=True)


def as_strided_backward(scope: Scope, grad: torch.Tensor, shape: Any, size: Any, stride: Any, offset: int) -> torch.Tensor:
    count = math.prod(shape)
    places = torch.arange(count).as_strided(size, stride, offset)
    return torch.zeros(count, dtype=grad.dtype).index_add(0, places.flatten(), grad.flatten()).reshape(shape)


def repeat_backward(scope: Scope, grad: torch.Tensor, repeats: Any, shape: Any) -> torch.Tensor:
    shape = (*[1] * (len(repeats) - len(shape)), *shape)
    pairs = [size for pair in zip(repeats, shape, strict=True) for size in pair]
    return grad.reshape(pairs).sum(list(range(0, len(pairs), 2))).reshape(scope["self"].shape)


def first(scope: Scope, values: torch.Tensor, shape: Any) -> torch.Tensor:
    return torch.cat([values, values.new_zeros(math.prod(shape) - len(values))]).reshape(shape)


def statistic(scope: Scope, name: str) -> torch.Tensor:
    """A mean or a 1/√(var + eps) of a channel or of a group, in the shape of the input."""
    x, value = scope["input"], scope[name]
    if "group" not in scope:
        return of_channel(scope, value)
    return value.reshape(scope["N"], scope["group"], 1).expand(-1, -1, x[0].numel() // scope["group"]).reshape(x.shape)


def cumulative(x: torch.Tensor) -> torch.Tensor:
    """Φ of the kind of gelu."""
    return (1 + torch.erf(x / math.sqrt(2))) / 2


def tanh_cumulative(x: torch.Tensor) -> torch.Tensor:
    return (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def Phi(scope: Scope, x: torch.Tensor) -> torch.Tensor:
    return tanh_cumulative(x) if scope["approximate"] == "tanh" else cumulative(x)


def phi(scope: Scope, x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(Phi(scope, x).sum(), x)[0]


WORDS: dict[str, Any] = {
    "put_back": put_back,
    "avg": average,
    "per_channel": per_channel,
    "as_strided_backward": as_strided_backward,
    "repeat_backward": repeat_backward,
    "slice": lambda scope, *arguments: torch.ops.aten.slice(*arguments),
    "conv_input": conv_input,
    "conv_weight": conv_weight,
    "at_places": at_places,
    "at_targets": at_targets,
    "attention_weights": attention_weights,
    "over": other_dims,
    "first": first,
    "Phi": Phi,
    "phi": phi,
    "rows": lambda scope, x: x.flatten(0, -2),
    "sum_to": lambda scope, x, shape: x.sum_to_size(shape),
    "block_of": lambda scope, x, i: x.split([len(one) for one in scope["tensors"]])[i].split(
        [one.shape[1] for one in scope["tensors"]], 1
    )[i],
    "conj": lambda scope, x: torch.conj(x) if isinstance(x, torch.Tensor) else x,
    "scalars": lambda scope, x: x[..., None, None],
    "log_sigmoid": lambda scope, x: torch.nn.functional.logsigmoid(x),
    "sqrt": lambda scope, x: math.sqrt(x) if isinstance(x, (int, float)) else torch.sqrt(x),
    "log": lambda scope, x: math.log(x) if isinstance(x, (int, float)) else torch.log(x),
    "abs": lambda scope, x: torch.abs(x),
    "argsort": lambda scope, dims: sorted(range(len(dims)), key=[dim % len(dims) for dim in dims].__getitem__),
    "constant_pad_nd": lambda scope, x, pad: torch.constant_pad_nd(x, pad),
    "zeros": lambda scope, shape: torch.zeros(shape, dtype=scope["grad"].dtype),
    "eye": lambda scope, shape: torch.eye(*shape, dtype=scope["grad"].dtype),
    "solve": lambda scope, a, b: torch.linalg.solve(a, b),
}

VALUES: dict[str, Any] = {
    "pi": lambda scope: math.pi,
    "n": numbers_of_each,
    "N": lambda scope: scope["self"].numel() if scope["reduction"] == 1 else 1,
    "W": lambda scope: scope["total_weight"] if scope["reduction"] == 1 else 1,
    "mu": lambda scope: statistic(scope, "result1"),
    "rs": lambda scope: statistic(scope, "result2"),
    "w": lambda scope: of_channel(scope, scope["weight"]),
}
