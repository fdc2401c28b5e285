"""Central differences in float64 against what a backward says.

As `torch/autograd/gradcheck.py` makes them: (f(x + ε) − f(x − ε)) / 2ε, weighted with a gradient of the outputs. Small inputs are
checked element by element, of large ones the derivative along random directions of ±ε.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from gradscope.debuggee.record import Cancelled

STEP = 1e-6
"""ε, as gradcheck's; relative to each element"""
EACH = 64
"""up to so many elements each is checked by itself"""
DIRECTIONS = 8
"""of larger inputs so many random directions are"""
SECONDS = 10.0
_LEAST = 1e-3
"""ε of an element is relative to at least this part of the mean of all: one that happens to be tiny needs a step all the same"""
_ONE_SIDED = 0.1
"""how much one-sided derivatives may differ, relative to the greater; where the forward is smooth it is some ε"""
_ROUNDING = 1e-14
"""of the weighted outputs: what differences smaller than that, divided by ε, say nothing about"""

Function = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
"""The forward: float64 tensors to its differentiable outputs."""


class Limits:
    """How long a check may take, and whether the person still wants it."""

    def __init__(self, poll: Callable[[int], bool] | None = None, seconds: float = SECONDS) -> None:
        self._poll, self._until, self._runs = poll, time.monotonic() + seconds, 0

    def more(self) -> bool:
        """Before each run of the forward: whether there is time for it.

        Raises:
            Cancelled: the person does not want the rest.
        """
        self._runs += 1
        if self._poll is not None and self._poll(self._runs):
            raise Cancelled
        return time.monotonic() < self._until


@dataclass(slots=True)
class Comparison:
    """How far a claimed gradient of one input is from the differences."""

    error: float = 0.0
    """greatest difference, relative to the greatest derivative"""
    where: str = ""
    """of the greatest difference: `element [0, 2]: backward says 0.5, differences say 1`"""
    compared: int = 0
    wanted: int = 0
    kinks: int = 0
    """where the forward has none or two derivatives: left out, as far as the claim lies between them"""
    sampled: bool = False
    """along random directions"""

    @property
    def remark(self) -> str:
        """What was not compared, and why."""
        said = []
        if self.sampled:
            said.append(f"along {self.compared} random directions")
        if self.compared + self.kinks < self.wanted:
            said.append(f"{self.compared + self.kinks} of {self.wanted}: {SECONDS:.0f} s were over")
        if self.kinks:
            said.append(f"{self.kinks} left out: the forward has a kink there")
        return "; ".join(said)


def compare(
    function: Function,
    inputs: Sequence[torch.Tensor],
    place: int,
    weights: Sequence[torch.Tensor | None],
    claimed: torch.Tensor,
    tolerance: float,
    limits: Limits,
) -> Comparison:
    """Compare the gradient that a backward gives for one input with differences of the forward.

    Args:
        function: the forward.
        inputs: its float64 inputs (others may have any dtype).
        place: of the input in question.
        weights: the gradient of each output, float64; None for an output without one.
        claimed: what the backward says, of the input's shape.
        tolerance: relative to the greatest derivative.
        limits: how long it may take.

    Raises:
        Cancelled: the person gave it up.
    """
    x = inputs[place]
    steps, sampled = _steps(x)
    claim = claimed.detach().to(torch.float64).reshape(-1)

    def outputs(moved: torch.Tensor) -> list[torch.Tensor]:
        given = [*inputs[:place], moved, *inputs[place + 1 :]]
        return [one.detach().to(torch.float64) for one in function(given)]

    def weighted(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
        pairs = zip(weights, one, other, strict=True)
        return sum(((a - b) * weight).sum().item() for weight, a, b in pairs if weight is not None)

    base = outputs(x)
    size = sum((weight * one).abs().sum().item() for weight, one in zip(weights, base, strict=True) if weight is not None)
    result = Comparison(wanted=len(steps), sampled=sampled)
    found: list[tuple[int, float, float, float, float]] = []
    """(place, claimed, central, one-sided derivatives): all along the step, divided by its length"""
    for number, step in enumerate(steps):
        if not limits.more():
            break
        above, below = outputs(x + step), outputs(x - step)
        length = step.abs().max().item()
        along = torch.dot(claim, step.reshape(-1)).item() / length
        right, left = weighted(above, base) / length, weighted(base, below) / length
        found.append((number, along, (right + left) / 2, right, left))
    smooth = [abs(central) for _, _, central, right, left in found if not _kink(right, left)]
    scale = max(smooth, default=0.0) or max((abs(along) for _, along, *_ in found), default=0.0) or 1.0
    for number, along, central, right, left in found:
        noise = _ROUNDING * size / steps[number].abs().max().item()
        far = max(0.0, abs(along - central) - noise) / scale
        slack = tolerance * scale + 2 * noise
        if _kink(right, left) and not far <= tolerance and min(right, left) - slack <= along <= max(right, left) + slack:
            result.kinks += 1
            continue
        result.compared += 1
        if math.isnan(far) or far > result.error:
            result.error = math.inf if math.isnan(far) else far
            spot = f"direction {number + 1}" if sampled else f"element {_index(number, x)}"
            result.where = f"{spot}: backward says {along:.6g}, differences say {central:.6g}"
    return result


def _kink(right: float, left: float) -> bool:
    """Whether two one-sided derivatives are not the same one."""
    return abs(right - left) > _ONE_SIDED * max(abs(right), abs(left))


def _steps(x: torch.Tensor) -> tuple[list[torch.Tensor], bool]:
    """The steps to take: one element each, or all of them this way and that."""
    mean = x.abs().mean().item() if x.numel() else 0.0
    size = STEP * x.abs().clamp_min(_LEAST * (mean or 1.0)) if mean else torch.full_like(x, STEP)
    if x.numel() <= EACH:
        steps = []
        for element in range(x.numel()):
            step = torch.zeros_like(x).reshape(-1)
            step[element] = size.reshape(-1)[element]
            steps.append(step.reshape(x.shape))
        return steps, False
    generator = torch.Generator().manual_seed(0)
    signs = [torch.randint(0, 2, x.shape, generator=generator).to(x.device, x.dtype) * 2 - 1 for _ in range(DIRECTIONS)]
    return [size * sign for sign in signs], True


def _index(element: int, x: torch.Tensor) -> list[int]:
    place = []
    for extent in reversed(x.shape):
        place.append(element % extent)
        element //= extent
    return place[::-1]
