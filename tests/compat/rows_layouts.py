"""Rows of the compatibility suite: dtypes, layouts and kinds of tensors."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from harness import Rows
from torch import nn
from torch.nn import functional as F

rows = Rows()
Results = dict[str, Any]


@rows.add("`nn.Embedding(sparse=True)` with SparseAdam", calls=2)
def sparse_embedding() -> Results:
    table = nn.Embedding(6, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    for indices in ([1, 2, 1], [4, 0]):
        optimizer.zero_grad()
        table(torch.tensor(indices)).pow(2).sum().backward()
        optimizer.step()
    return {"weight": table.weight, "grad": table.weight.grad}


@rows.add("sparse gradients that accumulate (`EmbeddingBag`)", calls=2)
def sparse_accumulated() -> Results:
    table = nn.EmbeddingBag(6, 3, sparse=True, mode="sum")
    for indices in ([1, 2, 1], [4, 0]):
        table(torch.tensor([indices])).sin().sum().backward()
    return {"grad": table.weight.grad}


@rows.add("`torch.sparse.mm`: sparse and dense leaves")
def sparse_mm() -> Results:
    sparse = torch.eye(3).to_sparse().requires_grad_()
    dense = torch.arange(6.0).reshape(3, 2).requires_grad_()
    out = torch.sparse.mm(sparse, dense)
    out.pow(2).sum().backward()
    return {"sparse": sparse.grad, "dense": dense.grad}


@rows.add("CSR matrices in the forward")
def sparse_csr() -> Results:
    sparse = torch.eye(3).to_sparse_csr()
    dense = torch.arange(6.0).reshape(3, 2).requires_grad_()
    (sparse @ dense).pow(2).sum().backward()
    return {"dense": dense.grad}


@rows.add("complex tensors, complex seeds", calls=2)
def complex_numbers() -> Results:
    z = torch.tensor([1 + 2j, -0.5j, 3 + 0j], requires_grad=True)
    (z.exp() * z.conj()).abs().sum().backward()
    first = z.grad.clone()
    (z * z).backward(torch.tensor([1j, 2 + 1j, 1 + 0j]))
    return {"grad": z.grad, "first": first}


@rows.add("conjugate and real views of complex tensors")
def conjugate_views() -> Results:
    z = torch.tensor([1 + 2j, -0.5j], requires_grad=True)
    real = torch.view_as_real(z.conj().resolve_conj())
    (real[:, 0] * z.imag).sum().backward()
    return {"grad": z.grad}


@rows.add("float16, also where it overflows", calls=2)
def half_precision() -> Results:
    x = torch.linspace(-2, 2, 8, dtype=torch.half).requires_grad_()
    w = torch.linspace(0, 1, 8, dtype=torch.half).requires_grad_()
    (x * w).tanh().sum().backward()
    (x * 60000).sum().backward()
    return {"x": x.grad, "w": w.grad}


@rows.add("bfloat16")
def brain_float() -> Results:
    layer = nn.Linear(4, 3).bfloat16()
    layer(torch.ones(2, 4, dtype=torch.bfloat16)).sigmoid().sum().backward()
    return {"weight": layer.weight.grad, "bias": layer.bias.grad}


@rows.add("casts through float8")
def float8_casts() -> Results:
    x = torch.linspace(-3, 3, 7).requires_grad_()
    y = x.to(torch.float8_e4m3fn).to(torch.float32)
    (y * y).sum().backward()
    return {"grad": x.grad}


@rows.add("a float8 leaf")
def float8_leaf() -> Results:
    x = torch.linspace(-3, 3, 7).to(torch.float8_e5m2).requires_grad_()
    (x.float() * 2).sum().backward()
    return {"grad": x.grad}


@rows.add("float64, and mixed with float32")
def double_precision() -> Results:
    x = torch.linspace(0.1, 1, 4, dtype=torch.float64).requires_grad_()
    (x.log() * x.float()).sum().backward()
    return {"grad": x.grad}


@rows.add("integer saved tensors: topk, max, sort, gather, cross entropy")
def integer_saved() -> Results:
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    top = x.topk(2).values.sum() + x.max(0).values.sum() + x.sort(descending=True).values[0].sum()
    picked = x.gather(1, torch.tensor([[0], [1], [2]])).sum()
    (top + picked + F.cross_entropy(x, torch.tensor([0, 1, 2])) + (x * torch.tensor([1, 2, 3, 4])).sum()).backward()
    return {"grad": x.grad}


@rows.add("0-dim tensors", calls=2)
def scalars() -> Results:
    x = torch.tensor(3.0, requires_grad=True)
    (x * x).sin().backward()
    x.backward()
    return {"grad": x.grad}


@rows.add("empty tensors", calls=2)
def empty_tensors() -> Results:
    x = torch.zeros(0, 3, requires_grad=True)
    layer = nn.Linear(3, 2)
    layer(x).sum().backward()
    torch.cat([x, torch.ones(2, 3, requires_grad=True)]).max().backward()
    return {"x": x.grad, "weight": layer.weight.grad}


@rows.add("channels_last", calls=2)
def channels_last() -> Results:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 2, 1))
    net = net.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    for _ in range(2):
        net(x).square().mean().backward()
    grads = [one.grad for one in net.parameters()]
    return {"x": x.grad, "grads": grads, "stride": x.grad.stride(), "buffers": list(net.buffers())}


@rows.add("expanded and overlapping (`as_strided`) tensors")
def overlapping() -> Results:
    x = torch.randn(3, 1, requires_grad=True)
    wide = x.expand(3, 4)
    strange = torch.as_strided(x * 2, (2, 2), (1, 1))
    (wide.sin().sum() + strange.prod()).backward()
    return {"grad": x.grad}


def nested(layout: torch.layout) -> torch.Tensor:
    with warnings.catch_warnings():  # of the prototype, once for each process
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.ones(2, 3), torch.arange(9.0).reshape(3, 3)], layout=layout, requires_grad=True)


@rows.add("nested tensors, jagged")
def jagged() -> Results:
    x = nested(layout=torch.jagged)
    layer = nn.Linear(3, 2)
    out = layer(x)
    (out * out).values().sum().backward()
    return {"x": x.grad.values(), "weight": layer.weight.grad}


@rows.add("nested tensors, strided")
def strided_nested() -> Results:
    layer = nn.Linear(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = nested(layout=torch.strided)
        torch.nested.to_padded_tensor(layer(x) * 2, 0.0).pow(2).sum().backward()
    return {"x": [part.clone() for part in x.grad.unbind()], "weight": layer.weight.grad}


class Scaled(torch.Tensor):
    """A wrapper: what is inside is what is computed with."""

    calls = 0

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Scaled:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"Scaled({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def inside(value: Any) -> Any:
            return value.inner if isinstance(value, Scaled) else value

        cls.calls += 1
        out = function(*torch.utils._pytree.tree_map(inside, args), **torch.utils._pytree.tree_map(inside, kwargs or {}))
        return torch.utils._pytree.tree_map(lambda value: Scaled(value) if isinstance(value, torch.Tensor) else value, out)


@rows.add("tensor subclasses that wrap others (`__torch_dispatch__`)")
def wrapper_subclass() -> Results:
    Scaled.calls = 0
    x = Scaled(torch.linspace(-1, 1, 4)).detach().requires_grad_()
    (x * 2).sin().sum().backward()
    return {"grad": x.grad.inner, "kind": type(x.grad).__name__}


@rows.add(
    "the same, where gradients add up",
    why="Scaled computes with its own __torch_dispatch__, which is not run for the record",
    exact="unchecked",
    commit="unchecked",
)
def wrapper_subclass_sums() -> Results:
    Scaled.calls = 0
    x = Scaled(torch.linspace(-1, 1, 4)).detach().requires_grad_()
    x.grad = Scaled(torch.ones(4)).detach()
    y = x * 2
    (y.sin() + y * x).sum().backward()
    return {"grad": x.grad.inner}


class Tagged(torch.Tensor):
    """A plain subclass with `__torch_function__`."""

    calls = 0

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls += 1
        return super().__torch_function__(function, types, args, kwargs or {})


@rows.add("tensor subclasses with `__torch_function__`")
def function_subclass() -> Results:
    Tagged.calls = 0
    x = torch.linspace(-1, 1, 4).as_subclass(Tagged).requires_grad_()
    h = x.sin()
    h.register_hook(lambda gradient: gradient * 2)
    (h * x).sum().backward()
    return {"grad": x.grad.as_subclass(torch.Tensor), "kind": type(x.grad).__name__, "calls": Tagged.calls}


@rows.add("`MaskedTensor`")
def masked() -> Results:
    from torch.masked import masked_tensor

    with warnings.catch_warnings():  # of the prototype, once for each process
        warnings.simplefilter("ignore")
        x = masked_tensor(torch.arange(4.0), torch.tensor([True, False, True, True]), requires_grad=True)
        (x * x).sum().backward()
    return {"grad": x.grad.get_data(), "mask": x.grad.get_mask()}


@rows.add("fake quantization, learnable scale")
def fake_quant() -> Results:
    x = torch.linspace(-1, 1, 8).requires_grad_()
    scale, zero = torch.tensor([0.05], requires_grad=True), torch.tensor([0.0], requires_grad=True)
    y = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7)
    z = torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, -8, 7, 1.0)
    (y * z).sum().backward()
    return {"x": x.grad, "scale": scale.grad, "zero": zero.grad}


@rows.add("quantization-aware training (`torch.ao.quantization`)", calls=2)
def quantization_aware() -> Results:
    from torch.ao import quantization

    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    net.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    net = quantization.prepare_qat(nn.Sequential(quantization.QuantStub(), net, quantization.DeQuantStub()).train())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.randn(5, 4)).square().sum().backward()
        optimizer.step()
    return {"state": list(net.state_dict().values())}
