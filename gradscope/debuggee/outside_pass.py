"""Finds what is wrong outside a backward pass: steps of optimizers that find no gradient, reads of `.grad` where there is none.

It runs in the script's own calls, so it is quick where nothing is wrong: a step is looked into only where it finds no gradient at
all, or where some parameter has never had one, and each line is told of once.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from gradscope.debuggee import optimizer_events, sandbox
from gradscope.debuggee.grad_read_facts import grad_read
from gradscope.debuggee.grad_reads import GradReadAt
from gradscope.debuggee.gradients import is_empty
from gradscope.debuggee.history import History
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.moments import Moment
from gradscope.debuggee.optimizers import parameters
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.step_facts import step_facts
from gradscope.debuggee.timeline import StepEvent
from gradscope.findings import Finding
from gradscope.findings.nonleaf import nonleaf_grad
from gradscope.findings.steps import orphans, step_without_gradient
from gradscope.protocol import messages as m

if TYPE_CHECKING:
    from gradscope.debuggee.serve import Server

_WITHOUT_CALL = 2
"""The step that is looked into though no backward call came before: one alone makes schedulers content."""
_PATIENCE = 10
"""Steps after which a parameter that never had a gradient is looked into once more."""


@dataclass(slots=True)
class _Optimizer:
    """What is remembered of one."""

    reference: weakref.ref[Any]
    steps: int = 0
    last: int = 0
    """tick of its last step"""
    never: list[weakref.ref[Any]] = field(default_factory=list)
    """its parameters that had no gradient at any step so far"""


class OutsidePass:
    """Watches from the import of torch on, until `remove`."""

    def __init__(self, server: Server, history: History, origins: Origins) -> None:
        self._server, self._history, self._origins = server, history, origins
        self._optimizers: dict[int, _Optimizer] = {}
        self._stepping = False
        """the origins see nothing of a step that is running"""
        self._told: set[tuple[str, Any]] = set()
        origins.grad_reads.on_read = self._read
        self._unwatch = optimizer_events.watch(self)

    def remove(self) -> None:
        """Watch no more."""
        self._unwatch()
        self._origins.grad_reads.on_read = None

    def go_on(self) -> None:
        """The script is past any step, also past one that raised."""
        if self._stepping:
            self._stepping = False
            self._origins.resume()

    # ------------------------------------------------------------ optimizers

    def zero_grad_begins(self, owner: Any, moment: Moment | None, cleared: bool) -> None:
        """An optimizer's or a module's zero_grad is about to run."""
        if not sandbox.trying():
            self._history.timeline.zeroed(owner, moment, cleared)

    def step_begins(self, optimizer: Any, closure: bool, moment: Moment | None) -> None:
        """An optimizer is about to step."""
        if sandbox.trying():
            return
        self.go_on()
        event = self._history.timeline.stepped(optimizer, moment)
        known = self._known(optimizer)
        known.steps += 1
        since, known.last = known.last, event.tick
        with torch._C.DisableTorchFunction():  # no mode of the script's sees us look
            known.never = [one for one in known.never if _has_none(one())]
            if not closure and (self._history.timeline.calls or known.steps == _WITHOUT_CALL):
                self._look(optimizer, known, event, since)
        if not closure and _makes_no_nodes(optimizer) and self._origins.seeing():
            self._origins.pause()  # torch's own in-place functions, hundreds a step
            self._stepping = True

    def step_ended(self, optimizer: Any, frame: FrameType) -> None:
        """It has stepped: whoever saved one of its parameters has another one now."""
        if sandbox.trying():
            return
        self.go_on()
        if not self._origins.seeing():
            return
        place = self._origins.place_of(frame, None)
        function = f"{type(optimizer).__name__}.step"
        with torch._C.DisableTorchFunction():
            for _, _, tensor in parameters(optimizer):
                if tensor.grad is not None:
                    self._origins.writes.note(tensor, place, function)

    def _look(self, optimizer: Any, known: _Optimizer, event: StepEvent, since: int) -> None:
        """Look into the step where that is worth it."""
        key = ("step", event.moment)
        lost = bool(known.never) and known.steps in (1, _PATIENCE)
        if key in self._told or not (lost or self._finds_nothing(optimizer)):
            return
        never = {id(one()) for one in known.never}
        history, origins = self._history, self._origins
        number = known.steps

        def find() -> Iterable[Finding]:
            facts = step_facts(optimizer, event, number, since, never, history, origins)
            found = [*step_without_gradient(facts), *orphans(facts)]
            if found:
                self._told.add(key)
            return found

        self._origins.pause()
        try:
            self._tell(find)
        finally:
            self._origins.resume()

    def _finds_nothing(self, optimizer: Any) -> bool:
        """There is no gradient, or a zero_grad after the last backward call has left zeros."""
        gradients = [tensor.grad for _, _, tensor in parameters(optimizer) if tensor.grad is not None]
        timeline = self._history.timeline
        if not gradients or not timeline.calls or not any(zero.cleared for zero in timeline.zeros_after(timeline.calls[-1].tick)):
            return not gradients
        return all(map(is_empty, gradients))

    def _known(self, optimizer: Any) -> _Optimizer:
        number = id(optimizer)
        known = self._optimizers.get(number)
        if known is None or known.reference() is not optimizer:
            tensors = [weakref.ref(tensor) for _, _, tensor in parameters(optimizer)]
            known = _Optimizer(weakref.ref(optimizer, lambda gone: self._forget(number, gone)), never=tensors)
            self._optimizers[number] = known
        return known

    def _forget(self, number: int, gone: weakref.ref[Any]) -> None:
        if number in self._optimizers and self._optimizers[number].reference is gone:
            del self._optimizers[number]

    # ------------------------------------------------------------ reads

    def _read(self, read: GradReadAt) -> None:
        """The person's code has read `.grad` of a tensor that keeps none."""
        key = ("read", read.place)
        if key in self._told or sandbox.trying() or not self._history.timeline.calls:
            return
        frame = sys._getframe(1)
        self._told.add(key)
        self._tell(lambda: nonleaf_grad(grad_read(read, frame, self._history.timeline, self._history.last_pass, self._origins)))

    # ------------------------------------------------------------ telling

    def _tell(self, find: Callable[[], Iterable[Finding]]) -> None:
        """Send what is found. A fault of ours is none of the script's."""
        server = self._server
        if not server.link.live:
            return
        with server.turn, server.link.interrupts, modes_off():
            try:
                found = list(find())
                if found:
                    server.link.send(m.Diagnosed(found))
            except Exception as error:
                server.fault(error)


def _has_none(tensor: Any) -> bool:
    """It lives, and has no gradient. A function of its own, since a variable that holds it would be found as its holder."""
    return tensor is not None and tensor.grad is None


def _makes_no_nodes(optimizer: Any) -> bool:
    """Its step is torch's own and runs under no_grad."""
    return type(optimizer).__module__.startswith("torch.optim.") and not optimizer.defaults.get("differentiable")
