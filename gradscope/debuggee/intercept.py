"""The choke point: every backward call of the script goes through here, and nothing of ours shows in its tracebacks.

`backward()` and `autograd.grad()` both call `torch.autograd._engine_run_backward`, a Python function that, with debug logging on,
calls one function before the engine runs and another one after it. We put a copy of that function in its place, made of torch's
own code object, whose globals name our bracket instead of torch's logger: torch's code runs with its own frames, and we are told
before and after. Where a version of torch is built otherwise, a plain wrapper does.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from types import CodeType, FrameType, FunctionType, SimpleNamespace
from typing import Any

import torch

from gradscope.debuggee import sandbox, tensor_hooks
from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.other_passes import note_caller
from gradscope.debuggee.untraced import untraced

After = Callable[[BaseException | None], None]
"""Called when the script's call has run, with the exception it raised."""
OnCall = Callable[[BackwardCall], After | None]
"""Called at each backward call; None lets it pass unobserved."""

_NOTHING = [].clear
"""What the bracket returns when there is nothing to do afterwards: no Python frame."""
_ABOVE = 2
"""How many frames up from an untraced function its caller is."""
_BRACKET = {"log", "_register_logging_hooks_on_whole_graph"}


_ALWAYS_DEBUG = SimpleNamespace(getEffectiveLevel=partial(int, logging.DEBUG))
"""Stands in for torch's logger in the copy: makes it call the bracket. No Python frame."""


class _Thread(threading.local):
    """What must not be seen by other threads' calls."""

    def __init__(self) -> None:
        self.busy = False
        """True while gradscope itself is at work in a call"""
        self.decided: tuple[BackwardCall, After | None] | None = None
        """a call that has stopped before torch looked at its seeds, and goes on to the engine now"""


