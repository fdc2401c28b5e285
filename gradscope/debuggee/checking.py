"""Checks one node's backward against numbers that do not come from it.

A backward must be linear in what arrives, and must be the vector-Jacobian product of its forward. Torch's own nodes are run on
what they saved (`known_forwards`); a custom Function's forward is run again on the inputs of its call (`function_check`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradscope.debuggee import function_check, node_calls
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.differences import Limits
from gradscope.debuggee.edge_roles import ROLES
from gradscope.debuggee.engine import AccumulateGrad
from gradscope.debuggee.forward_recipes import NotKnown
from gradscope.debuggee.known_forwards import Forward, forward_of
from gradscope.debuggee.node_calls import Gradients
from gradscope.debuggee.node_check import DIFFERENCES, LINEARITY, NodeCheck, tensors_in, text_of, unknown
from gradscope.debuggee.record import Cancelled
from gradscope.debuggee.sandbox import Sandbox
from gradscope.errors import UsageError
from gradscope.model.checks import CheckResult
from gradscope.model.places import UNKNOWN

Poll = Callable[[int], bool]


def check(captured: Captured, number: int, arrived: Gradients | None, poll: Poll | None = None) -> CheckResult:
    """Check the backward of a node.

    Args:
        captured: the graph.
        number: the node.
        arrived: what arrived at its slots in a pass, None for undefined; None where it did not run.
        poll: called with the number of runs so far; True gives up.

    Raises:
        UsageError: there is no such node, or running it by itself would be wrong.
        Cancelled: the person gave it up. Everything is as it was.
    """
    if not 0 <= number < len(captured):
        raise UsageError("there is no such node", f"the graph has {len(captured)}")
    if captured.refusal:
        raise UsageError("this backward cannot be run by itself", captured.refusal)
    node = captured.nodes[number]
    if type(node) is AccumulateGrad:
        return CheckResult(number, "", [unknown(LINEARITY, "a leaf has no backward: its gradient is added to .grad")])
    function = node_calls.custom_function(node)
    if function is not None and node_calls.is_torchs(function):
        return CheckResult(number, "", [unknown(LINEARITY, f"{function.__name__} is a Function of torch's own")])
    with Sandbox(captured), torch.no_grad():
        slots = captured.first_slot[number + 1] - captured.first_slot[number]
        one = NodeCheck(captured, number, [None] * slots if arrived is None else arrived, Limits(poll))
        how = _own(one) if function is None else function_check.check(one, function)
        return CheckResult(number, how, one.rows)


def _own(check: NodeCheck) -> str:
    """One of torch's own nodes: linearity, and differences where the table knows the forward. What was run, in words."""
    check.linearity()
    op = check.captured.ops[check.number]
    try:
        forward, weights, claimed = _again(check, op)
    except NotKnown as error:
        check.rows.append(unknown(DIFFERENCES, str(error)))
        return f"{op} on random gradients"
    except Cancelled:
        raise
    except Exception as error:
        check.rows.append(unknown(DIFFERENCES, text_of(error)))
        return f"{op} on random gradients"
    names = ROLES.get(op, ("self",))
    for edge, slot in check.edges:
        if edge == UNKNOWN:
            continue
        name = names[slot] if slot < len(names) else f"input {slot}"
        claim = claimed[slot] if slot < len(claimed) else None
        claim = torch.zeros_like(forward.inputs[slot]) if claim is None else claim.detach().to("cpu")
        check.differences(name, lambda inputs: tensors_in(forward.call(*inputs)), forward.inputs, slot, weights, claim)
    return f"the forward of {forward.text} again in float64, on what the node saved"


def _again(check: NodeCheck, op: str) -> tuple[Forward, list[torch.Tensor | None], list[Any]]:
    """The forward, the weights of its outputs, and what the backward makes of them.

    Raises:
        NotKnown: the forward cannot be run again.
    """
    kinds = list(map(check.kind, check.slots))
    if not kinds or kinds[0] is None:
        raise NotKnown("torch does not say what this node made")
    if any(kind is not None and kind[1].is_complex for kind in kinds):
        raise NotKnown("complex numbers are not checked")
    shapes = [None if edge == UNKNOWN else check.shape(check.captured.edge_into[edge]) for edge, _ in check.edges]
    forward = forward_of(op, check.node, shapes, kinds[0][0])
    made = tensors_in(forward.call(*forward.inputs))
    if tuple(made[0].shape) != kinds[0][0]:
        raise NotKnown("what was saved does not make the shape that the forward made")
    given = check.gradients()
    weights = [None if one is None else one.to("cpu", torch.float64) for one in given]
    return forward, weights[: len(made)], check.run(given)
