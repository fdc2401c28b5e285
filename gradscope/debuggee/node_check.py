"""One node under check: the gradients that it is run on, linearity, and rows for what is found."""

from __future__ import annotations

import math
from typing import Any

import torch

from gradscope.debuggee import node_calls
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.differences import Comparison, Function, Limits, compare
from gradscope.debuggee.modes import modes_on
from gradscope.debuggee.node_calls import Gradients
from gradscope.debuggee.record import Cancelled
from gradscope.model.checks import RIGHT, UNKNOWN_RESULT, WRONG, CheckRow
from gradscope.model.places import UNKNOWN

TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""for differences, relative to the greatest derivative, by the dtype in which the backward computes"""
LINEAR = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""for linearity"""
_FACTORS = 0.75, -1.5
"""a and b: of different signs and sizes, so that a norm, a sign or a limit in the backward shows"""
LINEARITY = "linear in the incoming gradient"
DIFFERENCES = "against finite differences"


class NodeCheck:
    """One node under check."""

    def __init__(self, captured: Captured, number: int, arrived: Gradients, limits: Limits) -> None:
        self.captured, self.number, self.limits = captured, number, limits
        self.node = captured.nodes[number]
        self.slots = range(captured.first_slot[number], captured.first_slot[number + 1])
        self.arrived = list(arrived)
        self.edges = node_calls.input_edges(captured, number)
        self.rows: list[CheckRow] = []
        self._generator = torch.Generator().manual_seed(0)

    # ------------------------------------------------------------ what goes in

    def kind(self, slot: int) -> Any:
        """Shape, dtype and device of a slot's gradient; None where torch does not say."""
        place = self.captured.slot_kind[slot]
        return self.captured.kinds[place] if place >= 0 else None

    def gradients(self) -> list[torch.Tensor | None]:
        """Random ones of the size of what arrived; None where torch does not say what arrives, or it has no fractions."""
        made: list[torch.Tensor | None] = []
        for slot, arrived in zip(self.slots, self.arrived, strict=True):
            kind = self.kind(slot)
            if kind is None or not (kind[1].is_floating_point or kind[1].is_complex):
                made.append(None)
                continue
            shape, dtype, device = kind
            size = 1.0 if arrived is None or not arrived.numel() else arrived.detach().abs().max().to(torch.float64).item()
            size = size if 0 < size < 1e30 else 1.0
            wide = dtype if dtype.is_complex else torch.float64
            made.append((size * torch.randn(shape, generator=self._generator, dtype=wide)).to(device, dtype))
        return made

    @property
    def dtype(self) -> torch.dtype:
        """The coarsest in which this node computes."""
        kinds = [self.kind(slot) for slot in self.slots]
        kinds += [self.kind(self.captured.edge_into[edge]) for edge, _ in self.edges if edge != UNKNOWN]
        dtypes = [kind[1] for kind in kinds if kind is not None and kind[1] in TOLERANCE]
        return max(dtypes, key=lambda dtype: TOLERANCE[dtype], default=torch.float32)

    def shape(self, slot: int) -> tuple[int, ...] | None:
        kind = self.kind(slot)
        return None if kind is None else kind[0]

    def run(self, gradients: Gradients) -> list[Any]:
        """The node's backward, as it is."""
        with modes_on():
            return node_calls.run_node(self.node, gradients)

    # ------------------------------------------------------------ what both have

    def linearity(self) -> None:
        """f(a·g₁ + b·g₂) = a·f(g₁) + b·f(g₂)."""
        tolerance = LINEAR[self.dtype]
        try:
            one, other = self.gradients(), self.gradients()
            if all(gradient is None for gradient in one):
                self.rows.append(unknown(LINEARITY, "torch does not say what arrives here"))
                return
            a, b = _FACTORS
            mixed = [None if g is None or h is None else a * g + b * h for g, h in zip(one, other, strict=True)]
            parts = [self.run(_copies(gradients)) for gradients in (one, other, mixed)]
        except Cancelled:
            raise
        except Exception as error:
            self.rows.append(unknown(LINEARITY, f"the backward raised {text_of(error)}"))
            return
        worst, where = 0.0, ""
        for place, (f, g, fg) in enumerate(zip(*parts, strict=False)):
            if not all(isinstance(part, torch.Tensor) for part in (f, g, fg)):
                continue
            difference = far(wide(fg), a * wide(f) + b * wide(g))
            if not math.isfinite(difference):
                self.rows.append(unknown(LINEARITY, f"gradient {place} is not finite"))
                return
            if difference > worst:
                worst, where = difference, f"gradient {place}: f({a}·g₁ {b:+}·g₂) is not {a}·f(g₁) {b:+}·f(g₂)"
        right = worst <= tolerance
        self.rows.append(CheckRow(LINEARITY, RIGHT if right else WRONG, worst, tolerance, "" if right else where))

    def differences(
        self,
        name: str,
        function: Function,
        inputs: list[Any],
        place: int,
        weights: Gradients,
        claim: torch.Tensor,
        tolerance: float = 0.0,
    ) -> None:
        """A row for the gradient of one input against differences; the tolerance is that of the node's dtype unless given."""
        tolerance, what = tolerance or TOLERANCE[self.dtype], f"∂{name} {DIFFERENCES}"
        try:
            claim = wide(claim)
            if claim.shape != inputs[place].shape:
                claim = claim.sum_to_size(inputs[place].shape)
            found = compare(function, inputs, place, weights, claim, tolerance, self.limits)
        except Cancelled:
            raise
        except Exception as error:
            self.rows.append(unknown(what, text_of(error)))
            return
        self.rows.append(_row(what, found, tolerance))


def verdict(what: str, wrong: str, remark: str = "") -> CheckRow:
    """A row for what is right or wrong by itself: `wrong` says how, and is empty where it is right."""
    return CheckRow(what, WRONG if wrong else RIGHT, why=wrong or remark)


def _row(what: str, found: Comparison, tolerance: float) -> CheckRow:
    if not found.compared:
        return unknown(what, found.remark or "the input is empty")
    right = found.error <= tolerance
    why = found.remark if right else "; ".join(part for part in (found.where, found.remark) if part)
    return CheckRow(what, RIGHT if right else WRONG, found.error, tolerance, why)


def unknown(what: str, why: str) -> CheckRow:
    """A row for what could not be checked."""
    return CheckRow(what, UNKNOWN_RESULT, why=why)


def tensors_in(made: Any) -> list[torch.Tensor]:
    """The tensors that a forward made."""
    return [one for one in (made if isinstance(made, (tuple, list)) else (made,)) if isinstance(one, torch.Tensor)]


def _copies(gradients: Gradients) -> list[torch.Tensor | None]:
    return [None if gradient is None else gradient.clone() for gradient in gradients]


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor dense and in float64 (complex128)."""
    tensor = tensor.detach()
    tensor = tensor.to_dense() if tensor.layout != torch.strided else tensor
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def far(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Greatest difference, relative to the greatest element of what should be."""
    if not wanted.numel():
        return 0.0
    difference, size = (found - wanted).abs().max().item(), wanted.abs().max().item()
    return difference / size if size else difference


def text_of(error: BaseException) -> str:
    """`ValueError: first line`"""
    return ": ".join(part for part in (type(error).__name__, str(error).strip().split("\n")[0]) if part)
