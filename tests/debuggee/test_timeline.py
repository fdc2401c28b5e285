"""The timeline: what came when, by which line, and that it keeps nothing alive."""

from __future__ import annotations

import gc
import sys
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from gradscope.debuggee import optimizer_events
from gradscope.debuggee.moments import Moment
from gradscope.debuggee.timeline import Timeline

number = torch.autograd._get_sequence_nr


class Heard:
    """Notes what it is told on a timeline."""

    def __init__(self) -> None:
        self.timeline = Timeline(number)
        self.closures: list[bool] = []

    def step_begins(self, optimizer: Any, closure: bool, moment: Moment | None) -> None:
        self.closures.append(closure)
        self.timeline.stepped(optimizer, moment)

    def step_ended(self, optimizer: Any, frame: Any) -> None:
        pass

    def zero_grad_begins(self, owner: Any, moment: Moment | None, cleared: bool) -> None:
        self.timeline.zeroed(owner, moment, cleared)


@pytest.fixture
def heard() -> Iterator[Heard]:
    listener = Heard()
    back = optimizer_events.watch(listener)
    yield listener
    back()


def here() -> int:
    return sys._getframe(1).f_lineno


def call(timeline: Timeline, which: int, retain_graph: bool = False) -> Any:
    return timeline.call_begins(which, "backward", Moment.below(sys._getframe(1)), retain_graph)


def test_steps_and_zero_grads_come_with_their_lines(heard: Heard) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    opt.zero_grad()
    first = here() - 1
    net(torch.ones(3, 2)).sum().backward()
    opt.step()
    second = here() - 1
    net.zero_grad()
    third = here() - 1
    [step], [before, after] = heard.timeline.steps, heard.timeline.zeros
    assert (step.name, step.moment.line, step.moment.origin.code) == ("SGD", second, "opt.step()")
    assert (before.moment.line, before.cleared, before.owner()) == (first, False, opt)
    assert (after.moment.line, after.cleared, after.owner()) == (third, True, net)
    assert before.tick < step.tick < after.tick
    assert net.weight.grad is None


def test_the_line_is_the_persons_below_a_scaler_and_a_scheduler(heard: Heard) -> None:
    w = nn.Parameter(torch.ones(2))
    opt = torch.optim.SGD([w], 0.1)
    torch.optim.lr_scheduler.StepLR(opt, 1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(w.sum()).backward()
    scaler.step(opt)
    line = here() - 1
    assert [step.moment.line for step in heard.timeline.steps] == [line]


def test_a_closure_is_told(heard: Heard) -> None:
    w = nn.Parameter(torch.ones(2))
    opt = torch.optim.LBFGS([w], 0.1)

    def closure() -> torch.Tensor:
        opt.zero_grad()
        loss = w.pow(2).sum()
        loss.backward()
        return loss

    opt.step(closure)
    opt.step(closure=closure)
    assert heard.closures == [True, True]


def test_zero_grad_is_torchs_own(heard: Heard) -> None:
    class Odd(torch.optim.SGD):
        def zero_grad(self, set_to_none: bool = True) -> None:
            super().zero_grad(set_to_none)

    w = nn.Parameter(torch.ones(2))
    w.grad = torch.ones(2)
    Odd([w], 0.1).zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0.0, 0.0]
    assert [event.cleared for event in heard.timeline.zeros] == [True]
    assert torch.optim.Optimizer.zero_grad.__name__ == "zero_grad"
    with pytest.raises(TypeError) as caught:
        nn.Linear(1, 1).zero_grad(1, 2)  # type: ignore[call-arg]
    assert "gradscope/debuggee" not in "".join(traceback.format_exception(caught.value))


def test_all_is_taken_out_again() -> None:
    plain = vars(torch.optim.Optimizer)["zero_grad"], vars(nn.Module)["zero_grad"]
    listener = Heard()
    optimizer_events.watch(listener)()
    assert (vars(torch.optim.Optimizer)["zero_grad"], vars(nn.Module)["zero_grad"]) == plain
    w = nn.Parameter(torch.ones(2))
    opt = torch.optim.SGD([w], 0.1)
    opt.zero_grad()
    opt.step()
    assert (len(listener.timeline.steps), len(listener.timeline.zeros)) == (0, 0)


