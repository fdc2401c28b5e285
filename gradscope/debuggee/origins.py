"""Which forward call made each node of a backward graph.

Autograd numbers the nodes of a thread as it makes them. A function mode reads that number before and after each call of torch
and notes, for the numbers in between, the place in the person's code; a node is looked up by its own number later. Nothing
of a node or a tensor is touched or kept.
"""

from __future__ import annotations

import builtins
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

from gradscope.debuggee import optimizers, person_code, statements
from gradscope.debuggee.compiled_code import see_compiled
from gradscope.debuggee.fast_path import FastPath
from gradscope.debuggee.hidden_frames import hide
from gradscope.debuggee.spans import Spans
from gradscope.model.columns import Origin

_SEARCHED = 100
"""How many frames above the person's are searched for the module: deep recursion must not make each call slower and slower."""


@dataclass(slots=True)
class _Place:
    """What is kept of one call site: no frame, no tensor, modules weakly."""

    code: CodeType
    instruction: int
    module: weakref.ref[Any] | None
    module_type: str
    outermost: weakref.ref[Any] | None
    function: Any
    origin: Origin | None = None


class Origins:
    """The table of origins of one run. Made by `install`."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.spans = Spans()
        self._places: list[_Place] = []
        self._by_key: dict[tuple[int, int, int, Any], int] = {}
        self._keys_of_module: dict[int, list[tuple[int, int, int, Any]]] = {}
        self._module_references: dict[int, weakref.ref[Any]] = {}
        self._module_path: Callable[[Any], str] = _class_name
        self.note = self._make_note()
        self.mode = _make_mode(torch, self.note)
        self._fast_path = FastPath(torch, self.mode)
        self._paused = 1
        self._depth = 0
        self._thread = threading.get_ident()
        self.undo: list[Callable[[], None]] = []

    def lookup(self, sequence_nr: int) -> Origin | None:
        """The origin of the node with this number in the main thread, or None when nobody saw it being made."""
        index = self.index(sequence_nr)
        return None if index < 0 else self.origin(index)

    def index(self, sequence_nr: int) -> int:
        """The number of the origin, for those who keep columns; -1 for none."""
        return -1 if self._elsewhere() else self.spans.find(sequence_nr)

    def origin(self, index: int) -> Origin:
        """The origin with this number; its text is read from the file at the first time."""
        place = self._places[index]
        if place.origin is None:
            place.origin = self._describe(place)
        return place.origin

    @contextmanager
    def naming_modules(self, path: Callable[[Any], str]) -> Iterator[None]:
        """Within, a module's path is what this says: `Names(frame, origins.modules()).module`. Nothing of it is kept."""
        for place in self._places:
            if place.module is not None:
                place.origin = None
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

    def pause(self) -> None:
        """See nothing until the matching `resume`: while gradscope itself computes, and inside compiled code."""
        if self._elsewhere():
            return
        self._paused += 1
        if self._paused == 1:
            self._fast_path.leave()
            self._depth = _take_off(self._torch, self.mode)

    def resume(self) -> None:
        if self._elsewhere():
            return
        self._paused -= 1
        if self._paused == 0:
            if self._depth >= 0:  # else another mode had taken it off, to call what it was asked for
                _put_on(self._torch, self.mode, self._depth)
            self._fast_path.enter()

    def remove(self) -> None:
        """Undo everything; what was noted stays known."""
        if self._paused == 0:
            self.pause()
        self._paused = 1 << 30
        for undo in reversed(self.undo):
            undo()
        self.undo.clear()

    def span(self) -> Callable[[], None]:
        """Give all nodes made between now and the call of the result to the person's line above whoever calls the result."""
        count = self._torch.autograd._get_sequence_nr
        start = count() if self.seeing() else -1

        def end() -> None:
            now = count()
            if 0 <= start < now:
                self.note(start, now, sys._getframe(1), None)

        return end

    def seeing(self) -> bool:
        """Whether calls made here and now are noted."""
        return self._paused == 0 and not self._elsewhere()

    def _elsewhere(self) -> bool:
        """Whether this is another thread: it has numbers and a mode stack of its own."""
        return threading.get_ident() != self._thread

    def _make_note(self) -> Callable[[int, int, FrameType, Any], None]:
        """The hot path, with everything it needs at hand: find the place of the frame and append the stretch."""
        call_impl = self._torch.nn.Module._call_impl.__code__
        kinds, kind, by_key, intern = person_code.kinds(), person_code.kind, self._by_key, self._intern
        spans = self.spans
        starts, ends, values = spans.starts, spans.ends, spans.values
        add_start, add_end, add_value = starts.append, ends.append, values.append
        person, library = person_code.PERSON, person_code.LIBRARY
        searched = range(_SEARCHED)
        latest = 0
        check_at = spans.most

        def note(start: int, end: int, frame: FrameType, function: Any) -> None:
            nonlocal latest, check_at
            at: FrameType | None = frame
            chosen = module = None
            while at is not None:
                code = at.f_code
                whose = kinds.get(code.co_filename) or kind(code.co_filename)
                if whose == person:
                    chosen = at
                    break
                if whose == library:
                    chosen = chosen or at
                elif code is call_impl and module is None:
                    module = at.f_locals["self"]
                at = at.f_back
            if chosen is None:
                chosen = frame
            if module is None:
                at = chosen.f_back
                for _ in searched:
                    if at is None:
                        break
                    if at.f_code is call_impl:
                        module = at.f_locals["self"]
                        break
                    at = at.f_back
            key = (id(chosen.f_code), chosen.f_lasti, 0 if module is None else id(module), function)
            value = by_key.get(key)
            if value is None:
                value = intern(key, chosen, module, function)
            if start < latest:
                spans.enclose(start, end, value)
            else:
                add_start(start)
                add_end(end)
                add_value(value)
            latest = end
            if end > check_at:
                if len(starts) > spans.most:
                    spans.forget_half()
                check_at = end + spans.most // 2

        return note

    def _intern(self, key: tuple[int, int, int, Any], frame: FrameType, module: Any, function: Any) -> int:
        outermost = None
        if module is not None:
            self._watch(module, key)
            outermost = _outermost_module(frame, self._torch.nn.Module._call_impl.__code__) or module
        self._places.append(
            _Place(
                frame.f_code,
                frame.f_lasti,
                None if module is None else weakref.ref(module),
                type(module).__name__ if module is not None else "",
                None if outermost is None else weakref.ref(outermost),
                function,
            )
        )
        index = self._by_key[key] = len(self._places) - 1
        return index

    def _watch(self, module: Any, key: tuple[int, int, int, Any]) -> None:
        """When the module dies its id may be given to another: forget the keys that hold it."""
        number = id(module)
        self._keys_of_module.setdefault(number, []).append(key)
        if number not in self._module_references:

            def died(_: object) -> None:
                for dead in self._keys_of_module.pop(number, ()):
                    self._by_key.pop(dead, None)
                self._module_references.pop(number, None)

            self._module_references[number] = weakref.ref(module, died)

    def _describe(self, place: _Place) -> Origin:
        code = place.code
        line, span = position(code, place.instruction)
        made_by = statements.statement(code.co_filename, line, span[2] if span else None)
        target = made_by.target
        if target and span is not None and made_by.node is not None and not statements.makes_result(made_by.node, span):
            target = ""
        module = place.module() if place.module is not None else None
        return Origin(
            file=code.co_filename,
            line=line,
            function=getattr(code, "co_qualname", code.co_name),
            module="" if module is None else self._module_path(module),
            module_type=place.module_type,
            torch_function="" if place.function is None else function_name(self._torch, place.function),
            code=made_by.code,
            expression="" if span is None else statements.expression(code.co_filename, span),
            target=target,
        )


