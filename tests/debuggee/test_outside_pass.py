"""Findings from outside a pass, on live torch: what an optimizer's step finds, and who reads a gradient that is not there."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.commit import Recorded
from gradscope.debuggee.history import History
from gradscope.debuggee.intercept import Interception
from gradscope.debuggee.origins import install_mode
from gradscope.debuggee.outside_pass import OutsidePass
from gradscope.debuggee.subject import of_call
from gradscope.findings import Finding
from gradscope.model.columns import GraphColumns


class Run:
    """A run that records every backward call, and keeps what it is told."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self.faults: list[Exception] = []
        self.link = SimpleNamespace(live=True, send=self._take, interrupts=self._at_work())
        self.turn = threading.RLock()
        self.origins = install_mode(torch)
        self.history = History(torch, self.origins)
        self.outside = OutsidePass(self, self.history, self.origins)  # type: ignore[arg-type]
        self.graphs: dict[int, GraphColumns] = {}
        self.interception = Interception(self._on_call)
        self.interception.install()

    def fault(self, error: Exception) -> None:
        self.faults.append(error)

    def _take(self, message: Any) -> None:
        self.found += message.findings

    def _at_work(self) -> Any:
        class Reusable:
            def __enter__(self) -> None: ...
            def __exit__(self, *error: object) -> None: ...

        return Reusable()

    def _on_call(self, call: BackwardCall) -> Any:
        event = self.history.begins(call)
        self.origins.pause()
        subject = of_call(call, self.origins, self.history)
        self.graphs[call.number] = subject.columns
        recording = Recorded(subject.captured, subject.seeds, accumulates=subject.accumulates)
        recording.__enter__()

        def after(error: BaseException | None) -> None:
            tape, held = recording.finish(error)
            self.history.last_pass.keep(call.number, subject.columns, tape)
            held.release()
            subject.release()
            self.origins.resume()

        return self.history.ending(event, call, after)

    def close(self) -> None:
        self.outside.remove()
        self.interception.uninstall()
        self.origins.remove()
        assert self.faults == []


@pytest.fixture
def run() -> Iterator[Run]:
    running = Run()
    yield running
    running.close()


