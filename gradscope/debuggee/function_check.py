"""Checks the backward of a custom Function: what torch asks of any, and its vjp against differences of its own forward.

The forward is run again in float64 on the inputs of its call, with the RNG where it was, and the new node's backward is compared
with central differences. The recorded step must then say the same as far as its dtype tells.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

from gradscope.debuggee import apply_inputs, node_calls
from gradscope.debuggee.engine import run_engine
from gradscope.debuggee.exactness import same_bits
from gradscope.debuggee.foreign import place_of
from gradscope.debuggee.modes import modes_on
from gradscope.debuggee.node_calls import Gradients
from gradscope.debuggee.node_check import DIFFERENCES, LINEARITY, TOLERANCE, NodeCheck, far, text_of, unknown, verdict, wide
from gradscope.debuggee.record import Cancelled
from gradscope.debuggee.saved_state import Containers, Generators
from gradscope.model.checks import RIGHT, WRONG, CheckRow
from gradscope.model.places import UNKNOWN

RECORDED = "the recorded step against float64"


def check(one: NodeCheck, function: Any) -> str:
    """Add the rows of a custom Function's node; what was run, in words."""
    try:
        one.arrived = node_calls.materialized(one.captured, one.number, one.arrived)
        _contract(one)
        one.linearity()
    except Cancelled:
        raise
    except Exception as error:
        one.rows.append(unknown(LINEARITY, f"the backward raised {text_of(error)}"))
    names = _names(function)
    inputs = apply_inputs.inputs_of(one.node, names)
    if isinstance(inputs, str):
        one.rows.append(unknown(DIFFERENCES, inputs))
        return f"the backward of {function.__name__}{place_of(node_calls.backward_of(function))} on random gradients"
    containers = Containers()
    containers.save_function(function.forward)
    try:
        _differences(one, Again(function, inputs, one.node.needs_input_grad), names)
    except Cancelled:
        raise
    except Exception as error:
        one.rows.append(unknown(DIFFERENCES, f"its forward does not run in float64: {text_of(error)}"))
    finally:
        containers.restore()
    return f"the forward of {function.__name__}.apply{place_of(function.forward)} again in float64"


def _names(function: Any) -> list[str]:
    """The forward's arguments, `ctx` left out."""
    try:
        names = list(inspect.signature(function.forward).parameters)
    except (TypeError, ValueError):
        return []
    return names if function.setup_context is not torch.autograd.Function.setup_context else names[1:]


# ---------------------------------------------------------------- what torch asks of any


def _contract(one: NodeCheck) -> None:
    """What arrives is left as it is, the same again makes the same, and there is one gradient like it for each input."""
    given = one.gradients()
    kept = [None if gradient is None else gradient.clone() for gradient in given]
    returned = one.run(given)
    edited = [slot for slot, pair in enumerate(zip(given, kept, strict=True)) if not _alike(*pair)]
    wrong = f"gradient {edited[0]} was edited in place" if edited else ""
    one.rows.append(verdict("leaves the incoming gradient as it is", wrong))
    again = one.run(kept)
    same = len(returned) == len(again) and all(map(_alike, returned, again))
    one.rows.append(verdict("the same again makes the same", "" if same else "two runs on the same gradient differ"))
    needs = one.node.needs_input_grad
    count = len(returned) >= len(needs) and all(extra is None for extra in returned[len(needs) :])
    one.rows.append(verdict("one gradient for each input", "" if count else f"{len(returned)} gradients for {len(needs)} inputs"))
    one.rows.append(_shapes(one, returned))


def _shapes(one: NodeCheck, returned: Sequence[Any]) -> CheckRow:
    """Each gradient is like its input; torch sums and casts some that are not."""
    wrong: list[str] = []
    remarks: list[str] = []
    for place, edge in needing(one):
        gradient, kind = returned[place] if place < len(returned) else None, one.kind(one.captured.edge_into[edge])
        if gradient is None or kind is None:
            continue
        if not isinstance(gradient, torch.Tensor):
            wrong.append(f"gradient {place} is no tensor but {type(gradient).__name__}")
            continue
        shape, dtype, _ = kind
        if tuple(gradient.shape) != shape:
            fits = _sums_to(tuple(gradient.shape), shape)
            text = f"gradient {place} is {list(gradient.shape)}, the input {list(shape)}"
            (remarks if fits else wrong).append(f"{text}: torch sums it" if fits else text)
        if gradient.dtype != dtype:
            remarks.append(f"gradient {place} is {_short(gradient.dtype)}, the input {_short(dtype)}: torch casts it")
    return verdict("each gradient has its input's shape", "; ".join(wrong), "; ".join(remarks))


