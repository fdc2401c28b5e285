"""Indices typed by a person mean what they mean in Python."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscope.tui import indexing
from gradscope.tui.indexing import Selection

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def places(index: indexing.Index) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(*part) for part in index)))


@pytest.mark.parametrize(
    ("text", "shape", "parts"),
    [
        ("0,3,:,4:8", (2, 4, 5, 9), (0, 3, range(5), range(4, 8))),
        ("[1, -1]", (2, 3), (1, 2)),
        ("", (2, 3), (range(2), range(3))),
        ("0", (2, 3, 4), (0, range(3), range(4))),
        ("::2", (5,), (range(0, 5, 2),)),
        ("...,1", (2, 3, 4), (range(2), range(3), 1)),
        (":", (2, 3, 4), (0, range(3), range(4))),
        ("-2:", (5,), (range(3, 5),)),
    ],
)
def test_parse(text: str, shape: tuple[int, ...], parts: tuple[object, ...]) -> None:
    assert indexing.parse(text, shape).parts == parts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "dimension 0 has 2 places: 5 is outside"),
        ("0,0,0", "3 indices, but the tensor has 2 dimensions"),
        ("a", "'a' is no index"),
        ("::-1", "must be 1 or more"),
        ("0,,", "3 indices"),
        ("0,", "missing"),
        ("...,...", "only one"),
    ],
)
def test_parse_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        indexing.parse(text, (2, 3))


@given(SHAPES, st.data())
def test_text_of_a_selection_reads_back(shape: tuple[int, ...], data: st.DataObject) -> None:
    parts = [data.draw(st.integers(0, extent - 1) | st.just(range(extent))) for extent in shape]
    selection = Selection(shape, tuple(parts)).flat()
    assert indexing.parse(str(selection), shape) == selection


@given(SHAPES, st.data())
def test_piece_and_place_agree(shape: tuple[int, ...], data: st.DataObject) -> None:
    parts = [data.draw(st.integers(0, extent - 1) | st.just(range(extent))) for extent in shape]
    selection = Selection(shape, tuple(parts)).flat()
    rows, columns = selection.count(-2), selection.count(-1)
    whole = places(selection.piece(range(rows), range(columns)))
    assert whole == [selection.place(row, column) for row in range(rows) for column in range(columns)]
    for row, column in itertools.product(range(rows), range(columns)):
        place = selection.place(row, column)
        if len(selection.ranges) == 2:
            assert selection.position(place) == (row, column)
        assert selection.onto(place) == selection


@given(SHAPES, st.integers(1, 40))
def test_chunks_go_through_everything_in_order(shape: tuple[int, ...], most: int) -> None:
    pieces = [places(index) for index in indexing.chunks(shape, most)]
    assert [place for piece in pieces for place in piece] == list(itertools.product(*map(range, shape)))
    assert all(len(piece) <= most for piece in pieces)


@given(SHAPES)
def test_moved_comes_round(shape: tuple[int, ...]) -> None:
    start = selection = Selection.whole(shape)
    matrices = math.prod(shape[:-2])
    seen = []
    for _ in range(matrices):
        seen.append(selection)
        selection = selection.moved(1)
    assert selection == start
    assert len(set(seen)) == matrices
    assert start.moved(1).moved(-1) == start
