"""A node's forward, run again on the very numbers that it had: from what it saved, and from what is known of its inputs."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

import torch

from gradscope.debuggee import frame_locals
from gradscope.debuggee.edge_roles import ROLES
from gradscope.debuggee.forward_recipes import NotKnown, Saved, Shape
from gradscope.debuggee.known_forwards import recipe_of
from gradscope.debuggee.node_check import tensors_in
from gradscope.model.places import Origin

Value = torch.Tensor | float
_OTHER_NUMBERS = ("MaskedFillBackward0",)
"""whose recipe has the right derivative and another result: the number that is filled in was not saved"""


class Actual(Saved):
    """Reads what a node has saved as it is, and gives no number that was not there.

    Args:
        node: one of torch's own.
        kept: the tensors that it saved, by name, read past hooks and checkpoint.
        inputs: for each slot of its edges the input where it is known; a number where it was one.
        shapes, out: as in `Saved`.
    """

    def __init__(
        self,
        node: Any,
        kept: Mapping[str, torch.Tensor],
        inputs: Sequence[Value | None],
        shapes: Sequence[Shape | None],
        out: Shape,
    ) -> None:
        super().__init__(node, shapes, out)
        self._kept, self._inputs = kept, inputs

    def __getattr__(self, name: str) -> Any:
        kept = self.__dict__.get("_kept", {})
        if name in kept:
            return kept[name].detach()
        if hasattr(type(self.node), f"_raw_saved_{name}"):
            return None  # a tensor that is not there, or must not be asked for
        return super().__getattr__(name)

    def any(self, slot: int, shape: Shape | None = None) -> torch.Tensor:
        """The input itself; of an empty one there is but one."""
        value = self._inputs[slot] if slot < len(self._inputs) else None
        if value is None:
            shape = self.shapes[slot] if shape is None and slot < len(self.shapes) else shape
            if shape is None or 0 not in shape:
                raise NotKnown("an input is not known")
            return torch.zeros(shape)
        return value  # type: ignore[return-value]  # a number does as well


def run_again(op: str, saved: Actual, dtype: torch.dtype) -> list[torch.Tensor]:
    """What the node's forward makes of its inputs; empty where that cannot be told."""
    recipe = recipe_of(op)
    if recipe is None or op in _OTHER_NUMBERS:
        return []
    try:
        call, inputs = recipe(saved)
        with torch.no_grad():
            return tensors_in(call(*(_cast(one, dtype) for one in inputs)))
    except Exception:  # not known, or not so in this version of torch
        return []


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """Recipes make what is missing in float64."""
    made = isinstance(value, torch.Tensor) and value.dtype == torch.float64 != dtype
    return value.to(dtype) if made else value


def operands(op: str, count: int, origin: Origin | None, frame: FrameType | None) -> list[Value | None]:
    """The operands of `a + b` as the line has them: numbers, and variables of the frame that was running it, if it still is.

    Args:
        op: of the node that it made.
        count: of the node's slots.
        origin: where it was made.
        frame: the person's, at the call.
    """
    found: list[Value | None] = [None] * count
    expression = "" if origin is None else origin.expression or origin.code
    if len(ROLES.get(op, ())) != 2 or count != 2 or not expression:
        return found
    with suppress(SyntaxError):
        parsed = ast.parse(expression.strip(), mode="eval").body
        if isinstance(parsed, ast.BinOp):
            return [_operand(one, origin, frame) for one in (parsed.left, parsed.right)]
    return found


def _operand(written: ast.expr, origin: Origin | None, frame: FrameType | None) -> Value | None:
    with suppress(ValueError, SyntaxError):
        number = ast.literal_eval(written)
        return float(number) if isinstance(number, (int, float)) else None
    if not isinstance(written, ast.Name) or frame is None or origin is None:
        return None
    while frame is not None:
        code = frame.f_code
        if code.co_filename == origin.file and getattr(code, "co_qualname", code.co_name) == origin.function:
            value = frame_locals.variables(frame).get(written.id)
            plain = isinstance(value, torch.Tensor) and not value.requires_grad
            return value if plain or type(value) in (int, float) else None
        frame = frame.f_back
    return None