def install(torch: Any) -> Origins:
    """Begin to note origins on this thread."""
    origins = Origins(torch)
    mode_function = type(origins.mode).__torch_function__
    origins.undo += [
        hide(mode_function.__code__, mode_function.__globals__),
        _see_custom_functions(torch, origins),
        see_compiled(origins),
        optimizers.watch(torch),
    ]
    origins.resume()
    return origins


def position(code: CodeType, instruction: int) -> tuple[int, statements.Span | None]:
    """Line of an instruction (`f_lasti`) and, on Python 3.11+, the span of the expression it belongs to."""
    if hasattr(code, "co_positions"):
        for offset, found in enumerate(code.co_positions()):
            if offset * 2 == instruction:
                line, end_line, column, end_column = found
                if line is None:
                    break
                if end_line is None or column is None or end_column is None:
                    return line, None
                return line, (line, end_line, column, end_column)
        return code.co_firstlineno, None
    best = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            best = line
    return best, None


def function_name(torch: Any, function: Any) -> str:
    """The public name of a function as the mode was given it: `torch.sin`, `Tensor.sin`, `torch.nn.functional.linear`."""
    name = getattr(function, "__name__", type(function).__name__)
    if name == "__get__":
        return f"Tensor.{getattr(getattr(function, '__self__', None), '__name__', '?')}"
    for prefix, holder in (("torch.nn.functional", torch.nn.functional), ("torch", torch), ("Tensor", torch.Tensor)):
        if vars(holder).get(name) is function or getattr(holder, name, None) is function:
            return f"{prefix}.{name}"
    for part in ("linalg", "special", "fft"):
        if getattr(getattr(torch, part, None), name, None) is function:
            return f"torch.{part}.{name}"
    owner = getattr(function, "__objclass__", None)
    return f"Tensor.{name}" if owner is not None else f"torch.{name}"


