"""The factor by which an elementwise node multiplies what arrives, element by element.

Asked of the node itself: called with ones, a C++ node gives its local derivatives and fires no hooks. Never asked of a node that
runs Python, that has unpack hooks on what it saved, or that broadcasts.
"""

from __future__ import annotations

import torch

from gradscope.debuggee.capture import Captured
from gradscope.model.columns import LocalDerivative
from gradscope.model.tensors import INLINE_VALUES

_MOST_NODES = 300
"""Beyond that nobody reads them one by one."""

TEXTS: dict[str, tuple[str, ...]] = {
    "SinBackward0": ("cos(x)",),
    "CosBackward0": ("-sin(x)",),
    "TanBackward0": ("1 + tan(x)²",),
    "TanhBackward0": ("1 - tanh(x)²",),
    "SinhBackward0": ("cosh(x)",),
    "CoshBackward0": ("sinh(x)",),
    "AsinBackward0": ("1/√(1-x²)",),
    "AcosBackward0": ("-1/√(1-x²)",),
    "AtanBackward0": ("1/(1+x²)",),
    "ExpBackward0": ("exp(x)",),
    "Exp2Backward0": ("2ˣ·ln 2",),
    "Expm1Backward0": ("exp(x)",),
    "LogBackward0": ("1/x",),
    "Log2Backward0": ("1/(x·ln 2)",),
    "Log10Backward0": ("1/(x·ln 10)",),
    "Log1PBackward0": ("1/(1+x)",),
    "SigmoidBackward0": ("σ(x)(1-σ(x))",),
    "LogSigmoidBackward0": ("1-σ(x)",),
    "ReluBackward0": ("1 where x>0",),
    "LeakyReluBackward0": ("1 or slope",),
    "EluBackward0": ("",),
    "GeluBackward0": ("",),
    "SiluBackward0": ("",),
    "SoftplusBackward0": ("σ(βx)",),
    "HardtanhBackward0": ("1 inside",),
    "ClampBackward0": ("",),
    "ClampBackward1": ("1 inside",),
    "MulBackward0": ("other", "self"),
    "DivBackward0": ("1/other", "-self/other²"),
    "AddBackward0": ("1", "alpha"),
    "SubBackward0": ("1", "-alpha"),
    "RsubBackward0": ("-alpha", "1"),
    "NegBackward0": ("-1",),
    "PowBackward0": ("n·xⁿ⁻¹",),
    "PowBackward1": ("n·xⁿ⁻¹", "xⁿ·ln x"),
    "SqrtBackward0": ("1/(2√x)",),
    "RsqrtBackward0": ("-1/(2x√x)",),
    "ReciprocalBackward0": ("-1/x²",),
    "AbsBackward0": ("sign(x)",),
    "ErfBackward0": ("2/√π·exp(-x²)",),
    "SquareBackward0": ("2x",),
    "MaximumBackward0": ("1 where self≥other", "1 where other≥self"),
    "MinimumBackward0": ("1 where self≤other", "1 where other≤self"),
    "CloneBackward0": ("1",),
}
"""Operations that act element by element, and short forms of their derivatives by slot."""


def local_derivatives(captured: Captured) -> dict[int, LocalDerivative]:
    """edge -> factors"""
    found: dict[int, LocalDerivative] = {}
    asked = 0
    if captured.refusal:  # it may be that nobody knows what Python runs
        return found
    for node, op in enumerate(captured.ops):
        texts = TEXTS.get(op)
        if texts is None or node in captured.foreign.why or not _is_small(captured, node):
            continue
        asked += 1
        if asked > _MOST_NODES:
            break
        try:
            found.update(_ask(captured, node, texts))
        except Exception:  # freed, edited in place: the pass itself will say so
            continue
    return found


def _is_small(captured: Captured, node: int) -> bool:
    """One output of at most `INLINE_VALUES` real numbers, and inputs of the same shape."""
    slots = captured.first_slot
    if slots[node + 1] - slots[node] != 1:
        return False
    kind = captured.slot_kind[slots[node]]
    if kind < 0 or not captured.kinds[kind][1].is_floating_point:
        return False
    numel = 1
    for extent in captured.kinds[kind][0]:
        numel *= extent
    if numel > INLINE_VALUES:
        return False
    edges = range(captured.first_edge[node], captured.first_edge[node + 1])
    return all(captured.slot_kind[captured.edge_into[edge]] == kind for edge in edges)


def _ask(captured: Captured, node: int, texts: tuple[str, ...]) -> dict[int, LocalDerivative]:
    shape, dtype, device = captured.kinds[captured.slot_kind[captured.first_slot[node]]]
    with torch.no_grad():
        answer = captured.nodes[node](torch.ones(shape, dtype=dtype, device=device))
    factors = answer if isinstance(answer, tuple) else (answer,)
    found = {}
    for edge in range(captured.first_edge[node], captured.first_edge[node + 1]):
        slot = captured.edge_slot[edge]
        factor = factors[slot]
        if isinstance(factor, torch.Tensor) and tuple(factor.shape) == shape:
            values = tuple(factor.detach().to("cpu", torch.float64).flatten().tolist())
            found[edge] = LocalDerivative(values, texts[slot] if slot < len(texts) else "")
    return found
