"""JSON that any reader takes."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscope.export.strict_json import EXACT, chunks, plain

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def refuse(token: str) -> float:
    raise AssertionError(f"{token} is not strict JSON")


def loads(value: object) -> object:
    return json.loads(b"".join(chunks(value)), parse_constant=refuse)


def test_numbers_that_json_lacks() -> None:
    assert plain([math.nan, math.inf, -math.inf, 1 + 2j, complex(math.nan, -0.0)]) == [
        "nan",
        "inf",
        "-inf",
        [1.0, 2.0],
        ["nan", -0.0],
    ]


def test_integers_that_a_double_rounds() -> None:
    assert plain([EXACT, EXACT + 1, -EXACT, -EXACT - 1]) == [EXACT, "9007199254740993", -EXACT, "-9007199254740993"]
    assert plain(True) is True


def test_what_has_no_form() -> None:
    with pytest.raises(TypeError, match="bytes"):
        plain([b"raw"])


def test_bytes_of_a_file_name_that_are_no_text() -> None:
    assert loads({"file": "caf\udce9.py"}) == {"file": "caf?.py"}


def test_iterators_are_arrays_of_one_line_an_item() -> None:
    text = b"".join(chunks({"a": iter([1, {"b": iter([])}]), "c": [2]})).decode()
    assert json.loads(text) == {"a": [1, {"b": []}], "c": [2]}
    assert text.splitlines()[2] == "1,"


@given(VALUES)
def test_always_strict(value: object) -> None:
    assert loads(value) == loads(plain(value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_digit_is_lost(value: float) -> None:
    read = loads([value])
    assert read == [value]
    assert math.copysign(1, read[0]) == math.copysign(1, value)


@given(VALUES)
def test_plain_is_idempotent_once_json(value: object) -> None:
    assert plain(loads(value)) == loads(value)
