"""Runs the backward of one node by hand, on gradients that a pass has recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from gradscope.debuggee.capture import Captured
from gradscope.debuggee.engine import run_engine
from gradscope.model.columns import TapeColumns
from gradscope.model.places import UNKNOWN
from gradscope.model.tensors import NO_TENSOR

Gradients = Sequence[torch.Tensor | None]


def custom_function(node: Any) -> Any:
    """The class that a person derived from `autograd.Function`; None for torch's own nodes."""
    return getattr(type(node), "_forward_cls", None) if isinstance(node, torch.autograd.function.BackwardCFunction) else None


def is_torchs(function: Any) -> bool:
    """A Function of torch's own: compiled code, checkpoint, hooks of modules. They rely on how the engine calls them."""
    return str(function.__module__).split(".")[0] == "torch"


def backward_of(function: Any) -> Any:
    """What torch calls for the backward of such a class: `vjp` where it has one of its own, else `backward`."""
    base = torch.autograd.Function
    return function.vjp if getattr(function, "vjp", base.vjp) is not base.vjp else function.backward


def backward_code(function: Any) -> CodeType | None:
    """The person's own code of it, below torch's decorators (`once_differentiable`, `custom_bwd`)."""
    return getattr(inspect.unwrap(backward_of(function)), "__code__", None)


def arrived_tensors(captured: Captured, tape: TapeColumns, node: int) -> list[int] | None:
    """Numbers of the tensors that arrived at a node's slots in a pass, NO_TENSOR for undefined; None where it was not reached.

    Of a node that ended the pass no arrival is noted: what was delivered to it had been added up, and its hooks come after that.
    """
    slots = captured.first_slot[node + 1] - captured.first_slot[node]
    found = [NO_TENSOR] * slots
    steps = memoryview(tape.step_node).cast("i").tolist()
    if node in steps:
        step = steps.index(node) + 1
        arrivals = (tape.arrival_step, tape.arrival_input_nr, tape.arrival_tensor)
        for at, input_nr, tensor in zip(*(memoryview(column).cast("i") for column in arrivals), strict=True):
            if at == step and input_nr < slots:
                found[input_nr] = tensor
        return found
    if tape.failure is None or tape.failure.node != node:
        return None
    roots = [(tape.root, tape.root_input_nr)] if tape.root != UNKNOWN else [(one.node, one.input_nr) for one in captured.roots]
    contributions = (tape.contribution_edge, tape.contribution_so_far)
    for edge, so_far in zip(*(memoryview(column).cast("i") for column in contributions), strict=True):
        to, input_nr = roots[-1 - edge] if edge < 0 else (captured.edge_target[edge], captured.edge_input_nr[edge])
        if to == node:
            found[input_nr] = so_far
    return found


class _Probed(BaseException):
    """Ends a pass as soon as it is seen what the backward is handed."""


def materialized(captured: Captured, number: int, gradients: Gradients) -> list[torch.Tensor | None]:
    """The gradients as the engine hands them to a custom Function: zeros for undefined, unless the Function wants None.

    A Function's wish cannot be read from its node, so the engine is asked: it runs the node with a stand-in for its backward.
    """
    if all(gradient is not None for gradient in gradients) or all(gradient is None for gradient in gradients):
        return list(gradients)
    node = captured.nodes[number]
    function = custom_function(node)
    name = "vjp" if backward_of(function) is getattr(function, "vjp", None) else "backward"
    seen: list[Any] = []

    def stand_in(ctx: Any, *handed: Any) -> None:
        seen.extend(handed)
        raise _Probed

    own = vars(function).get(name)
    setattr(function, name, staticmethod(stand_in))
    try:
        given = [(GradientEdge(node, input_nr), gradient) for input_nr, gradient in enumerate(gradients) if gradient is not None]
        run_engine([edge for edge, _ in given], [gradient for _, gradient in given], [_target(node)])
    except _Probed:
        pass
    finally:
        if own is None:
            delattr(function, name)
        else:
            setattr(function, name, own)
    kept = iter(gradients)
    return [gradient if gradient is not None or handed is None else handed for gradient, handed in zip(kept, seen, strict=True)]


def _target(node: Any) -> GradientEdge:
    edge = next(((target, input_nr) for target, input_nr in node.next_functions if target is not None), None)
    return get_gradient_edge(torch.zeros((), requires_grad=True)) if edge is None else GradientEdge(*edge)


def run_node(node: Any, gradients: Gradients) -> list[Any]:
    """What the node's backward returns: a gradient for each argument of the forward, of torch's own nodes for each edge."""
    call: Callable[..., Any] = node.apply if custom_function(node) is not None else node
    result = call(*gradients)
    return list(result) if isinstance(result, tuple) else [result]


def input_edges(captured: Captured, number: int) -> list[tuple[int, int]]:
    """For each tensor that the node's forward took: its edge (UNKNOWN where it needs no gradient), and the edge's slot."""
    slots = [UNKNOWN] * len(captured.nodes[number].next_functions)
    for edge in range(captured.first_edge[number], captured.first_edge[number + 1]):
        slots[captured.edge_slot[edge]] = edge
    return [(edge, slot) for slot, edge in enumerate(slots)]
