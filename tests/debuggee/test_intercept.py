"""The choke point: what is seen, what passes, and that nothing shows."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.autograd import graph
from torch.utils.checkpoint import checkpoint

from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.intercept import Interception


class Watch:
    """Notes each call; `decide` may look at it while it stands."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.ended: list[BaseException | None] = []
        self.decide: Any = lambda call: None

    def __call__(self, call: BackwardCall) -> Any:
        self.seen.append((call.number, call.kind, call.reason))
        self.decide(call)
        return self.ended.append


@pytest.fixture
def watch() -> Iterator[Watch]:
    watching = Watch()
    interception = Interception(watching)
    interception.install()
    yield watching
    interception.uninstall()


def two() -> torch.Tensor:
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_every_way_to_call(watch: Watch) -> None:
    x = two()
    (x * 2).sum().backward()
    torch.autograd.backward((x * 2).sum())
    torch.autograd.grad((x * 2).sum(), x)
    torch.autograd.functional.vjp(lambda t: t * 2, x.detach(), torch.ones(2))
    assert [kind for _, kind, _ in watch.seen] == ["backward", "backward", "grad", "grad"]
    assert [number for number, _, _ in watch.seen] == [1, 2, 3, 4]
    assert watch.ended == [None] * 4
    assert x.grad.tolist() == [4.0, 4.0]


def test_what_is_known_of_a_call(watch: Watch) -> None:
    x = two()
    calls: list[dict[str, Any]] = []

    def look(call: BackwardCall) -> None:
        calls.append(
            {
                "given": call.given,
                "keep": call.keep_graph,
                "create": call.create_graph,
                "inputs": len(call.inputs),
                "seeds": [None if seed is None else seed.tolist() for seed in call.seeds],
                "function": call.script_frame.f_code.co_name,
            }
        )

    watch.decide = look
    (x * 2).backward(gradient=torch.tensor([1.0, 10.0]), retain_graph=True)
    torch.autograd.grad([x.sum(), (x * 2).sum()], [x], [None, torch.tensor(3.0)])
    assert calls[0] == {
        "given": (True,),
        "keep": True,
        "create": False,
        "inputs": 0,
        "seeds": [[1.0, 10.0]],
        "function": "test_what_is_known_of_a_call",
    }
    assert calls[1]["given"] == (False, True)
    assert calls[1]["seeds"] == [1.0, 3.0]
    assert calls[1]["inputs"] == 1


def test_other_seeds(watch: Watch) -> None:
    x = two()
    watch.decide = lambda call: setattr(call, "edited", [torch.tensor([1.0, 10.0])])
    (x * 1).backward(torch.ones(2))
    assert x.grad.tolist() == [1.0, 10.0]
    assert torch.autograd.grad(x * 3, x, torch.ones(2))[0].tolist() == [3.0, 30.0]


def test_seeds_that_torch_refuses(watch: Watch) -> None:
    x = two()
    details: list[str] = []
    watch.decide = lambda call: details.append(call.detail)
    with pytest.raises(RuntimeError, match="scalar outputs") as caught:
        (x * 2).backward()
    assert details == [str(caught.value)]
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(torch.ones(3))
    assert [reason for _, _, reason in watch.seen] == ["seed", "seed"]
    assert all(isinstance(error, RuntimeError) for error in watch.ended)
    watch.decide = lambda call: setattr(call, "edited", [torch.tensor([1.0, 10.0])])
    (x * 2).backward()
    assert x.grad.tolist() == [2.0, 20.0]
    assert [number for number, _, _ in watch.seen] == [1, 2, 3]
    assert watch.ended[-1] is None


def test_roots_without_a_graph(watch: Watch) -> None:
    details: list[str] = []
    watch.decide = lambda call: details.append(call.detail)
    with pytest.raises(RuntimeError) as caught:
        torch.ones(()).backward()
    assert details == [str(caught.value)]
    assert watch.seen == [(1, "backward", "no-graph")]


