"""Parts of tensors out of summaries and snapshots."""

from __future__ import annotations

import struct

import pytest

from gradscope.model.report import TensorData
from gradscope.session.slices import of_data, of_values, shape_of


def test_a_slice_of_values_is_row_major():
    index = [(0, 2, 1), (1, 3, 2)]
    assert shape_of(index) == (2, 1)
    assert of_values((1, 2, 3, 4, 5, 6), (2, 3), index) == [2, 5]


def test_a_scalar_has_one_place():
    assert (shape_of([]), of_values((7.5,), (), [])) == ((), [7.5])


def test_complex_values_take_two_places():
    assert of_values((1 + 2j, 3 - 4j), (2,), [(1, 2, 1)]) == [3.0, -4.0]


@pytest.mark.parametrize(
    ("dtype", "form", "values"),
    [
        ("F64", "d", [0.1, -2.0, 3.0, 1e300]),
        ("F32", "f", [0.5, -2.0, 3.0, float("inf")]),
        ("F16", "e", [0.5, -2.0, 3.0, 65504.0]),
        ("I64", "q", [1, -2, 3, 2**62]),
        ("U8", "B", [1, 2, 3, 255]),
        ("BOOL", "?", [True, False, True, True]),
    ],
)
def test_stored_tensors_are_read(dtype: str, form: str, values: list[float]):
    tensor = TensorData(dtype, (2, 2), struct.pack(f"<4{form}", *values))
    assert of_data(tensor, [(0, 2, 1), (0, 2, 1)]) == values
    assert of_data(tensor, [(1, 2, 1), (0, 2, 1)]) == values[2:]


def test_bfloat16_is_the_upper_half_of_a_float32():
    halves = [struct.pack("<f", value)[2:] for value in (1.5, -3.0)]
    assert of_data(TensorData("BF16", (2,), b"".join(halves)), [(0, 2, 1)]) == [1.5, -3.0]


def test_what_only_torch_can_read_is_left():
    assert of_data(TensorData("F8_E4M3", (2,), b"ab"), [(0, 2, 1)]) is None
