"""Numbers on the screen: short, aligned, and never a lie about zero."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscope.tui import numbers

FLOATS = st.floats(allow_nan=True, allow_infinity=True)
VALUES = st.one_of(FLOATS, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.complex_numbers())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10.04987562112089, "10.05"),
        (4.1964, "4.196"),
        (1.0, "1.000"),
        (0.6822, "0.682"),
        (0.0193, "1.9e-02"),
        (9.99996, "10.00"),
        (999.96, "1000"),
        (12345.0, "1.2e+04"),
        (-8.6357, "-8.636"),
        (0.0, "0"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (1.5e-300, "2e-300"),
        (None, "?"),
    ],
)
def test_norm_is_written_as_in_the_pictures(value: float | None, text: str) -> None:
    assert numbers.norm(value) == text


@given(FLOATS)
def test_norm_never_takes_more_than_its_column(value: float) -> None:
    assert len(numbers.norm(value)) <= numbers.NORM_WIDTH


@given(FLOATS)
def test_only_zero_looks_like_zero(value: float) -> None:
    for text in (numbers.norm(value), numbers.fixed(value), numbers.short(value), numbers.gain(value).removeprefix("×")):
        if not math.isnan(value):
            assert (float(text) == 0) == (value == 0)


@given(FLOATS)
def test_sign_is_kept(value: float) -> None:
    for text in (numbers.norm(value), numbers.fixed(value), numbers.short(value)):
        if not math.isnan(value):
            assert text.startswith("-") == (math.copysign(1, value) < 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5403023, "0.5403"),
        (-4.161468, "-4.1615"),
        (10.0, "10.0000"),
        (1e-05, "1.000e-05"),
        (123456.0, "1.235e+05"),
        (3, "3"),
        (True, "True"),
        (1 - 2j, "1.0000-2.0000j"),
        (complex(0, math.inf), "0+infj"),
    ],
)
def test_fixed(value: complex, text: str) -> None:
    assert numbers.fixed(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.0"), (10.0, "10.0"), (0.25, "0.25"), (1e-5, "1e-05"), (2, "2"), (math.nan, "nan"), (-math.inf, "-inf")],
)
def test_short(value: float, text: str) -> None:
    assert numbers.short(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.41407, "×0.41"), (0.046, "×0.046"), (1.0, "×1"), (12.3, "×12"), (0.0, "×0"), (1e-9, "×1.0e-09"), (math.inf, "×inf")],
)
def test_gain(ratio: float, text: str) -> None:
    assert numbers.gain(ratio) == text


@pytest.mark.parametrize(
    ("values", "width", "text"),
    [
        ((1.0, 2.0), 13, "1.0000 2.0000"),
        ((1.0, 2.0), 12, "1.000 2.000"),
        ((0.25, -4.16147), 10, "0.25 -4.16"),
        ((0.25, -4.16147), 9, ""),
        ((0.004, 0.0), 9, "4.0e-03 0"),
    ],
)
def test_values_take_fewer_decimals_where_there_is_less_room(values: tuple[float, ...], width: int, text: str) -> None:
    assert numbers.beside(values, width) == text


@given(VALUES)
def test_exact_text_gives_the_value_back(value: complex) -> None:
    text = numbers.exact(value)
    if isinstance(value, bool):
        assert text == str(value)
    elif isinstance(value, int):
        assert int(text) == value
    elif isinstance(value, float):
        assert float(text) == value or math.isnan(value)
    else:
        back = complex(text)
        assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in ((back.real, value.real), (back.imag, value.imag)))


@given(st.lists(VALUES, max_size=12))
def test_row_is_aligned(values: list[complex]) -> None:
    widths = [max(numbers.COLUMN, len(numbers.fixed(value))) for value in values]
    assert [len(cell) for cell in numbers.row(values, widths)] == widths


@given(st.lists(FLOATS, min_size=1, max_size=30))
def test_grid_cells_are_of_one_width_and_near_their_value(values: list[float]) -> None:
    grid = numbers.grid(values)
    assert {len(cell) for cell in grid.cells} == {grid.width}
    for value, cell in zip(values, grid.cells, strict=True):
        if cell.strip() == numbers.NEARLY_ZERO:
            assert 0 < abs(Decimal(value).scaleb(-grid.exponent)) < Decimal("1e-307")
        elif math.isfinite(value):
            scaled = Decimal(value).scaleb(-grid.exponent)
            assert abs(Decimal(cell.strip()) - scaled) <= Decimal("0.0005001") + abs(scaled) * Decimal("1e-12")
            assert (float(cell) == 0) == (value == 0)
        else:
            assert cell.strip() == numbers.special(value)


def test_grid_as_in_the_picture() -> None:
    grid = numbers.grid([1.204e-5, -0.331e-5, 0.0])
    assert grid == numbers.Grid(-5, [" 1.204", "-0.331", "     0"])
    assert grid.factor == "×1e-5"
    assert numbers.grid([1.5, 20.0]) == numbers.Grid(0, [" 1.500", "20.000"])
    assert numbers.grid([1.0, 4e-9, -2e-4, 0.0]).cells == [" 1.000", " 4e-09", "-2e-04", "     0"]
    assert numbers.grid([1e250, 1e-300]).cells == ["1.000", "   ~0"]
    assert numbers.grid([True, False]).cells == [" True", "False"]
    assert numbers.grid([]) == numbers.Grid(0, [])


def test_shape() -> None:
    assert numbers.shape((8, 64, 384)) == "[8,64,384]"
    assert numbers.shape(()) == "[]"
