"""Hears of optimizers' steps and of zero_grads, without a frame of ours in them.

Steps are told by torch's own global hooks. `zero_grad` is reached through a descriptor that notes who asked for it and gives
torch's method, so the script's call runs torch's code alone. Neither is looked into by torch.compile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

import torch
from torch.optim import optimizer as optimizing

from gradscope.debuggee.moments import Moment
from gradscope.debuggee.optimizers import parameters
from gradscope.debuggee.untraced import skip, untraced

_ABOVE = 3
"""how many frames up from an untraced function the caller is of the one that calls it"""


class Listener(Protocol):
    """Who wants to know."""

    def step_begins(self, optimizer: Any, closure: bool, moment: Moment | None) -> None: ...

    def step_ended(self, optimizer: Any, frame: FrameType) -> None: ...

    def zero_grad_begins(self, owner: Any, moment: Moment | None, cleared: bool) -> None: ...


def watch(listener: Listener) -> Callable[[], None]:
    """Tell of steps and zero_grads from now on. Returns the way back."""

    def before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling():
            note_step(optimizer, args, kwargs)

    @untraced
    def note_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None) is not None
        listener.step_begins(optimizer, closure, Moment.below(sys._getframe(_ABOVE)))

    def after_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling():
            note_end(optimizer)

    @untraced
    def note_end(optimizer: Any) -> None:
        listener.step_ended(optimizer, sys._getframe(_ABOVE))

    skip(before_step.__code__)
    skip(after_step.__code__)
    handles = (
        optimizing.register_optimizer_step_pre_hook(before_step),
        optimizing.register_optimizer_step_post_hook(after_step),
    )
    undo = [_noted(torch.optim.Optimizer, listener, _parameters), _noted(torch.nn.Module, listener, torch.nn.Module.parameters)]

    def back() -> None:
        for handle in handles:
            handle.remove()
        for step in undo:
            step()

    return back


def _parameters(optimizer: Any) -> Any:
    return (tensor for _, _, tensor in parameters(optimizer))


def _noted(owner: Any, listener: Listener, parameters_of: Callable[[Any], Any]) -> Callable[[], None]:
    """Let the class's `zero_grad` be reached through a descriptor that tells of it."""
    original = owner.zero_grad
    noted = _Noted(original, listener, parameters_of)
    owner.zero_grad = noted

    def undo() -> None:
        if vars(owner).get("zero_grad") is noted:
            owner.zero_grad = original

    return undo


class _Noted:
    """`zero_grad` as torch has it, which tells who asked for it."""

    def __init__(self, method: Any, listener: Listener, parameters_of: Callable[[Any], Any]) -> None:
        self._method = method
        self._listener = listener
        self._parameters_of = parameters_of
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._method
        if not torch.compiler.is_compiling():
            self._note(instance)
        return self._method.__get__(instance, owner)

    skip(__get__.__code__)

    @untraced
    def _note(self, instance: Any) -> None:
        try:
            with torch._C.DisableTorchFunction():  # no mode of the script's sees us look
                cleared = any(tensor.grad is not None for tensor in self._parameters_of(instance))
            self._listener.zero_grad_begins(instance, Moment.below(sys._getframe(_ABOVE)), cleared)
        except Exception:  # the script's call must go on, whatever it is called on
            return