@contextmanager
def quiet() -> Iterator[None]:
    """Torch warns of it too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def here() -> int:
    return sys._getframe(1).f_lineno


def told(run: Run) -> list[tuple[str, str, int, str, list[int]]]:
    return [(one.kind, one.severity, one.line, one.leaf, [place.line for place in one.related]) for one in run.found]


# ---------------------------------------------------------------- steps that find nothing


def test_zero_grad_between_backward_and_step(run: Run) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.Adam(net.parameters())
    for _ in range(3):
        net(torch.ones(3, 2)).sum().backward()
        opt.zero_grad()
        zero = here() - 1
        opt.step()
        step = here() - 1
    assert told(run) == [("step-without-gradient", "warning", step, "net.weight, net.bias", [zero])]
    assert "cleared the gradients" in run.found[0].message


def test_zeros_of_the_modules_zero_grad(run: Run) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    net(torch.ones(3, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    zero = here() - 1
    opt.step()
    step = here() - 1
    assert told(run) == [("step-without-gradient", "warning", step, "net.weight, net.bias", [zero])]
    assert "finds only zeros" in run.found[0].message


def test_a_grad_call_leaves_nothing_for_the_step(run: Run) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    torch.autograd.grad(net(torch.ones(3, 2)).sum(), list(net.parameters()))
    grad = here() - 1
    opt.step()
    step = here() - 1
    assert told(run) == [("step-without-gradient", "warning", step, "net.weight, net.bias", [grad])]


def test_the_zero_grad_of_another_net_is_not_blamed(run: Run) -> None:
    net, other = nn.Linear(2, 1), nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    other(torch.ones(3, 2)).sum().backward()
    call = here() - 1
    other.zero_grad()
    opt.step()
    [finding] = run.found
    assert (finding.kind, [place.line for place in finding.related]) == ("step-without-gradient", [call])


def test_a_step_that_is_not_this_losss_turn_is_no_warning(run: Run) -> None:
    a, b = nn.Linear(2, 1), nn.Linear(2, 1)
    first, second = torch.optim.SGD(a.parameters(), 0.1), torch.optim.SGD(b.parameters(), 0.1)
    for net in (a, b, a, b):
        first.zero_grad()
        second.zero_grad()
        net(torch.ones(3, 2)).sum().backward()
        if net is b:
            second.step()
        first.step()
    assert [(one.kind, one.severity) for one in run.found] == [("step-without-gradient", "info")]


# ---------------------------------------------------------------- parameters that nobody else holds


def test_a_layer_that_was_replaced_after_the_optimizer_was_made(run: Run) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    net[1] = nn.Linear(2, 1)
    for _ in range(3):
        opt.zero_grad()
        net(torch.ones(3, 2)).sum().backward()
        opt.step()
        step = here() - 1
    assert told(run) == [("orphan-parameter", "warning", step, "SGD[0].params[2], SGD[0].params[3]", [])]


def test_a_net_that_was_made_again(run: Run) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    net = nn.Linear(2, 1)
    net(torch.ones(3, 2)).sum().backward()
    opt.step()
    assert [one.kind for one in run.found] == ["step-without-gradient", "orphan-parameter"]


def test_parameters_that_something_holds_are_no_orphans(run: Run) -> None:
    class Store:
        def __init__(self, tensor: Any) -> None:
            self.deep = {"a": [{"b": [{"c": (tensor,)}]}]}

    net, unused, bare = nn.Linear(2, 1), nn.Linear(2, 1), nn.Parameter(torch.ones(2))
    store = Store(nn.Parameter(torch.ones(2)))
    stored = store.deep["a"][0]["b"][0]["c"][0]  # type: ignore[index]
    opt = torch.optim.SGD([*net.parameters(), *unused.parameters(), bare, stored], 0.1)
    del stored
    for _ in range(12):
        opt.zero_grad()
        net(torch.ones(3, 2)).sum().backward()
        opt.step()
    assert run.found == []
    assert bare.grad is None


# ---------------------------------------------------------------- reads


def test_a_read_of_what_is_not_kept(run: Run) -> None:
    net = nn.Linear(2, 1, bias=False)
    hidden = net(torch.ones(3, 2))
    made = here() - 1
    (hidden * 2).sum().backward()
    with quiet():
        for _ in range(2):
            assert hidden.grad is None
            line = here() - 1
    [finding] = run.found
    assert (finding.kind, finding.line, finding.leaf, finding.call) == ("nonleaf-grad", line, "hidden", 1)
    assert [place.line for place in finding.related] == [made]
    assert finding.value == pytest.approx(12**0.5)
    assert run.graphs[1].ops[memoryview(run.graphs[1].op).cast("i")[finding.node]] == finding.op == "MmBackward0"


def test_a_leaf_that_was_cast_away(run: Run) -> None:
    noise = torch.ones(3, requires_grad=True)
    noise = noise.to(torch.float64).view(3, 1)
    (noise * 2).sum().backward()
    with quiet():
        assert noise.grad is None
    [finding] = run.found
    assert finding.leaf == "noise"
    assert "the leaf that it was made of, which has no name" in finding.message


def test_reads_that_are_right(run: Run) -> None:
    w = torch.ones(3, requires_grad=True)
    kept = w * 2
    kept.retain_grad()
    with quiet():
        assert (w * 3).grad is None  # no call yet: nothing can be expected
    kept.sum().backward()
    assert kept.grad is not None
    assert w.grad is not None
    assert torch.ones(3).grad is None
    assert run.found == []


# ---------------------------------------------------------------- healthy loops


def plain(net: nn.Module, opt: Any) -> None:
    opt.zero_grad()
    net(torch.ones(3, 2)).pow(2).mean().backward()
    opt.step()


def zero_after(net: nn.Module, opt: Any) -> None:
    net(torch.ones(3, 2)).pow(2).mean().backward()
    opt.step()
    opt.zero_grad(set_to_none=False)


def by_module(net: nn.Module, opt: Any) -> None:
    net.zero_grad()
    net(torch.ones(3, 2)).pow(2).mean().backward()
    opt.step()


def micro_batches(net: nn.Module, opt: Any) -> None:
    for _ in range(3):
        (net(torch.ones(3, 2)).pow(2).mean() / 3).backward()
    opt.step()
    opt.zero_grad()


def own_gradients(net: nn.Module, opt: Any) -> None:
    loss = net(torch.ones(3, 2)).pow(2).mean()
    for parameter, gradient in zip(net.parameters(), torch.autograd.grad(loss, list(net.parameters())), strict=True):
        parameter.grad = gradient
    opt.step()


def scaled(net: nn.Module, opt: Any) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    opt.zero_grad()
    scaler.scale(net(torch.ones(3, 2)).pow(2).mean()).backward()
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()


@pytest.mark.parametrize("train", [plain, zero_after, by_module, micro_batches, own_gradients, scaled])
def test_healthy_loops_are_not_told_of(run: Run, train: Callable[[nn.Module, Any], None]) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    opt = torch.optim.Adam(net.parameters())
    for _ in range(12):
        train(net, opt)
    assert run.found == []


def test_healthy_rivals_are_not_told_of(run: Run) -> None:
    maker, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    of_maker, of_critic = torch.optim.Adam(maker.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(12):
        made = maker(torch.ones(3, 2))
        of_critic.zero_grad()
        (critic(torch.ones(3, 2)).mean() - critic(made.detach()).mean()).backward()
        of_critic.step()
        of_maker.zero_grad()
        critic(made).mean().backward()
        of_maker.step()
    assert run.found == []


def test_a_healthy_closure_is_not_told_of(run: Run) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.LBFGS(net.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        opt.zero_grad()
        loss = net(torch.ones(3, 2)).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(3):
        opt.step(closure)
    assert run.found == []


def test_a_step_before_any_backward_is_not_told_of(run: Run) -> None:
    opt = torch.optim.SGD(nn.Linear(2, 1).parameters(), 0.1)
    opt.step()
    assert run.found == []


def test_steps_without_any_backward(run: Run) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(4):
        opt.step()
    (found,) = run.found
    assert (found.kind, found.severity, found.leaf) == ("step-without-gradient", "info", "net.weight, net.bias")
    assert found.message.endswith(": no backward call came before it")


def test_steps_with_gradients_that_are_set_by_hand(run: Run) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(4):
        for parameter in net.parameters():
            parameter.grad = torch.ones_like(parameter)
        opt.step()
    assert run.found == []


def test_nothing_is_kept_alive(run: Run) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.Adam(net.parameters())
    hidden = net(torch.ones(3, 2))
    hidden.sum().backward()
    opt.step()
    with quiet():
        assert hidden.grad is None
    gone = [weakref.ref(one) for one in (net, opt, net.weight, hidden)]
    del net, opt, hidden
    gc.collect()
    assert [reference() for reference in gone] == [None] * 4
    assert run.outside._optimizers == {}


def test_the_step_is_noted_as_a_write(run: Run) -> None:
    net = nn.Linear(2, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    number = torch.autograd._get_sequence_nr()
    net(torch.ones(3, 2)).sum().backward()
    opt.step()
    line = here() - 1
    write = run.origins.writes.to(net.weight, number)
    assert write is not None
    assert (write.function, run.origins.places.origin(write.place).line) == ("SGD.step", line)


def test_a_step_that_raises_does_not_blind_the_origins(run: Run) -> None:
    w = nn.Parameter(torch.ones(2))
    opt = torch.optim.SGD([w], 0.1)
    w.sum().backward()
    opt.param_groups[0]["lr"] = "much"
    with pytest.raises(TypeError):
        opt.step()
    assert not run.origins.seeing()
    opt.param_groups[0]["lr"] = 0.1
    opt.step()
    made = (w * 2).grad_fn
    assert run.origins.seeing()
    assert run.origins.lookup(made._sequence_nr()) is not None


def test_what_a_step_of_torchs_own_does_is_not_looked_at(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    w = nn.Parameter(torch.ones(2))
    opt = torch.optim.Adam([w])
    w.sum().backward()
    seen: list[Any] = []
    monkeypatch.setattr(run.origins.boundaries, "look", lambda *given: seen.append(given[0]))
    opt.step()
    assert seen == []
    assert run.origins.seeing()