def needing(one: NodeCheck) -> list[tuple[int, int]]:
    """The forward's arguments that need a gradient, each with its edge."""
    places = [place for place, needed in enumerate(one.node.needs_input_grad) if needed]
    return list(zip(places, [edge for edge, _ in one.edges if edge != UNKNOWN], strict=False))


# ---------------------------------------------------------------- the forward again


@dataclass
class Again:
    """The forward of a call, run again with floating tensors in float64."""

    function: Any
    arguments: list[Any]
    needs: Sequence[bool]

    def __post_init__(self) -> None:
        self.inputs = [_in_float64(value) for value in self.arguments]
        self._generators = Generators(python=True)

    def run(self, inputs: Sequence[Any], *, graph: bool = False, shifted: bool = False) -> list[Any]:
        """All that it makes, tensors or not. With `graph` its node is made, too; `shifted` draws other random numbers."""
        self._generators.restore()
        if shifted:
            torch.rand(())
        with torch.set_grad_enabled(graph), modes_on():
            given = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
            made = self.function.apply(*given)
        return list(made) if isinstance(made, (tuple, list)) else [made]

    def leaves(self) -> list[Any]:
        """The inputs, those that need a gradient as leaves."""
        return [
            value.clone().requires_grad_() if needed else value for value, needed in zip(self.inputs, self.needs, strict=True)
        ]


def _in_float64(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():
        raise TypeError("complex numbers are not checked")
    value = value.detach()
    return value.to(torch.float64) if value.is_floating_point() else value


def _differences(one: NodeCheck, again: Again, names: list[str]) -> None:
    leaves = again.leaves()
    made = again.run(leaves, graph=True)
    places = [place for place, out in enumerate(made) if isinstance(out, torch.Tensor) and out.requires_grad]
    outputs = [made[place] for place in places]
    if not outputs:
        raise ValueError("none of its outputs needs a gradient")
    given = one.gradients()
    narrow = [given[place] if place < len(given) else None for place in places]
    if any(gradient is None or gradient.shape != out.shape for gradient, out in zip(narrow, outputs, strict=True)):
        raise ValueError("it makes other outputs than in the script")
    weights = [gradient.to(torch.float64) for gradient in narrow if gradient is not None]
    wanted = [place for place, _ in needing(one)]
    edges = [get_gradient_edge(leaves[place]) for place in wanted]
    claims = run_engine(list(map(get_gradient_edge, outputs)), weights, edges)

    def function(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        out = again.run(inputs)
        return [out[place] for place in places]

    plain = again.run(again.inputs)
    for place, claim in zip(wanted, claims, strict=True):
        claim = torch.zeros_like(again.inputs[place]) if claim is None else claim
        name = names[place] if place < len(names) else f"input {place}"
        one.differences(name, function, again.inputs, place, weights, claim, TOLERANCE[torch.float64])
    if not all(map(_alike, plain, again.run(again.inputs, shifted=True))):
        one.rows.append(unknown(RECORDED, "the forward draws random numbers: it cannot be run again with the same"))
        return
    by_slot: list[torch.Tensor | None] = [gradient if slot in places else None for slot, gradient in enumerate(given)]
    one.rows.append(_recorded(one, by_slot, dict(zip(wanted, claims, strict=True))))


def _recorded(one: NodeCheck, gradients: Gradients, claims: dict[int, torch.Tensor | None]) -> CheckRow:
    """The step as it stands in the graph, with what it kept, against the same in float64."""
    gradients = node_calls.materialized(one.captured, one.number, gradients)
    returned = one.run([None if gradient is None else gradient.clone() for gradient in gradients])
    tolerance, worst, where = TOLERANCE[one.dtype], 0.0, ""
    for place, claim in claims.items():
        found = returned[place] if place < len(returned) else None
        if claim is None and found is None:
            continue
        shape = (claim if claim is not None else found).shape  # type: ignore[union-attr]
        expected = torch.zeros(shape, dtype=torch.float64) if claim is None else wide(claim)
        actual = torch.zeros_like(expected) if found is None else wide(found).sum_to_size(expected.shape)
        difference = far(actual, expected)
        if not difference <= worst:
            worst, where = difference, f"gradient {place}"
    right = worst <= tolerance
    why = "" if right else f"{where} is not what the same forward and backward make in float64: what it keeps has changed?"
    return CheckRow(RECORDED, RIGHT if right else WRONG, worst, tolerance, why)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return same_bits(one, other)
    return type(one) is type(other)


def _sums_to(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether torch would sum a gradient of this shape to the other one, as it undoes broadcasting."""
    if len(shape) < len(wanted):
        return False
    tail = shape[len(shape) - len(wanted) :]
    return all(want in (have, 1) for have, want in zip(tail, wanted, strict=True))


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
