"""Torch's engine and its private parts, named in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from gradscope.debuggee.parts import PLAIN

_functions: Any = torch._C._functions
_autograd: Any = torch.autograd

AccumulateGrad: Any = _functions.AccumulateGrad
"""The class of the nodes that add to a leaf's `.grad`."""


def run_engine(
    roots: Sequence[GradientEdge], seeds: Sequence[torch.Tensor | None], targets: Sequence[GradientEdge]
) -> Sequence[torch.Tensor | None]:
    """One run that keeps the graph and touches no `.grad`: what `autograd.grad` does, under the choke point.

    Args:
        roots: where the seeds go.
        seeds: one for each root.
        targets: where the pass ends; never empty (the engine would then accumulate into every leaf).
    """
    if not targets:
        raise ValueError("nothing to differentiate for")
    engine = _autograd.Variable._execution_engine
    result: Sequence[torch.Tensor | None] = engine.run_backward(
        tuple(roots), tuple(seeds), True, False, tuple(targets), allow_unreachable=True, accumulate_grad=False
    )
    return result


class _Ends(torch.autograd.Function):
    """Its nodes lead to where the gradients of its inputs end; nothing is computed with them."""

    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> torch.Tensor:
        return torch.zeros((), device="cpu")


def gradient_edge(tensor: torch.Tensor) -> GradientEdge:
    """The node and the slot that the gradient of a tensor goes to.

    Torch's own function takes a view of a leaf, which sparse and nested tensors refuse and classes of the person's would see.
    """
    plain = type(tensor) in PLAIN
    if (plain and tensor.layout == torch.strided and not tensor.is_nested) or not tensor.is_leaf:
        return get_gradient_edge(tensor)
    over: Any = torch.ops.aten.alias.default if plain and tensor.is_nested else _Ends.apply
    with torch.enable_grad():
        above = over(tensor)  # held until its node has been read: without it torch 2.10 lets go of that
    return GradientEdge(*above.grad_fn.next_functions[0])


graph_task: Any = torch._C._current_graph_task_id
"""Number of the engine's pass that this thread is in; -1 outside of one."""


def newest_graph_task() -> int:
    """Number of a pass that begins, and ends, now: all that begin later have greater ones."""
    seen: list[int] = []
    with torch.enable_grad():
        leaf: Any = torch.zeros((), device="cpu", requires_grad=True)
        leaf.register_hook(lambda _: seen.append(graph_task()))  # fires in a pass that ends right here, at AccumulateGrad
        edge = get_gradient_edge(leaf)
        run_engine([edge], [torch.zeros((), device="cpu")], [edge])
    return max(seen, default=-1)


def version_keeper(tensor: torch.Tensor) -> Any:
    """A context at whose end the tensor's version counter is what it is now."""
    return _autograd._unsafe_preserve_version_counter(tensor)
