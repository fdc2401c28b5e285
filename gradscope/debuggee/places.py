"""The places in the code that made nodes, each kept once: no frame and no tensor is held, modules weakly."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from gradscope.debuggee import library_frames, statements
from gradscope.debuggee.code_position import function_of, position
from gradscope.debuggee.made_by import expression_that_made
from gradscope.debuggee.torch_functions import function_name
from gradscope.model.places import Origin

Key = tuple[Any, ...]
"""(what tells the line, id of the module or 0, …): hashable, and only of numbers and of things that live anyway"""


@dataclass(slots=True)
class Place:
    """One call site. Either its instruction is known, or no more than its line."""

    code: CodeType
    instruction: int
    """-1 where only the line is known"""
    line: int
    """0 where the instruction tells"""
    module: weakref.ref[Any] | None
    module_type: str
    outermost: weakref.ref[Any] | None
    function: Any
    after: int = -1
    """with a line alone: the instruction of the call that had returned before"""
    below: tuple[tuple[CodeType, int], ...] = ()
    """the frames between it and torch, outermost first: code, and instruction (else `~line`, which is negative)"""
    origins: dict[tuple[str, bool], Origin] = field(default_factory=dict)
    """by the op, and whether it came last, where that matters"""


class Places:
    """All places of one run, by number."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.module_call: CodeType = torch.nn.Module._wrapped_call_impl.__code__
        self.by_key: dict[Key, int] = {}
        self._places: list[Place] = []
        self._keys_of_module: dict[int, list[Key]] = {}
        self._module_references: dict[int, weakref.ref[Any]] = {}
        self._module_path: Callable[[Any], str] = _class_name

    def intern(
        self,
        key: Key,
        frame: FrameType,
        module: Any,
        *,
        line: int = 0,
        after: int = -1,
        function: Any = None,
        below: tuple[tuple[CodeType, int], ...] = (),
    ) -> int:
        """The number of a new place, known by this key from now on.

        Args:
            key: what tells it from other places, the module among it.
            frame: the person's frame.
            module: the innermost module at work there, or None.
            line: given where the instruction of the frame does not say what made the nodes.
            after: with a line, the instruction of the call that had returned before.
            function: of torch's, where known.
            below: the frames between this one and torch, outermost first.
        """
        outermost = None
        if module is not None:
            self._watch(module, key)
            outermost = _outermost_module(frame, self.module_call) or module
        self._places.append(
            Place(
                frame.f_code,
                -1 if line else frame.f_lasti,
                line,
                None if module is None else weakref.ref(module),
                type(module).__name__ if module is not None else "",
                None if outermost is None else weakref.ref(outermost),
                function,
                after,
                below,
            )
        )
        index = self.by_key[key] = len(self._places) - 1
        return index

    def place(self, index: int) -> Place:
        return self._places[index]

    def origin(self, index: int, op: str = "", last: bool = False) -> Origin:
        """The place as it is told. Its text is read from the file at the first time.

        Args:
            index: the number of the place.
            op: name of the node, which helps to find the expression where Python does not tell: `MulBackward0`.
            last: whether it is the last node that one run of the line made.
        """
        place = self._places[index]
        known = place.origins.get((op, last)) or place.origins.get(("", False))
        if known is None:
            known = self._describe(place, op, last)
        return known

    @contextmanager
    def naming_modules(self, path: Callable[[Any], str]) -> Iterator[None]:
        """Within, a module's path is what this says. Nothing of it is kept."""
        for place in self._places:
            if place.module is not None:
                place.origins.clear()
        self._module_path = path
        try:
            yield
        finally:
            self._module_path = _class_name

    def modules(self) -> list[Any]:
        """The live modules that were called from outside any other: the roots that module paths start from."""
        found: dict[int, Any] = {}
        for place in self._places:
            module = place.outermost() if place.outermost is not None else None
            if module is not None:
                found[id(module)] = module
        return list(found.values())

    def _describe(self, place: Place, op: str, last: bool) -> Origin:
        code = place.code
        line, span = (place.line, None) if place.line else position(code, place.instruction)
        guessed = span is None
        if guessed:
            after = position(code, place.after)[1] if place.after >= 0 else None
            span = expression_that_made(code.co_filename, line, op, last, after)
        made_by = statements.statement(code.co_filename, line, span[2] if span else None)
        whole = span is not None and made_by.node is not None and statements.makes_result(made_by.node, span)
        augmented = isinstance(made_by.node, ast.AugAssign)
        if guessed and augmented and op == "CopySlices":
            whole = False  # of the part that is operated on, or of the tensor that it is put back into: not told
        module = place.module() if place.module is not None else None
        found = Origin(
            file=code.co_filename,
            line=line,
            function=function_of(code),
            module="" if module is None else self._module_path(module),
            module_type=place.module_type,
            torch_function="" if place.function is None else function_name(self._torch, place.function),
            code=made_by.code,
            expression="" if span is None else statements.expression(code.co_filename, span),
            target=statements.name_of_result(made_by.node, span, op) if whole and made_by.node and span else "",
            frames=library_frames.told(place.below),
        )
        by_op = guessed or augmented
        place.origins[(op, last) if by_op else ("", False)] = found
        return found

    def _watch(self, module: Any, key: Key) -> None:
        """When the module dies its id may be given to another: forget the keys that hold it."""
        number = id(module)
        self._keys_of_module.setdefault(number, []).append(key)
        if number not in self._module_references:

            def died(_: object) -> None:
                for dead in self._keys_of_module.pop(number, ()):
                    self.by_key.pop(dead, None)
                self._module_references.pop(number, None)

            self._module_references[number] = weakref.ref(module, died)


def _class_name(module: Any) -> str:
    return type(module).__name__


def _outermost_module(frame: FrameType | None, module_call: CodeType) -> Any:
    found = None
    while frame is not None:
        if frame.f_code is module_call:
            found = frame.f_locals["self"]
        frame = frame.f_back
    return found
