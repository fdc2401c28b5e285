"""Origins by a function mode, on every Python: it reads autograd's number before and after each call of torch."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, FunctionType
from typing import Any

from gradscope.debuggee.fast_path import FastPath
from gradscope.debuggee.occurrences import Line, unsure_by_instruction
from gradscope.debuggee.origin_table import Origins
from gradscope.debuggee.runs import Runs
from gradscope.debuggee.watching import Watcher


class ModeOrigins(Origins):
    """Exact to the expression and the function called. Costs something for each call of torch, nothing beside them."""

    def __init__(self, torch: Any) -> None:
        super().__init__(torch)
        self._depth = 0
        self.note = self._make_note()
        watchers = {
            **self.broadcasts.watchers(),
            **self.writes.watchers(),
            **self.grad_mode.watchers(),
            **self.grad_reads.watchers(),
            **self.boundaries.watchers(),
        }
        self.mode = _make_mode(torch, self.note, watchers, self.boundaries.look, self.writes.gave_out)
        self._fast_path = FastPath(torch, self.mode)
        self.undo.append(_see_custom_functions(torch, self))

    def span(self) -> Callable[[], None]:
        count = self._torch.autograd._get_sequence_nr
        start = count() if self.seeing() else -1

        def end() -> None:
            now = count()
            if 0 <= start < now:
                self.note(start, now, sys._getframe(1), None)

        return end

    def _start(self) -> None:
        if self._depth >= 0:  # else another mode had taken it off, to call what it was asked for
            _put_on(self._torch, self.mode, self._depth)
        self._fast_path.enter()

    def _stop(self) -> None:
        self._fast_path.leave()
        self._depth = _take_off(self._torch, self.mode)

    def _unsure(self, line: Line) -> bool:
        return unsure_by_instruction(line)

    def _make_note(self) -> Callable[[int, int, FrameType, Any], None]:
        """The hot path, with everything it needs at hand: find the place of the frame and append the stretch."""
        where, by_key, intern = self._where, self.places.by_key, self._intern_call
        add, enclose, run = self.spans.add, self.spans.enclose, Runs().number
        latest = 0

        def note(start: int, end: int, frame: FrameType, function: Any) -> None:
            nonlocal latest
            chosen, module, below, called = where(frame)
            key = (id(chosen.f_code), chosen.f_lasti, 0 if module is None else id(module), function, below)
            value = by_key.get(key)
            if value is None:
                value = intern(key, chosen, module, frame, function)
            if start < latest:
                enclose(start, end, value, run(chosen, called))
            else:
                add(start, end, value, run(chosen, called))
            latest = end

        return note


def _make_mode(
    torch: Any,
    note: Callable[[int, int, FrameType, Any], None],
    watchers: Mapping[Any, Watcher],
    made_none: Callable[[Any, tuple[Any, ...], Mapping[str, Any] | None, Any, FrameType], None],
    gave_out: Callable[[Any, Any, FrameType, int], None],
) -> Any:
    """The hot path.

    Args:
        torch: the module.
        note: told of calls that made nodes.
        watchers: told of calls of some functions, whether they made nodes or not.
        made_none: told of calls that made no node, where something may have been cut off.
        gave_out: told of calls with an `out=`.
    """
    number = torch.autograd._get_sequence_nr
    caller = sys._getframe
    watcher_of = watchers.get
    without = frozenset({type(None), bool, int, float, str, torch.Size, torch.dtype, torch.device})

    class OriginMode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            before = number()
            result = func(*args, **kwargs) if kwargs else func(*args)
            after = number()
            if after > before:
                note(before, after, caller(1), func)
            try:  # odd kinds of tensors must not end the script's call
                if after == before and type(result) not in without:
                    made_none(func, args, kwargs, result, caller(1))
                watcher = watcher_of(func)
                if watcher is not None:
                    watcher(func, args, kwargs, result, caller(1), before)
                if kwargs and "out" in kwargs:
                    gave_out(func, kwargs["out"], caller(1), before)
            except Exception:
                return result
            return result

    # Warnings that torch's C++ raises are judged as those of the script's own module, then shown where they belong.
    plain = OriginMode.__torch_function__
    namespace = {"__name__": "__main__", "__builtins__": builtins}
    function: Any = FunctionType(plain.__code__, namespace, plain.__name__, plain.__defaults__, plain.__closure__)
    OriginMode.__torch_function__ = function  # type: ignore[method-assign]
    return OriginMode()


def _see_custom_functions(torch: Any, origins: ModeOrigins) -> Callable[[], None]:
    """`Function.apply` makes its node past the mode: note it where it is called. Returns the way back."""
    apply = vars(torch.autograd.Function)["apply"]
    number = torch.autograd._get_sequence_nr
    note = origins.note

    def seen(frame: FrameType | None) -> None:
        if frame is not None and origins.seeing():
            start = number()
            note(start, start + 1, frame, None)

    if isinstance(apply, classmethod):
        return _see_python_apply(torch._functorch.utils, apply.__func__.__code__, seen)

    def apply_seen(cls: Any, *args: Any, **kwargs: Any) -> Any:
        seen(sys._getframe(1))
        return apply.__get__(None, cls)(*args, **kwargs)

    torch.autograd.Function.apply = classmethod(apply_seen)
    return lambda: setattr(torch.autograd.Function, "apply", apply)


def _see_python_apply(home: Any, apply: CodeType, seen: Callable[[FrameType | None], None]) -> Callable[[], None]:
    """Up to torch 2.13 `apply` is written in Python, and calls this one small function just before it makes the node."""
    original = home.unwrap_dead_wrappers

    def unwrap_dead_wrappers(args: Any) -> Any:
        frame = sys._getframe(1)
        if frame.f_code is apply:
            seen(frame.f_back)
        return original(args)

    home.unwrap_dead_wrappers = unwrap_dead_wrappers
    return lambda: setattr(home, "unwrap_dead_wrappers", original)


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
