"""How a node's forward is told from what it has saved: the reader of saved values, and the common kinds of recipes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Shape = tuple[int, ...]
Made = tuple[Callable[..., Any], list[torch.Tensor]]
"""A forward, and inputs to run it on, in the order of the node's edges."""


class NotKnown(Exception):
    """Why the forward cannot be run again."""


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


Recipe = Callable[[Saved], Made]
"""What it is from what was saved. Raises `NotKnown`."""


def one_saved(call: Callable[..., Any], saved: str = "self") -> Recipe:
    """An op of one input, which was saved."""
    return lambda s: (call, [s.needed(saved)])


def from_result(call: Callable[..., Any], inverse: Callable[[torch.Tensor], torch.Tensor]) -> Recipe:
    """An op whose result was saved, from which the input follows."""
    return lambda s: (call, [inverse(s.needed("result"))])


def linear(make: Callable[[Saved], Callable[..., Any]], inputs: int = 1) -> Recipe:
    """An op that is linear in all its inputs and saves none of them."""
    return lambda s: (make(s), [s.any(slot) for slot in range(inputs)])


def two(call: Callable[..., Any], first: str = "self", second: str = "other") -> Recipe:
    """An op of two inputs; one that was not saved may be any, as the op is linear in it."""
    return lambda s: (call, [s.operand(first, 0), s.operand(second, 1)])


def reduced(call: Callable[..., Any]) -> Recipe:
    """Over dimensions, the input saved."""

    def recipe(s: Saved) -> Made:
        dim, keep = s.dim, s.keepdim
        return lambda x: call(x, dim, keep), [s.needed("self")]

    return recipe


def with_saved(call: Callable[..., Any], *names: str) -> Callable[[Saved], Callable[..., Any]]:
    """The op with attributes that the node saved, in their order."""

    def make(s: Saved) -> Callable[..., Any]:
        values = [getattr(s, name) for name in names]
        return lambda *inputs: call(*inputs, *values)

    return make
