"""Rows of the compatibility suite: modes, compilers, mixed precision, profilers, threads."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
from harness import Rows
from torch import nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

# Else compiled at the first dual tensor, which fails once other rows have changed how torch compiles.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch._decomp.decompositions_for_jvp

rows = Rows()


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def grads(module: nn.Module) -> list[torch.Tensor | None]:
    return [parameter.grad for parameter in module.parameters()]


# ---------------------------------------------------------------- modes


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))


@rows.add("under a `TorchDispatchMode` of one's own", expect="recorded", why="a mode of the script's (Seen) sees every operation")
def dispatch_mode() -> object:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with Seen() as seen:
        (x.sin() * x).sum().backward()
    return x.grad, [seen.names.count(f"aten.{name}") for name in ("sin.default", "cos.default", "mul.Tensor", "sum.default")]


@rows.add("`FlopCounterMode`", expect="recorded", why="a mode of the script's (_FlopCounterMode) sees every operation")
def flops() -> object:
    net = network()
    with FlopCounterMode(display=False) as counter:
        net(torch.randn(2, 3)).sum().backward()
    return grads(net), counter.get_total_flops()


@rows.add("under a `TorchFunctionMode` of one's own")
def function_mode() -> object:
    net = network()
    with Functions() as seen:
        net(torch.randn(2, 3)).sum().backward()
    return grads(net), seen.names


@rows.add("`set_default_device`, `set_default_dtype`", calls=2)
def defaults() -> object:
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        x = torch.ones(3, device="cpu", requires_grad=True)
        x.exp().sum().backward()
        with torch.device("cpu"):
            net = network()
            net(torch.randn(2, 3)).sum().backward()
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    return x.grad, grads(net)


@rows.add("anomaly mode", calls=2, exact=("true", "unchecked"), commit=("true", "unchecked"), values=False)
def anomaly() -> object:
    net = network()
    with warnings.catch_warnings(record=True) as warned, torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("always")
        net(torch.randn(2, 3)).sum().backward()
        x = torch.zeros(1, requires_grad=True)
        try:
            (x.sqrt() * 0).sum().backward()
        except RuntimeError as error:
            said = str(error)
    return grads(net), said, [str(one.message).rpartition(__file__)[2] for one in warned]


@rows.add("deterministic algorithms")
def deterministic() -> object:
    torch.use_deterministic_algorithms(True)
    try:
        x = torch.randn(4, 3, requires_grad=True)
        (
            x.index_select(0, torch.tensor([0, 0, 2])) * torch.zeros(3, 3).index_add(0, torch.tensor([1, 1]), x[:2])
        ).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    return x.grad


@rows.add("mixtures of `no_grad`, `enable_grad`, `inference_mode`, `set_grad_enabled`", calls=2)
def grad_modes() -> object:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.inference_mode():
        constant = torch.ones(2) * 3
    with torch.no_grad():
        frozen = x * 2
        with torch.enable_grad():
            y = (x * frozen).sum()
        y.backward()
    with torch.set_grad_enabled(False):
        z = x.exp()
    (x * z + x * constant.clone() + x.data).sum().backward()
    return x.grad, z.requires_grad


@rows.add("the profiler")
def profiled() -> object:
    net = network()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        net(torch.randn(2, 3)).sum().backward()
    return grads(net), {"aten::tanh" in {event.name for event in profile.events()}}


@rows.add("dual tensors (forward-mode AD) beside a backward", calls=2)
def duals() -> object:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore")  # torch 2.14 deprecates, once for each process, what it uses itself
        dual = forward_ad.make_dual(x, torch.tensor([1.0, 0.5]))
        value, tangent = forward_ad.unpack_dual(dual.sin())
        value.sum().backward(retain_graph=True)
        tangent.sum().backward()
    return x.grad, tangent


# ---------------------------------------------------------------- precision


@rows.add("autocast on the CPU, with `GradScaler`", calls=2)
def amp() -> object:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for factor in (1.0, float("inf")):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = net(torch.randn(2, 3)).float().square().mean() * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return list(net.state_dict().values()), scaler.get_scale()


@rows.add("backward inside autocast")
def inside_autocast() -> object:
    net = network()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        net(torch.randn(2, 3)).square().mean().backward()
    return grads(net)


# ---------------------------------------------------------------- compilers


@rows.add("`torch.jit.script` and `trace`", calls=6)
def scripted() -> object:
    for _ in range(2):  # the very first run in a process has other last bits
        net = torch.jit.script(network())
        traced = torch.jit.trace(torch.nn.Tanh(), torch.randn(2, 2))
        x = torch.randn(2, 3)
        for _ in range(3):  # from the second call on one node for all
            traced(net(x)).sum().backward()
    return grads(net)


def compiled(backend: str) -> object:
    torch._dynamo.reset()
    net = network()
    ready = torch.compile(net, backend=backend)
    for x in torch.randn(2, 2, 3):
        ready(x).square().sum().backward()
    return grads(net)


@rows.add('`torch.compile(backend="eager")`', calls=2)
def compiled_eager() -> object:
    return compiled("eager")


@rows.add('`torch.compile(backend="aot_eager")`: one node for the whole module', calls=2)
def compiled_aot_eager() -> object:
    return compiled("aot_eager")


@rows.add('`torch.compile(backend="inductor")`, where a C++ compiler is', calls=2)
def compiled_inductor() -> object:
    torch._dynamo.reset()
    x = torch.randn(4, requires_grad=True)
    ready = torch.compile(lambda x: (x.sin() * x.exp()).tanh().sum())
    for _ in range(2):
        ready(x).backward()
    return x.grad


@rows.add(
    "the same where buffers are donated",
    expect="recorded",
    why="torch.compile lets this backward reuse the memory of what it needs",
)
def compiled_donated() -> object:
    from torch._functorch import config

    torch._dynamo.reset()
    before, config.donated_buffer = config.donated_buffer, True
    try:
        x = torch.randn(4, requires_grad=True)
        torch.compile(lambda x: (x.sin() * x.exp()).tanh().sum(), backend="aot_eager")(x).backward()
    finally:
        config.donated_buffer = before
    return x.grad


# ---------------------------------------------------------------- threads


def in_threads(*works: Any) -> None:
    threads = [threading.Thread(target=work, name=f"worker-{number}") for number, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@rows.add("threads that each train a model of their own", calls=4)
def threads_apart() -> object:
    nets = [network() for _ in range(2)]

    def train(net: nn.Module, x: torch.Tensor) -> None:
        for _ in range(2):
            net(x).sum().backward()

    inputs = torch.randn(2, 2, 3)
    for net, x in zip(nets, inputs, strict=True):
        in_threads(lambda net=net, x=x: train(net, x))
    return [grads(net) for net in nets]


@rows.add("`DataParallel`-like replicas in threads, one backward for all")
def replicas() -> object:
    net = network()
    shares, outs = torch.randn(2, 2, 3), [None, None]

    def forward(number: int) -> None:
        outs[number] = nn.utils.stateless.functional_call(net, dict(net.named_parameters()), (shares[number],))

    in_threads(lambda: forward(0), lambda: forward(1))
    torch.stack(outs).square().mean().backward()
    return grads(net)


@rows.add("`torch.set_num_threads`", calls=2)
def thread_counts() -> object:
    before = torch.get_num_threads()
    x = torch.randn(200, 200, requires_grad=True)
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            (x @ x).tanh().sum().backward()
    finally:
        torch.set_num_threads(before)
    return x.grad


@rows.add("`set_multithreading_enabled(False)`")
def one_thread() -> object:
    net = network()
    with torch.autograd.set_multithreading_enabled(False):
        net(torch.randn(2, 3)).sum().backward()
    return grads(net)