def plain_traceback(work: Any) -> str:
    try:
        work()
    except Exception:
        return traceback.format_exc()
    raise AssertionError("did not raise")


def test_tracebacks_are_those_of_torch_alone() -> None:
    x = two()

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            return a * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            raise KeyError("x")

    works = [
        lambda: (x * 2).backward(),
        lambda: torch.ones(()).backward(),
        lambda: Broken.apply(x).sum().backward(),
        lambda: torch.autograd.grad(x.sum(), torch.ones(2)),
        lambda: torch.autograd.grad((x * 2), x),
        lambda: torch.ones(1).register_hook(print),
        lambda: torch.ones(1).retain_grad(),
    ]
    plain = [plain_traceback(work) for work in works]
    interception = Interception(Watch())
    interception.install()
    try:
        assert [plain_traceback(work) for work in works] == plain
    finally:
        interception.uninstall()


def test_an_error_that_is_being_handled_is_not_the_calls(watch: Watch) -> None:
    try:
        raise ValueError("before")
    except ValueError:
        two().sum().backward()
    assert watch.ended == [None]


def test_nested_calls_pass(watch: Watch) -> None:
    x = two()
    checkpoint(torch.sin, x, use_reentrant=True).sum().backward()
    assert len(watch.seen) == 1
    h = x * 2

    @torch.enable_grad()
    def inner(gradient: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad((x * 3).sum(), x)[0]

    h.register_hook(inner)
    h.sum().backward()
    assert len(watch.seen) == 2


def test_transforms_and_traces_pass(watch: Watch) -> None:
    torch.func.grad(lambda t: (t * t).sum())(torch.ones(2))
    torch.func.vmap(torch.func.grad(lambda t: (t * t).sum()))(torch.ones(3, 2))
    assert watch.seen == []
    x = two()
    torch.autograd.grad(x * 2, x, torch.eye(2), is_grads_batched=True)
    assert len(watch.seen) == 1


def test_batched_calls_are_told(watch: Watch) -> None:
    batched: list[bool] = []
    watch.decide = lambda call: batched.append(call.batched)
    x = two()
    torch.autograd.grad(x * 2, x, torch.eye(2), is_grads_batched=True)
    (x * 2).sum().backward()
    assert batched == [True, False]


def test_another_thread(watch: Watch) -> None:
    x = two()
    thread = threading.Thread(target=lambda: (x * 2).sum().backward())
    thread.start()
    thread.join()
    assert x.grad.tolist() == [2.0, 2.0]
    assert len(watch.seen) == 1


def test_debug_logging_of_torch_still_works(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(graph.log, "level", logging.DEBUG)
    monkeypatch.setattr(graph.log, "debug", said.append)
    (two() * 2).sum().backward()
    assert said[0].startswith("Executing: <SumBackward0")
    assert len(said) == 3
    assert len(watch.seen) == 1


def test_a_fault_of_the_decision_comes_out(watch: Watch) -> None:
    def interrupt(call: BackwardCall) -> None:
        raise KeyboardInterrupt

    watch.decide = interrupt
    with pytest.raises(KeyboardInterrupt):
        two().sum().backward()
    watch.decide = lambda call: None
    two().sum().backward()
    assert len(watch.seen) == 2


def test_uninstalling_puts_torch_back() -> None:
    names = ("_engine_run_backward", "_tensor_or_tensors_to_tuple")
    before = [getattr(torch.autograd, name) for name in names], graph._engine_run_backward, torch.Tensor.retain_grad
    interception = Interception(Watch())
    interception.install()
    assert torch.autograd._engine_run_backward is not before[0][0]
    assert torch.autograd._engine_run_backward.__code__ is before[0][0].__code__
    interception.uninstall()
    after = [getattr(torch.autograd, name) for name in names], graph._engine_run_backward, torch.Tensor.retain_grad
    assert after == before
    assert "retain_grad" not in vars(torch.Tensor)


def test_the_plain_wrapper_where_torch_is_built_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def _engine_run_backward(roots: Any, *arguments: Any, **options: Any) -> Any:
        return torch.autograd.Variable._execution_engine.run_backward(roots, *arguments, **options)

    monkeypatch.setattr(graph, "_engine_run_backward", _engine_run_backward)
    monkeypatch.setattr(torch.autograd, "_engine_run_backward", _engine_run_backward)
    watching = Watch()
    interception = Interception(watching)
    interception.install()
    x = two()
    watching.decide = lambda call: setattr(call, "edited", [torch.tensor([1.0, 10.0])])
    (x * 1).backward(torch.ones(2))
    with pytest.raises(RuntimeError):
        torch.ones(()).backward()
    interception.uninstall()
    assert x.grad.tolist() == [1.0, 10.0]
    assert watching.ended[0] is None
    assert isinstance(watching.ended[1], RuntimeError)


GRAPHS_DIE = """
import gc, weakref
import torch
from gradscope.debuggee.intercept import Interception
from gradscope.debuggee.capture import capture
from gradscope.debuggee.explore import explore
from gradscope.debuggee.commit import Check

gc.disable()
alive = []
def on_call(call):
    captured = capture(call.roots, call.inputs)
    tape, held = explore(captured, call.seeds)
    check = Check.of_tape(captured, tape, held)
    captured.release()
    held.release()
    def after(error):
        assert check.verdict(error).exact == "true"
        call.release()
    return after
Interception(on_call).install()
x = torch.ones(3, requires_grad=True)
for _ in range(3):
    h = x.sin()
    h.register_hook(lambda g: None)
    h.retain_grad()
    alive.append(weakref.ref(h))
    y = h.exp().sum()
    alive.append(weakref.ref(y))
    y.backward()
    del h, y
print([one() is None for one in alive])
"""


def test_graphs_die_without_the_collector() -> None:
    done = subprocess.run([sys.executable, "-c", GRAPHS_DIE], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == str([True] * 6), done.stderr


COMPILED = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
from gradscope.debuggee import donated_buffers
from gradscope.debuggee.intercept import Interception
from gradscope.debuggee.capture import capture
from gradscope.debuggee.explore import explore

seen = []
def on_call(call):
    tape, _ = explore(capture(call.roots, call.inputs), call.seeds)
    seen.append(tape.exact)
if "watched" in sys.argv:
    Interception(on_call).install()
    donated_buffers.keep()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
def step(x):
    h = net(x)
    h.register_hook(lambda g: g * 2)
    h.retain_grad()
    h.sum().backward()
    return h.grad
for backend in ("eager", "aot_eager"):
    torch.compile(net, backend=backend, fullgraph=True)(torch.ones(2, 3)).sum().backward()
    torch.compile(step, backend=backend)(torch.ones(2, 3))
print([p.grad.tolist() for p in net.parameters()], sum(torch._dynamo.utils.counters["graph_break"].values()))
assert "watched" not in sys.argv or seen == ["true"] * 4, seen
"""


def test_compiled_code_is_left_as_it_is() -> None:
    runs = [
        subprocess.run([sys.executable, "-c", COMPILED, *more], capture_output=True, text=True, timeout=250, check=False)
        for more in ([], ["watched"])
    ]
    assert runs[0].stdout == runs[1].stdout != "", runs[1].stderr


def test_calls_of_several_threads_know_of_each_other() -> None:
    calls: list[BackwardCall] = []
    a = torch.ones(2, requires_grad=True)

    def in_a_thread(_: torch.Tensor) -> None:
        thread = threading.Thread(target=lambda: a.sum().backward())
        thread.start()
        thread.join(60)

    interception = Interception(calls.append)
    interception.install()
    over = threading.Event()
    bystander = threading.Thread(target=over.wait)
    bystander.start()
    try:
        y = a * 2
        y.register_hook(in_a_thread)
        y.sum().backward()
        a.sum().backward()
    finally:
        over.set()
        bystander.join(60)
        interception.uninstall()
    outer, inner, alone = calls
    assert (outer.company, inner.company, alone.company) == ([inner.thread], ["MainThread"], [])
