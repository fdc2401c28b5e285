"""Rows about hooks: of tensors, modules and nodes, after accumulation, and of what is saved for the backward."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from harness import Rows
from torch import autograd, nn
from torch.autograd import graph

rows = Rows()

CHANGED = "explored and recorded, exact; a hook that changes a gradient is marked"

RAISES = "explored up to there, with the error and its node; your call raises as ever"
WRITES: dict[str, Any] = {
    "commit": "unchecked",
    "why": "hooks write into .grad themselves",
    "what": "explored without running them, recorded with them; your call runs them once, as ever; their `.grad` is not compared",
    "values": False,
}


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers or (1.0, 2.0), requires_grad=True)


def gradients(module: nn.Module) -> list[torch.Tensor | None]:
    return [parameter.grad for parameter in module.parameters()]


# ---------------------------------------------------------------- tensors


@rows.add("tensor hooks that look, replace, edit in place, are removed", what=CHANGED)
def tensor_hooks() -> object:
    x, y = leaf(), leaf(3.0, 4.0)
    seen: list[torch.Tensor] = []
    h = x * y
    h.register_hook(lambda g: seen.append(g.clone()))
    h.register_hook(lambda g: g * 2)
    h.register_hook(lambda g: g.clamp_(max=3.0))
    removed = h.register_hook(lambda g: g * 100)
    removed.remove()
    x.register_hook(lambda g: g + 1)
    (h.exp() * h).sum().backward()
    return x.grad, y.grad, seen


@rows.add("`retain_grad()`, before and after hooks, twice", calls=2)
def retain_grad() -> object:
    x = leaf()
    h = x.sin()
    h.retain_grad()
    h.register_hook(lambda g: g * 2)
    h.retain_grad()
    y = h.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad, h.grad


@rows.add("`register_multi_grad_hook`, mode `all` and mode `any`", calls=2)
def multi_grad_hook() -> object:
    x, y, z = leaf(), leaf(3.0, 4.0), leaf(5.0, 6.0)
    seen: list[Any] = []
    graph.register_multi_grad_hook((x, y, z), lambda given: seen.append([None if g is None else g.clone() for g in given]))
    graph.register_multi_grad_hook((x, y), lambda g: seen.append(g.clone()), mode="any")
    for _ in range(2):
        (x * y + x).sum().backward()
    return x.grad, y.grad, seen


@rows.add("hooks that raise", what=RAISES, exact="unchecked", commit="unchecked", why="not this one", values=False)
def raising_hook() -> object:
    x = leaf()
    h = x * 2

    def hook(gradient: torch.Tensor) -> None:
        raise KeyError("not this one")

    h.register_hook(hook)
    (h.exp() * h).sum().backward()


@rows.add(
    "a hook on a leaf that raises, with other leaves",
    what=RAISES,
    exact="unchecked",
    commit="unchecked",
    why="not this one",
    values=False,
)
def raising_hook_of_leaf() -> object:
    x, y = leaf(), leaf(3.0, 4.0)

    def hook(gradient: torch.Tensor) -> None:
        raise KeyError("not this one")

    x.register_hook(hook)
    try:
        ((x * 2).exp() * (y * 2)).sum().backward()
    except KeyError as error:
        return str(error), x.grad, y.grad


# ---------------------------------------------------------------- modules


@rows.add("module hooks: forward, `register_full_backward_hook` and its pre-hook, the global ones", calls=2, what=CHANGED)
def module_hooks() -> object:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    seen: list[Any] = []
    model[0].register_forward_hook(lambda module, given, out: out * 2)
    model[0].register_full_backward_hook(
        lambda module, into, out: seen.append([g.clone() for g in (*into, *out) if g is not None])
    )
    model[1].register_full_backward_hook(lambda module, into, out: (into[0] * 3,))
    model[2].register_full_backward_pre_hook(lambda module, out: (out[0] / 2,))
    nn.modules.module.register_module_full_backward_hook(lambda module, into, out: seen.append(type(module).__name__))
    try:
        for _ in range(2):
            model(torch.randn(5, 3)).square().sum().backward()
    finally:
        nn.modules.module._global_backward_hooks.clear()
        nn.modules.module._global_is_full_backward_hook = None
    return gradients(model), seen


@rows.add("the old `register_backward_hook`")
def old_module_hook() -> object:
    model, seen = nn.Linear(3, 2), []
    model.register_backward_hook(lambda module, into, out: seen.append([g.clone() for g in (*into, *out) if g is not None]))
    model(torch.randn(5, 3)).square().sum().backward()
    return gradients(model), seen


# ---------------------------------------------------------------- nodes and leaves


@rows.add("hooks of nodes (`register_hook`, `register_prehook`), also on AccumulateGrad", **WRITES)
def node_hooks() -> object:
    x = leaf()
    h = x.sin()
    y = (h * h).sum()
    seen: list[Any] = []
    h.grad_fn.register_prehook(lambda given: (given[0] * 2,))
    h.grad_fn.register_hook(lambda sent, given: (sent[0] + 1,))
    end = graph.get_gradient_edge(x).node
    end.register_prehook(lambda given: seen.append(given[0].clone()))
    end.register_hook(lambda sent, given: seen.append(x.grad.clone()))
    y.backward()
    return x.grad, seen


@rows.add("optimizer in the backward (`register_post_accumulate_grad_hook`)", calls=3, **WRITES)
def optimizer_in_backward() -> object:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    optimizers = {p: torch.optim.Adam([p], lr=0.1) for p in model.parameters()}

    def step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        model(torch.randn(5, 3)).square().sum().backward()
    states = [list(optimizer.state.values()) for optimizer in optimizers.values()]
    return list(model.parameters()), gradients(model), list(model.buffers()), states


@rows.add("a hook after accumulation that clips `.grad`", **WRITES)
def clip_in_backward() -> object:
    x = leaf()

    def clip(tensor: torch.Tensor) -> None:
        tensor.grad.clamp_(max=0.5)

    x.register_post_accumulate_grad_hook(clip)
    x.exp().sum().backward()
    return x.grad


# ---------------------------------------------------------------- backward inside hooks


@rows.add(
    "`backward()` and `autograd.grad` inside a hook",
    commit="unchecked",
    recorded="unchecked",
    why="a backward pass inside this one writes its .grad too",
    what="explored and recorded; the leaves that both write are not compared",
    values=False,
)
def backward_in_hook() -> object:
    x, y = leaf(), leaf(3.0, 4.0)
    h = x * y

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            (x.sin() * 2).sum().backward()
            (inner,) = autograd.grad(y.cos().sum(), y)
        return gradient + inner

    h.register_hook(hook)
    (h.exp() * y).sum().backward()
    return x.grad, y.grad


@rows.add("a fixed point's hook: `autograd.grad` over a graph kept from the forward (DEQ)")
def implicit_layer() -> object:
    weight, x = torch.tensor([[0.3, 0.1], [0.2, 0.4]], requires_grad=True), leaf()
    with torch.no_grad():
        z = torch.zeros(2)
        for _ in range(20):
            z = torch.tanh(weight @ z + x)
    z = torch.tanh(weight @ z + x)
    start = z.detach().requires_grad_()
    again = torch.tanh(weight @ start + x)

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        solution = gradient
        for _ in range(20):
            solution = autograd.grad(again, start, solution, retain_graph=True)[0] + gradient
        return solution

    z.register_hook(hook)
    z.sum().backward()
    return weight.grad, x.grad


# ---------------------------------------------------------------- saved tensors


@rows.add("`saved_tensors_hooks` (pack, unpack), `save_on_cpu`, `disable_saved_tensors_hooks`", unpacks=True, calls=3)
def saved_hooks() -> object:
    x, counts = leaf(), {"packed": 0, "unpacked": 0}

    def pack(tensor: torch.Tensor) -> Any:
        counts["packed"] += 1
        return tensor.numpy(force=True).tolist()

    def unpack(packed: Any) -> torch.Tensor:
        counts["unpacked"] += 1
        return torch.tensor(packed)

    with graph.saved_tensors_hooks(pack, unpack):
        y = (x.exp() * x.sin()).sum()
    y.backward()
    with graph.save_on_cpu():
        y = (x.exp() * x.sin()).sum()
    y.backward()
    with graph.disable_saved_tensors_hooks("not here"):
        (x.exp() * x.sin()).sum().backward()
    return x.grad, counts


@rows.add("unpack hooks that consume what they have packed (a list, a dict entry)", unpacks=True)
def consuming_unpack() -> object:
    x, store = leaf(), {}

    def pack(tensor: torch.Tensor) -> Any:
        store[len(store)] = tensor
        return [len(store) - 1]

    with graph.saved_tensors_hooks(pack, lambda packed: store.pop(packed.pop())):
        y = (x.exp() * x.sin()).sum()
    y.backward()
    return x.grad, store


@rows.add(
    "a backward that can run only once (an unpack hook deletes its file)",
    expect="recorded",
    once=True,
    what="`--once` records your own call and runs nothing beside it; without it the second pass says that it cannot be repeated",
)
def only_once() -> object:
    x = leaf()
    with tempfile.TemporaryDirectory() as folder:
        files = (Path(folder, str(number)) for number in range(9))

        def pack(tensor: torch.Tensor) -> Path:
            torch.save(tensor.detach(), path := next(files))
            return path

        def unpack(path: Path) -> torch.Tensor:
            tensor = torch.load(path)
            path.unlink()
            return tensor

        with graph.saved_tensors_hooks(pack, unpack):
            y = (x.exp() * x.sin()).sum()
        y.backward()
    return x.grad


@rows.add("hooks of one saved tensor (`_raw_saved_self.register_hooks`)", unpacks=True)
def one_saved() -> object:
    x = leaf()
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t * 2, lambda t: t / 2)
    y.sum().backward()
    return x.grad


# ---------------------------------------------------------------- modes


@rows.add("anomaly mode (`set_detect_anomaly`)")
def anomaly() -> object:
    x = leaf()
    with autograd.set_detect_anomaly(True):
        (x.exp() * x).sum().backward()
    return x.grad


@rows.add(
    "anomaly mode that finds a NaN",
    exact="unchecked",
    commit="unchecked",
    why="returned nan values",
    what=RAISES,
    values=False,
)
def anomaly_nan() -> object:
    x = leaf(0.0, 1.0)
    try:
        with autograd.set_detect_anomaly(True):
            (x.sqrt() * 0).sum().backward()
    except RuntimeError as error:
        return str(error), x.grad
