"""The gradients as safetensors, written and checked against the safetensors library and torch."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from graphs import Drawing
from hypothesis import given
from hypothesis import strategies as st
from reports import empty_report, random_report, stop_of, two_outputs_report
from safetensors import safe_open
from safetensors.torch import load_file

from gradscope.export.formats import export
from gradscope.export.raw import from_values
from gradscope.export.safetensors_form import chunks, read
from gradscope.findings.finding import Finding
from gradscope.model.report import Report, TensorData
from gradscope.model.tensors import Summary


def loaded(report: Report[Finding], path: Path) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    export(report, str(path))
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    return load_file(path), {name: json.loads(metadata[name]) for name in ("same", "missing")}


def test_small_tensors_need_not_be_fetched(tmp_path: Path) -> None:
    report = two_outputs_report()
    report = dataclasses.replace(report, stops=(dataclasses.replace(report.stops[0], tensors={}),))
    tensors, metadata = loaded(report, tmp_path / "a.safetensors")
    x = torch.tensor([1.0, 2.0])
    assert tensors["call1.pass1.leaf.x"].tolist() == pytest.approx((torch.tensor([1.0, 10.0]) * (2 * x + x.cos())).tolist())
    assert tensors["call1.pass1.seed0"].tolist() == [1.0, 10.0]
    assert tensors["call1.pass1.step3.sent1"].tolist() == [1.0, 20.0]
    assert metadata["same"]["call1.pass1.step1.arrived"] == "call1.pass1.seed0"  # type: ignore[index]
    assert metadata["missing"] == []


def test_fetched_tensors_go_before_values(tmp_path: Path) -> None:
    tensors, _ = loaded(two_outputs_report(), tmp_path / "a.safetensors")
    assert tensors["call1.pass1.seed0"].numpy().tobytes() == bytes(range(8))


def test_what_is_not_at_hand_is_named(tmp_path: Path) -> None:
    drawing = Drawing()
    node = drawing.node("MulBackward0", (100,))
    drawing.edge(node, drawing.leaf("w", (100,)))
    drawing.root(node)
    tensors, metadata = loaded(Report("s.py", stops=(stop_of(drawing, ((1.0, 2.0),)),)), tmp_path / "a.safetensors")
    assert "call1.pass1.leaf.w" not in tensors
    assert "call1.pass1.leaf.w" in metadata["missing"]  # type: ignore[operator]


def test_two_leaves_of_one_name(tmp_path: Path) -> None:
    drawing = Drawing()
    node = drawing.node("MulBackward0")
    drawing.edge(node, drawing.leaf("w"), (2.0,))
    drawing.edge(node, drawing.leaf("w"), (3.0,))
    drawing.root(node)
    tensors, _ = loaded(Report("s.py", stops=(stop_of(drawing, ((1.0,),)),)), tmp_path / "a.safetensors")
    assert [tensors[name].item() for name in ("call1.pass1.leaf.w", "call1.pass1.leaf.w#2")] == [2.0, 3.0]


def test_nothing_recorded(tmp_path: Path) -> None:
    assert loaded(empty_report(), tmp_path / "a.safetensors") == ({}, {"same": {}, "missing": []})


def test_random_graphs(tmp_path: Path) -> None:
    for seed in range(10):
        tensors, metadata = loaded(random_report(seed), tmp_path / "a.safetensors")
        assert set(metadata["same"].values()) <= set(tensors)  # type: ignore[attr-defined]


DTYPES = {
    torch.float64: st.floats(),
    torch.float32: st.floats(width=32),
    torch.float16: st.floats(width=16),
    torch.int64: st.integers(-(2**63), 2**63 - 1),
    torch.int32: st.integers(-(2**31), 2**31 - 1),
    torch.uint8: st.integers(0, 255),
    torch.bool: st.booleans(),
}


@given(st.sampled_from(list(DTYPES)).flatmap(lambda dtype: st.tuples(st.just(dtype), st.lists(DTYPES[dtype], max_size=5))))
def test_bytes_are_those_of_torch(case: tuple[torch.dtype, list[float]]) -> None:
    dtype, values = case
    tensor = torch.tensor(values, dtype=dtype)
    data = from_values(_summary(tensor))
    assert data is not None
    again = torch.frombuffer(bytearray(data.data), dtype=dtype) if values else tensor
    assert torch.equal(again.nan_to_num(), tensor.nan_to_num()) if dtype.is_floating_point else torch.equal(again, tensor)
    if dtype.is_floating_point:
        assert torch.equal(again.isnan(), tensor.isnan())


def test_bfloat16_and_complex() -> None:
    half = torch.tensor([1.5, -2.25, math.inf, 3e38, 1e-40], dtype=torch.bfloat16)
    data = from_values(_summary(half))
    assert data is not None
    assert data.data == half.view(torch.int16).numpy().tobytes()
    wave = torch.tensor([1 + 2j, -3j], dtype=torch.complex64)
    data = from_values(_summary(wave))
    assert data is not None
    assert (data.dtype, data.shape) == ("F32", (2, 2))
    assert data.data == torch.view_as_real(wave).numpy().tobytes()


def test_a_dtype_that_the_form_lacks() -> None:
    assert from_values(dataclasses.replace(_summary(torch.zeros(1)), dtype="quint4x2")) is None
    assert from_values(dataclasses.replace(_summary(torch.zeros(1)), values=None)) is None


def _summary(tensor: torch.Tensor) -> Summary:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Summary(tuple(tensor.shape), dtype, "cpu", *[None] * 7, values=tuple(tensor.tolist()))  # type: ignore[arg-type]


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: name != "__metadata__"), st.binary(max_size=20), max_size=5))
def test_the_form_reads_back(contents: dict[str, bytes]) -> None:
    tensors = {name: TensorData("U8", (len(data),), data) for name, data in contents.items()}
    assert read(b"".join(chunks(tensors, {"k": "v"}))) == tensors


def test_what_is_no_safetensors_file() -> None:
    with pytest.raises(ValueError, match="header"):
        read(b"garbage")