@pytest.mark.filterwarnings("ignore")  # of what the compiler imports
def test_the_compiler_does_not_look_into_it(heard: Heard) -> None:
    net = nn.Linear(2, 2)
    opt = torch.optim.SGD(net.parameters(), 0.1)

    @torch.compile(backend="eager", fullgraph=True)
    def clear(x: torch.Tensor) -> torch.Tensor:
        net.zero_grad()
        return x * 2

    net.weight.grad = torch.ones(2, 2)
    before = net.weight.detach().clone()
    torch.compile(opt.step, backend="eager")()
    assert torch.equal(net.weight.detach(), before - 0.1)
    assert clear(torch.ones(1)).tolist() == [2.0]
    assert net.weight.grad is None


def test_a_mode_of_the_scripts_sees_nothing_of_it(heard: Heard) -> None:
    seen: list[str] = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(getattr(func, "__name__", "?"))
            return func(*args, **(kwargs or {}))

    w = nn.Parameter(torch.ones(2))
    opt = torch.optim.SGD([w], 0.1)
    opt.zero_grad()

    def run() -> list[str]:
        seen.clear()
        with Mode():
            opt.zero_grad()
        return list(seen)

    with_ours = run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Optimizer, "zero_grad", torch.optim.Optimizer.zero_grad)
        assert run() == with_ours


def test_which_call_freed_a_node() -> None:
    timeline = Timeline(lambda: 0)
    for which, retain, began in ((1, True, 10), (2, False, 20), (3, False, 30), (4, False, 40)):
        timeline._next_sequence_nr = lambda began=began: began
        call(timeline, which, retain)
    first, second, third, _ = timeline.calls
    timeline.call_looked_at(first, range(0, 10), 11, 0)
    timeline.call_looked_at(second, [-1, *range(12, 20), 3], 10, 1)
    assert list(zip(second.starts, second.ends, strict=True)) == [(3, 4), (12, 20)]
    assert timeline.freed_by(3) == (2, True)
    assert timeline.freed_by(13) == (2, True)
    assert timeline.freed_by(5) == (3, False)  # call 2 did not run through it, call 3 was not looked at
    assert timeline.freed_by(25) == (3, False)
    assert timeline.freed_by(25, before=3) == (0, False)
    assert timeline.freed_by(45) == (0, False)
    second.failed = True
    assert timeline.freed_by(13) == (2, False)
    assert [one.number for one in timeline.before(third)] == [1, 2]
    assert second.told().nodes == 10


def test_the_last_call_at_the_same_line() -> None:
    timeline = Timeline(number)
    for which in (1, 2, 3):
        call(timeline, which)
    other = call(timeline, 4)
    assert timeline.before_at_same_line(timeline.calls[2]) is timeline.calls[1]
    assert timeline.before_at_same_line(timeline.calls[0]) is None
    assert timeline.before_at_same_line(other) is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscope.debuggee.timeline._MOST_RUNS", 100)
    timeline = Timeline(number)
    for which in range(3_000):
        event = call(timeline, which + 1)
        timeline.call_looked_at(event, range(0, 80, 2), 40, 0)
    assert len(timeline.calls) == 2_000
    assert sum(len(event.starts) for event in timeline.calls) == 80
    assert [event.known for event in timeline.calls][-3:] == [False, True, True]


def test_nothing_is_kept_alive(heard: Heard) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.Adam(net.parameters())
    loss = net(torch.ones(3, 2)).sum()
    node = loss.grad_fn
    event = call(heard.timeline, 1)
    heard.timeline.call_looked_at(event, [node._sequence_nr()], 1, 0)
    loss.backward()
    opt.step()
    opt.zero_grad()
    gone = [weakref.ref(one) for one in (net, opt, net.weight, loss)]
    del net, opt, loss, node
    gc.collect()
    assert [reference() for reference in gone] == [None] * 4
    assert [step.optimizer() for step in heard.timeline.steps] == [None]
