from __future__ import annotations

import math
import warnings

import pytest
import torch

from gradscope.debuggee.summaries import kind_of, summarise
from gradscope.model.tensors import Summary, TensorTable

NAN, INF = float("nan"), float("inf")


def summary(tensor: torch.Tensor) -> Summary:
    return TensorTable(summarise([tensor])).summary(0)


def test_plain_numbers() -> None:
    found = summary(torch.tensor([[3.0, -4.0], [0.0, 0.0]]))
    assert (found.shape, found.dtype, found.device) == ((2, 2), "float32", "cpu")
    assert (found.norm, found.min, found.max, found.mean) == (5.0, -4.0, 3.0, -0.25)
    assert (found.nan, found.inf, found.zero) == (0, 0, 2)
    assert found.values == (3.0, -4.0, 0.0, 0.0)


def test_numbers_that_are_not_finite() -> None:
    found = summary(torch.tensor([NAN, 1.0, -INF, 0.0]))
    assert (found.min, found.max, found.nan, found.inf, found.zero) == (-INF, 1.0, 1, 1, 1)
    assert math.isnan(found.norm)
    assert math.isnan(found.mean)
    everything = summary(torch.full((3,), NAN))
    assert everything.nan == 3
    assert math.isnan(everything.min)
    infinite = summary(torch.tensor([INF, 2.0]))
    assert (infinite.norm, infinite.min, infinite.max, infinite.inf) == (INF, 2.0, INF, 1)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.bool]
)
def test_dtypes(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 1]).to(dtype)
    found = summary(tensor)
    assert found.dtype == str(dtype).removeprefix("torch.")
    assert found.norm == pytest.approx(2**0.5)
    assert (found.min, found.max, found.zero) == (0, 1, 1)
    assert found.values == tuple(tensor.tolist())


def test_half_precision_does_not_overflow() -> None:
    found = summary(torch.full((100,), 60000.0, dtype=torch.float16))
    assert found.norm == pytest.approx(60000.0 * 10, rel=1e-3)
    assert found.mean == pytest.approx(60000.0, rel=1e-3)


def test_complex() -> None:
    found = summary(torch.tensor([3 + 4j, 0]))
    assert (found.norm, found.min, found.mean, found.zero) == (5.0, None, None, 1)
    assert found.values == (3 + 4j, 0j)
    conjugate = torch.tensor([1 + 2j]).conj()
    assert summary(conjugate).values == (1 - 2j,)


def test_empty_and_scalar() -> None:
    empty = summary(torch.empty(0, 3))
    assert (empty.norm, empty.min, empty.max, empty.mean, empty.zero, empty.values) == (0.0, None, None, None, 0, ())
    assert summary(torch.tensor(2.5)).values == (2.5,)


def test_sparse() -> None:
    found = summary(torch.sparse_coo_tensor([[0, 0, 2]], [1.0, 2.0, 4.0], (4,), check_invariants=False))
    assert (found.norm, found.min, found.max, found.mean, found.zero) == (5.0, 0.0, 4.0, 1.75, 2)
    assert found.note == "sparse"
    assert summary(torch.sparse_coo_tensor(torch.empty(1, 0), torch.empty(0), (4,), check_invariants=False)).zero == 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert summary(torch.eye(3).to_sparse_csr()).norm == pytest.approx(3**0.5)


def test_small_floats() -> None:
    found = summary(torch.tensor([1.0, -2.0, 0.0]).to(torch.float8_e4m3fn))
    assert (found.norm, found.min, found.zero) == (5**0.5, -2.0, 1)


class Odd(torch.Tensor):
    pass


def test_subclasses_and_tensors_without_numbers() -> None:
    assert summary(torch.tensor([3.0, 4.0]).as_subclass(Odd)).norm == 5.0
    meta = summary(torch.empty(2, device="meta"))
    assert (meta.norm, meta.shape) == (None, (2,))
    assert meta.note
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    assert summary(nested).norm == pytest.approx(5**0.5)


def test_one_odd_tensor_does_not_spoil_its_like() -> None:
    tensors = [torch.ones(2), torch.sparse_coo_tensor([[1]], [2.0], (2,), check_invariants=False), torch.zeros(2)]
    kind = kind_of(tensors[0])
    assert kind is not None
    table = TensorTable(summarise(tensors, [0, 0, 0], [kind]))
    assert [table.summary(number).norm for number in range(3)] == [2**0.5, 2.0, 0.0]


@pytest.mark.parametrize("shape", [(3, 5), (64, 65), (1 << 17,), (3, 50_000), (1000, 300)])
def test_many_against_torch(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator).relu() - 0.1 for _ in range(5)]
    table = TensorTable(summarise([*tensors, tensors[0].t() if len(shape) == 2 else tensors[0].view(-1, 1)]))
    for number, tensor in enumerate([*tensors, tensors[0]]):
        wide = tensor.double()
        assert table.norm[number] == pytest.approx(float(wide.norm()), rel=1e-12)
        assert table.mean[number] == pytest.approx(float(wide.mean()), rel=1e-9)
        assert (table.min[number], table.max[number]) == (float(tensor.min()), float(tensor.max()))
        assert table.zero[number] == int((tensor == 0).sum())


def test_views_of_the_same_memory_with_other_elements_are_told_apart() -> None:
    base = torch.arange(8192.0)
    overlapping = base.as_strided((4096, 2), (1, 0))
    table = TensorTable(summarise([base, overlapping, base.view(2, 4096).t(), base.flip(0)]))
    assert table.max[1] == 4095.0
    assert table.max[2] == 8191.0
    assert table.norm[2] == table.norm[0]