class Interception:
    """Our patches. `install` puts them in, `uninstall` takes them out again (a forked child does)."""

    def __init__(self, on_call: OnCall) -> None:
        self.on_call = on_call
        self._numbers = count(1)
        self._thread = _Thread()
        self._stop_notes: Callable[[], None] = _NOTHING
        self._running: dict[int, BackwardCall] = {}
        """by thread, once there are several"""
        self._patched: list[tuple[Any, str, Any, Any]] = []

    def install(self) -> None:
        from torch import autograd
        from torch.autograd import graph

        original = graph._engine_run_backward
        self._stop_notes = tensor_hooks.install()
        self._logging_hooks = getattr(graph, "_register_logging_hooks_on_whole_graph", None)
        replacement = self._copied(original, graph) or self._wrapped(original)
        self._patch(graph, "_engine_run_backward", replacement)
        self._patch(autograd, "_engine_run_backward", replacement)
        if hasattr(autograd, "_tensor_or_tensors_to_tuple") and hasattr(autograd, "_make_grads"):
            self._make_grads = autograd._make_grads
            self._patch(autograd, "_tensor_or_tensors_to_tuple", self._seeds_wrapper(autograd._tensor_or_tensors_to_tuple))

    def uninstall(self) -> None:
        for owner, name, original, ours in reversed(self._patched):
            if getattr(owner, name) is ours:
                setattr(owner, name, original)
        self._patched.clear()
        self._stop_notes()

    def _patch(self, owner: Any, name: str, ours: Any) -> None:
        self._patched.append((owner, name, getattr(owner, name), ours))
        setattr(owner, name, ours)

    # ------------------------------------------------------------ the copy

    def _copied(self, original: Any, graph: Any) -> Any:
        """A copy of torch's function with our bracket; None where torch's function has no place for it."""
        code: CodeType | None = getattr(original, "__code__", None)
        if code is None or not _BRACKET.issubset(code.co_names) or code.co_freevars or "args" not in code.co_varnames:
            return None
        self._log = graph.log
        globals_ = {**vars(graph), "log": _ALWAYS_DEBUG, "_register_logging_hooks_on_whole_graph": self._before}
        copy = FunctionType(code, globals_, original.__name__, original.__defaults__, original.__closure__)
        copy.__kwdefaults__ = original.__kwdefaults__
        copy.__dict__.update(original.__dict__)
        copy.__doc__, copy.__qualname__, copy.__module__ = original.__doc__, original.__qualname__, original.__module__
        copy.__annotations__ = original.__annotations__
        return copy

    @untraced
    def _before(self, roots: Sequence[Any]) -> Callable[[], None]:
        """Stands where torch registers its logging hooks; called by the copy, whose frame holds the arguments."""
        torch_after = (
            self._logging_hooks(roots) if self._log.getEffectiveLevel() <= logging.DEBUG and self._logging_hooks else None
        )
        if self._passes(roots):
            if sandbox.trying():
                _keep_graph(sys._getframe(_ABOVE))
            return torch_after or _NOTHING
        frame = sys._getframe(_ABOVE)
        local = frame.f_locals
        try:
            call, after = self._begin(roots, local["args"], local["kwargs"], frame)
        except BaseException:
            if torch_after is not None:
                torch_after()
            raise
        if call is not None and call.edited is not None:
            _set_local(frame, "args", (tuple(call.edited), *local["args"][1:]))
        if after is None:
            return torch_after or _NOTHING
        return self._ending(after, torch_after)

    def _ending(self, after: After, torch_after: Callable[[], None] | None) -> Callable[[], None]:
        outer = sys.exc_info()[1]

        @untraced
        def end() -> None:
            error = sys.exc_info()[1]
            if torch_after is not None:
                torch_after()
            self._finish(after, None if error is outer else error)

        return end

    # ------------------------------------------------------------ the plain wrapper

    def _wrapped(self, original: Any) -> Any:
        def _engine_run_backward(roots: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            if self._passes(roots):
                return original(roots, *(_keeping(args) if sandbox.trying() else args), **kwargs)
            call, after = self._begin(roots, args, kwargs, sys._getframe(0))
            if call is not None and call.edited is not None:
                args = (tuple(call.edited), *args[1:])
            if after is None:
                return original(roots, *args, **kwargs)
            try:
                result = original(roots, *args, **kwargs)
            except BaseException as error:
                self._finish(after, error)
                raise
            self._finish(after, None)
            return result

        return _engine_run_backward

    # ------------------------------------------------------------ what both do

    def _passes(self, roots: Sequence[Any]) -> bool:
        """Calls that are none of the person's: inside a backward pass, while torch traces, and our own."""
        if self._thread.busy or torch._C._current_graph_task_id() != -1:
            return True
        return any((type(root) is not torch.Tensor and _is_wrapper(root)) or _is_functorch(root) for root in roots)

    def _begin(
        self, roots: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any], frame: FrameType
    ) -> tuple[BackwardCall | None, After | None]:
        decided, self._thread.decided = self._thread.decided, None
        if decided is not None:
            return decided
        note_caller()
        seeds, keep_graph, create_graph, inputs = args[:4]
        call = BackwardCall(
            number=next(self._numbers),
            roots=tuple(roots),
            seeds=_one_each(roots, seeds if isinstance(seeds, tuple) else (seeds,)),
            keep_graph=bool(keep_graph),
            create_graph=bool(create_graph),
            inputs=tuple(inputs),
            accumulates=bool(kwargs.get("accumulate_grad", False)),
            frame=frame,
        )
        if not self._running and threading.active_count() == 1:
            return call, self._ask(call)
        self._note_company(call)
        try:
            return call, self._leaving(self._ask(call))
        except BaseException:
            self._running.pop(threading.get_ident(), None)
            raise

    def _note_company(self, call: BackwardCall) -> None:
        """Tell this call of those of other threads, and them of this one."""
        for thread, other in list(self._running.items()):
            if thread != threading.get_ident():
                call.company.append(other.thread)
                other.company.append(call.thread)
        self._running[threading.get_ident()] = call

    def _leaving(self, after: After | None) -> After:
        def left(error: BaseException | None) -> None:
            self._running.pop(threading.get_ident(), None)
            if after is not None:
                after(error)

        return left

    def _ask(self, call: BackwardCall) -> After | None:
        self._thread.busy = True
        try:
            return self.on_call(call)
        finally:
            self._thread.busy = False

    def _finish(self, after: After, error: BaseException | None) -> None:
        self._thread.busy = True
        try:
            after(error)
        finally:
            self._thread.busy = False

    # ------------------------------------------------------------ seeds that torch would refuse

    def _seeds_wrapper(self, original: Any) -> Any:
        """backward() and grad() call this on their seeds right before torch checks them."""

        @untraced
        def _tensor_or_tensors_to_tuple(tensors: Any, length: int) -> Any:
            seeds = original(tensors, length)
            frame = sys._getframe(_ABOVE)
            local = frame.f_locals
            roots = local.get("tensors" if frame.f_code.co_name == "backward" else "outputs")
            if not isinstance(roots, tuple) or _surely_fits(roots, seeds) or self._passes(roots):
                return seeds
            error = self._refusal(roots, seeds, bool(local.get("is_grads_batched", False)))
            if error is None:
                return seeds
            return self._refused(roots, seeds, frame, error)

        return _tensor_or_tensors_to_tuple

    def _refusal(self, roots: Sequence[Any], seeds: Sequence[Any], batched: bool) -> Exception | None:
        """Torch's own error for these seeds, if it has one."""
        self._thread.busy = True
        try:
            self._make_grads(roots, seeds, is_grads_batched=batched)
        except Exception as error:
            return error.with_traceback(None)
        finally:
            self._thread.busy = False
        return _misplaced(roots, seeds)

    def _refused(self, roots: tuple[Any, ...], seeds: Sequence[Any], frame: FrameType, error: Exception) -> Sequence[Any]:
        local = frame.f_locals
        inputs = local.get("inputs_tuple") or ()
        create_graph = bool(local.get("create_graph", False))
        keep = local.get("retain_graph")
        call = BackwardCall(
            number=next(self._numbers),
            roots=roots,
            seeds=_one_each(roots, seeds),
            keep_graph=create_graph if keep is None else bool(keep),
            create_graph=create_graph,
            inputs=tuple(inputs),
            accumulates=frame.f_code.co_name == "backward",
            frame=frame,
            refusal=str(error),
        )
        after = self._ask(call)
        if call.edited is not None or isinstance(error, _EngineError):
            self._thread.decided = call, after
            return seeds if call.edited is None else tuple(call.edited)
        call.release()
        if after is not None:
            self._finish(after, error)
        return seeds