def _make_mode(torch: Any, note: Callable[[int, int, FrameType, Any], None]) -> Any:
    number = torch.autograd._get_sequence_nr
    caller = sys._getframe

    class OriginMode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            before = number()
            result = func(*args, **kwargs) if kwargs else func(*args)
            after = number()
            if after > before:
                note(before, after, caller(1), func)
            return result

    # Warnings that torch's C++ raises are judged as those of the script's own module, then shown where they belong.
    plain = OriginMode.__torch_function__
    namespace = {"__name__": "__main__", "__builtins__": builtins}
    function: Any = FunctionType(plain.__code__, namespace, plain.__name__, plain.__defaults__, plain.__closure__)
    OriginMode.__torch_function__ = function  # type: ignore[method-assign]
    return OriginMode()


def _see_custom_functions(torch: Any, origins: Origins) -> Callable[[], None]:
    """`Function.apply` makes its node past the mode. It calls this one small function of torch's just before: note it there."""
    home = torch._functorch.utils
    original = home.unwrap_dead_wrappers
    number = torch.autograd._get_sequence_nr
    note = origins.note
    apply = torch.autograd.Function.apply.__func__.__code__

    def unwrap_dead_wrappers(args: Any) -> Any:
        frame = sys._getframe(1)
        if frame.f_code is apply and frame.f_back is not None and origins.seeing():
            start = number()
            note(start, start + 1, frame.f_back, None)
        return original(args)

    home.unwrap_dead_wrappers = unwrap_dead_wrappers
    return lambda: setattr(home, "unwrap_dead_wrappers", original)


def _class_name(module: Any) -> str:
    return type(module).__name__


def _outermost_module(frame: FrameType | None, call_impl: CodeType) -> Any:
    found = None
    while frame is not None:
        if frame.f_code is call_impl:
            found = frame.f_locals["self"]
        frame = frame.f_back
    return found


def _take_off(torch: Any, mode: Any) -> int:
    """Take the mode out of the stack, wherever it is: its index, or -1 when it is not there."""
    above = []
    index = -1
    while torch._C._len_torch_function_stack():
        top = torch._C._pop_torch_function_stack()
        if top is mode:
            index = torch._C._len_torch_function_stack()
            break
        above.append(top)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)
    return index


def _put_on(torch: Any, mode: Any, index: int) -> None:
    """Put the mode back at its index; never below the default device's mode, which torch wants at the bottom."""
    stack = [torch._C._pop_torch_function_stack() for _ in range(torch._C._len_torch_function_stack())][::-1]
    index = max(index, 0)
    if stack and index == 0 and type(stack[0]).__name__ == "DeviceContext":
        index = 1
    stack.insert(index, mode)
    for each in stack:
        torch._C._push_on_torch_function_stack(each)
