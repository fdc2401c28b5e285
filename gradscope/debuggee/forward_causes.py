"""What a NaN or an infinity of the forward was made of: `log of -1.0`, `mean over 0 elements`, `softmax over a row of -inf`."""

from __future__ import annotations

import math

import torch

from gradscope.debuggee.forward_values import ForwardValues, Look
from gradscope.debuggee.known_forwards import function_name
from gradscope.debuggee.node_check import text_of

_SIGNS = {"Div": "{} / {}", "Mul": "{} times {}", "Add": "{} + {}", "Sub": "{} - {}", "Pow": "{} to the power of {}"}
_AVERAGES = ("Mean", "Std", "Var")
_CHAIN = 8
"""so many nodes up a mask is looked for"""


def cause(values: ForwardValues, node: int, look: Look) -> str:
    """Empty where it is not known.

    Args:
        values: of the forward.
        node: the one whose result is bad.
        look: at that result.
    """
    if node in values.given_bad:
        return f"its {values.given_bad[node]}, which has no gradient, held it already"
    op = values.captured.ops[node]
    if not values.inputs(node):
        return "it held it already" if op == "AccumulateGrad" else ""
    short = op.rstrip("0123456789").removesuffix("Backward")
    how = _softmax if short in ("Softmax", "LogSoftmax") else _average if short in _AVERAGES else _elementwise
    try:
        with torch.no_grad():
            return how(values, node, look, short)
    except Exception as error:
        values.missed.append(text_of(error))
        return ""


def _elementwise(values: ForwardValues, node: int, look: Look, short: str) -> str:
    shape = _shape(values, node)
    if shape is None or look.index is None:
        return ""
    arguments = [_number(one, shape, look.index) for one in values.arguments(node)]
    if short in _SIGNS:
        exponent = getattr(values.captured.nodes[node], "_saved_exponent", None) if short == "Pow" else None
        arguments = [*arguments[:1], float(exponent)] if isinstance(exponent, (int, float)) else arguments
        named = [values.kept.get(node, {}).get(name) for name in ("self", "exponent" if short == "Pow" else "other")]
        arguments += [None] * (2 - len(arguments))
        both = [
            _number(kept, shape, look.index) if found is None else found for found, kept in zip(arguments, named, strict=False)
        ]
        return "" if None in both else _SIGNS[short].format(*map(_told, both))
    number = arguments[0] if len(arguments) == 1 else None
    if number is None or not _same_shape(values, node, shape):
        return ""
    name = function_name(values.captured.ops[node])
    return f"1 / {_told(number)}" if short == "Reciprocal" else f"{name} of {_told(number)}"


def _average(values: ForwardValues, node: int, look: Look, short: str) -> str:
    before, after = _input_shape(values, node), _shape(values, node)
    if before is None or after is None:
        return ""
    each = math.prod(before) // max(1, math.prod(after))
    if each > 1 and short == "Mean":
        return ""
    few = each == 0 or (short != "Mean" and each == 1)
    return f"{short.lower()} over {'1 element' if each == 1 else f'{each} elements'}" if few else ""


def _softmax(values: ForwardValues, node: int, look: Look, short: str) -> str:
    dim = getattr(values.captured.nodes[node], "_saved_dim", -1)
    dim = dim - (1 << 64) if dim >= 1 << 63 else dim
    blocked = _blocked(values, node)
    if blocked is None or look.index is None:
        return ""
    rows = blocked.all(dim, keepdim=True).expand(blocked.shape)
    return "softmax over a row of -inf" if bool(rows[look.index]) else ""


def _blocked(values: ForwardValues, node: int) -> torch.Tensor | None:
    """Where the input of a softmax is -inf: known, or told from the mask that filled it."""
    shape = _shape(values, node)
    for _ in range(_CHAIN):
        slot = next(iter(values.inputs(node).values()), None)
        if slot is None:
            return None
        known = values.value(slot)
        if known is not None:
            return known == -torch.inf if tuple(known.shape) == shape else None
        node = values.node_of(slot)
        mask = values.kept.get(node, {}).get("mask")
        if mask is not None and mask.dtype == torch.bool and shape is not None:
            return mask.expand(shape)
    return None


def _shape(values: ForwardValues, node: int) -> tuple[int, ...] | None:
    kind = values.captured.slot_kind[values.captured.first_slot[node]]
    return values.captured.kinds[kind][0] if kind >= 0 else None


def _input_shape(values: ForwardValues, node: int) -> tuple[int, ...] | None:
    kind = values.captured.slot_kind[next(iter(values.inputs(node).values()))]
    return values.captured.kinds[kind][0] if kind >= 0 else None


def _same_shape(values: ForwardValues, node: int, shape: tuple[int, ...]) -> bool:
    return _input_shape(values, node) == shape


def _number(value: torch.Tensor | float | None, shape: tuple[int, ...], index: tuple[int, ...]) -> float | None:
    """The element of an argument that the bad element of the result was made of."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():
        return None
    try:
        return float(value.detach().expand(shape)[index])
    except RuntimeError:
        return None


def _told(number: float | None) -> str:
    """`-1.0`, `0.333333`, `-inf`"""
    text = f"{number:.6g}"
    return text if any(letter in text for letter in ".ein") else f"{text}.0"
