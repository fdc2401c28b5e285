"""What an optimizer's step finds: which parameters have a gradient, who else holds them, and which calls came before."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch

from gradscope.debuggee import optimizers
from gradscope.debuggee.gradients import held_by, is_empty
from gradscope.debuggee.history import History
from gradscope.debuggee.names import Names
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.timeline import CallEvent, StepEvent, Timeline, ZeroEvent
from gradscope.model.facts import StepFacts, SteppedParameter

_CALLS = 8
"""calls told, the last ones"""


def step_facts(
    optimizer: Any, event: StepEvent, number: int, since: int, never: set[int], history: History, origins: Origins
) -> StepFacts:
    """Look at all parameters of an optimizer that is about to step.

    Args:
        optimizer: which.
        event: the step.
        number: which step of the optimizer it is, from 1.
        since: tick of its step before.
        never: ids of the parameters that had no gradient at this step and all before.
        history: what happened so far.
        origins: knows modules.
    """
    lost = _lost([tensor for tensor in _wanting(optimizer) if id(tensor) in never], sys._getframe(1))
    tensors = _wanting(optimizer)
    timeline = history.timeline
    last = timeline.last_call()
    zero = None if last is None else _cleared_since(last, tensors, timeline)
    named = Names(sys._getframe(1), origins.modules(), tensors).leaves(tensors)
    return StepFacts(
        event.name,
        None if event.moment is None else event.moment.origin,
        number,
        tuple(
            SteppedParameter(name.name, _gradient(tensor, zero is not None), id(tensor) not in never, id(tensor) not in lost)
            for tensor, name in zip(tensors, named, strict=True)
        ),
        tuple(one.told() for one in timeline.calls if since < one.tick < event.tick)[-_CALLS:],
        0 if last is None else last.number,
        None if zero is None or zero.moment is None else zero.moment.origin,
    )


def _cleared_since(call: CallEvent, tensors: Sequence[Any], timeline: Timeline) -> ZeroEvent | None:
    """The last zero_grad after a call that cleared gradients of these, or of others beside them."""
    wanted = set(map(id, tensors))
    return next((one for one in timeline.zeros_after(call.tick) if one.cleared and wanted & held_by(one.owner())), None)


def _wanting(optimizer: Any) -> list[Any]:
    """Its parameters that are not frozen, each once."""
    tensors = {id(tensor): tensor for _, _, tensor in optimizers.parameters(optimizer) if tensor.requires_grad}
    return list(tensors.values())


def _gradient(tensor: Any, cleared: bool) -> str:
    if tensor.grad is None:
        return "none"
    return "zero" if cleared and is_empty(tensor.grad) else "some"


def _lost(tensors: Sequence[Any], frame: FrameType) -> set[int]:
    """The ids of those that nothing but optimizers holds."""
    if not tensors:
        return set()
    elsewhere = _held_elsewhere(tensors)
    names = Names(frame)  # made now, as it holds them itself
    variables = {id(tensor): names.tensor(tensor) for tensor in tensors}
    return {number for number, name in variables.items() if number not in elsewhere and (not name or _is_optimizers(name))}


def _is_optimizers(name: str) -> bool:
    """Whether a variable holds it by way of an optimizer: `opt.param_groups[0]['params'][2]`."""
    return ".param_groups[" in name or ".state[" in name


def _held_elsewhere(tensors: Sequence[Any]) -> set[int]:
    """The ids of those that something holds which the garbage collector knows of, optimizers and our own work apart."""
    ours = {id(tensors), *_parts_of_optimizers()}
    wanted = set(map(id, tensors))
    held: set[int] = set()
    for holder in gc.get_referrers(*tensors):
        if id(holder) not in ours and not isinstance(holder, FrameType):
            held |= wanted.intersection(map(id, gc.get_referents(holder)))
    return held


def _parts_of_optimizers() -> Iterator[int]:
    """The ids of what holds the parameters in every optimizer."""
    for optimizer in optimizers.all_of_them(torch):
        attributes = getattr(optimizer, "__dict__", {})
        yield id(attributes.get("state"))
        for group in attributes.get("param_groups", ()):
            yield id(group.get("params"))
