"""Reads of `.grad` where there will never be any: of a tensor that has a graph and was not told to keep its gradient.

Seen by the function mode. Line events (Python 3.12+) do not tell of attributes that are read.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from gradscope.debuggee.person_code import PERSON, kind
from gradscope.debuggee.places import Places
from gradscope.debuggee.watching import PlaceOf, Watcher


@dataclass(frozen=True, slots=True)
class GradReadAt:
    """One such read, by the person's own code."""

    tensor: weakref.ref[Any]
    sequence_nr: int
    """of the node that made the tensor"""
    output_nr: int
    op: str
    """the node's name: `TanhBackward0`"""
    place: int
    """number of the place that read, for `Places.origin`"""
    name: str
    """the variable there: `hidden`, `self.h`; empty where the source does not tell"""


class GradReads:
    """Those of one run."""

    def __init__(self, torch: Any, place_of: PlaceOf, places: Places) -> None:
        self._torch = torch
        self._place_of = place_of
        self._places = places
        self.on_read: Callable[[GradReadAt], None] | None = None
        """Whom to tell, right when it happens, in the script's call. It is told of each read, also the thousandth of a line."""

    def watchers(self) -> dict[Any, Watcher]:
        """Whom to tell of which functions."""
        return {self._torch.Tensor.grad.__get__: self._read}

    def _read(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, result: Any, frame: FrameType, number: int
    ) -> None:
        tensor = args[0]
        if self.on_read is None or kind(frame.f_code.co_filename) != PERSON:
            return
        with self._torch._C.DisableTorchFunctionSubclass():
            if tensor.is_leaf or tensor.retains_grad:
                return
            node = tensor.grad_fn
            if node is None or self._torch._C._current_graph_task_id() != -1:
                return
            place = self._place_of(frame, function)
            told = GradReadAt(
                weakref.ref(tensor), int(node._sequence_nr()), int(tensor.output_nr), node.name(), place, self._name(place)
            )
            self.on_read(told)

    def _name(self, place: int) -> str:
        """`hidden`, of `hidden.grad`."""
        try:
            read: ast.expr = ast.parse(self._places.origin(place).expression, mode="eval").body
        except SyntaxError:
            return ""
        if not isinstance(read, ast.Attribute) or read.attr != "grad":
            return ""
        of = read.value
        plain = of
        while isinstance(plain, ast.Attribute):
            plain = plain.value
        return ast.unparse(of) if isinstance(plain, ast.Name) else ""
