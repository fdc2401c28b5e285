"""Elementwise functions of two tensors of different rank whose result is larger than either: often a slip, `(N, 1) - (N,)`.

Seen by the function mode alone. Line events (Python 3.12+) tell nothing of arguments: there no broadcast is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from gradscope.debuggee.watching import Watcher

_MOST = 10_000
"""remembered: the last ones"""
_BINARY = (
    *("add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide", "pow", "atan2", "hypot", "fmod"),
    *("remainder", "maximum", "minimum", "fmax", "fmin", "max", "min", "lerp", "logaddexp", "logaddexp2", "xlogy"),
)
_DUNDERS = ("add", "radd", "sub", "rsub", "mul", "rmul", "div", "rdiv", "truediv", "rtruediv", "pow", "rpow")
_LOSSES = (
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "poisson_nll_loss", "gaussian_nll_loss"),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "hinge_embedding_loss"),
)


@dataclass(frozen=True, slots=True)
class Expansion:
    """Two shapes, and what both were expanded to."""

    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    result: tuple[int, ...]


class Broadcasts:
    """Those of one run."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._number: Callable[[], int] = torch.autograd._get_sequence_nr
        self._known: dict[int, Expansion] = {}

    def of(self, sequence_nr: int) -> Expansion | None:
        """What the call expanded that made the node with this number."""
        return self._known.get(sequence_nr)

    def watchers(self) -> dict[Any, Watcher]:
        """Whom to tell of which functions."""
        torch = self._torch
        homes = (torch.Tensor, torch, torch.nn.functional, torch._C._nn, torch.functional)
        found: dict[Any, Watcher] = {}
        called = self._called()
        for name in (*_BINARY, *_LOSSES, *(f"__{name}__" for name in _DUNDERS)):
            for home in homes:
                function = getattr(home, name, None)
                if function is not None:
                    found[function] = called
        found[torch.functional.broadcast_tensors] = self._expanded
        found[torch._C._VariableFunctions.broadcast_tensors] = self._expanded
        return found

    def _called(self) -> Watcher:
        """The hot path, with what it needs at hand: most calls have one rank, or add a bias."""
        tensor, compare = self._torch.Tensor, self._compare
        plain, alone = (tensor, self._torch.nn.Parameter), self._torch._C.DisableTorchFunctionSubclass

        def called(
            function: Any,
            args: tuple[Any, ...],
            kwargs: Mapping[str, Any] | None,
            result: Any,
            frame: FrameType,
            number: int,
        ) -> None:
            if len(args) < 2:
                if not kwargs:
                    return
                args = (*args, *kwargs.values())
            first, second = args[:2]
            if type(first) in plain and type(second) in plain:
                if first.dim() != second.dim():
                    compare(first, second, result, number)
            elif isinstance(first, tensor) and isinstance(second, tensor):
                with alone():  # the person's classes must see no more calls than without us
                    compare(first, second, result, number)

        return called

    def _compare(self, first: Any, second: Any, result: Any, number: int) -> None:
        size = result.numel() if isinstance(result, self._torch.Tensor) else 0
        if first.dim() != second.dim() and size not in (first.numel(), second.numel()):
            self._note(first, second, number, self._number())

    def _expanded(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, result: Any, frame: FrameType, number: int
    ) -> None:
        """torch's losses expand their arguments before they make their node, which comes next."""
        given = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
        above = frame.f_back
        if len(given) != 2 or above is None or above.f_code.co_name not in _LOSSES:
            return
        first, second = given
        with self._torch._C.DisableTorchFunctionSubclass():
            makes = self._torch.is_grad_enabled() and (first.requires_grad or second.requires_grad)
            if makes and 0 != first.dim() != second.dim() != 0:
                now = self._number()
                self._note(first, second, number, now + 1)

    def _note(self, first: Any, second: Any, start: int, end: int) -> None:
        shapes = tuple(first.shape), tuple(second.shape)
        try:
            result = tuple(self._torch.broadcast_shapes(*shapes))
        except RuntimeError:
            return
        if result in shapes or start >= end:
            return
        self._known[end - 1] = Expansion(shapes, result)
        if len(self._known) > _MOST:
            for old in list(self._known)[: _MOST // 2]:
                del self._known[old]