def _surely_fits(roots: Sequence[Any], seeds: Sequence[Any]) -> bool:
    """True where torch will take the seeds, told without running its checks twice; False where they must be run."""
    for root, seed in zip(roots, seeds, strict=False):
        if not isinstance(root, torch.Tensor) or root.is_nested:
            return False
        if seed is None:
            if root.requires_grad and not (root.is_floating_point() and root.numel() == 1):
                return False
        elif not isinstance(seed, torch.Tensor) or _kind(seed) != _kind(root):
            return False
    return True


def _kind(tensor: torch.Tensor) -> tuple[torch.Size, torch.device, bool]:
    return tensor.shape, tensor.device, tensor.is_complex()


def _one_each(roots: Sequence[Any], seeds: Sequence[Any]) -> tuple[torch.Tensor | None, ...]:
    """A seed for each root, whatever the script gave: torch has not looked at it yet, or will refuse it."""
    tensors = [seed if isinstance(seed, torch.Tensor) else None for seed in seeds[: len(roots)]]
    return (*tensors, *[None] * (len(roots) - len(tensors)))


class _EngineError(RuntimeError):
    """What torch's engine, not its check of the seeds, will raise."""


def _misplaced(roots: Sequence[Any], seeds: Sequence[Any]) -> Exception | None:
    """The error for a seed on another device than its root; the engine moves those without dimensions."""
    for place, (root, seed) in enumerate(zip(roots, seeds, strict=False)):
        if isinstance(root, torch.Tensor) and isinstance(seed, torch.Tensor) and seed.device != root.device and seed.dim():
            return _EngineError(f"invalid gradient at index {place} - expected device {root.device} but got {seed.device}")
    return None


def _is_functorch(root: Any) -> bool:
    return isinstance(root, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(root)


def _is_wrapper(root: Any) -> bool:
    """Tensors of a trace: no numbers flow."""
    if not isinstance(root, torch.Tensor):
        return False
    if torch._is_functional_tensor(root):
        return True
    names = {kind.__name__ for kind in type(root).__mro__}
    return not names.isdisjoint({"FakeTensor", "FunctionalTensor"})


def _keep_graph(frame: FrameType) -> None:
    """Make a call inside an exploring pass keep its graph: one that is older than the pass the script's own call needs, too."""
    _set_local(frame, "args", _keeping(frame.f_locals["args"]))


def _keeping(args: Sequence[Any]) -> tuple[Any, ...]:
    seeds, _, *rest = args
    return seeds, True, *rest


def _set_local(frame: FrameType, name: str, value: Any) -> None:
    """Assign a local variable of a running frame, as a debugger does."""
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
