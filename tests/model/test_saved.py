"""Bytes of what nodes keep: each storage once, own apart from what others hold too."""

from __future__ import annotations

from graphs import two_outputs_drawing
from hypothesis import given
from hypothesis import strategies as st
from saved_rows import Row, saved_columns

from gradscope.model.saved import EDITED, RECOMPUTED, SavedTable

MUL, SIN = 0, 1
TABLE = SavedTable(
    saved_columns(
        [
            Row(MUL, "self", 0),
            Row(MUL, "other", 1, EDITED, versions=(0, 3)),
            Row(SIN, "self", 1, shape=(3,)),
            Row(2, "result", -1, RECOMPUTED, versions=(-1, -1)),
        ],
        [(100, "leaf x"), (40, "")],
    )
)


def test_rows_of_a_node() -> None:
    first, second = TABLE.of_node(MUL)
    assert (first.row, first.name, first.shape, first.dtype, first.bytes, first.owner, first.shared) == (
        *(0, "self", (2,), "float32", 100),
        *("leaf x", []),
    )
    assert (second.text, second.version_saved, second.version_now, second.shared, second.owner) == ("edited", 0, 3, [SIN], "")
    [gone] = TABLE.of_node(2)
    assert (gone.text, gone.shape, gone.dtype, gone.bytes, gone.shared) == ("recomputed", None, "", 0, [])
    assert TABLE.of_node(3) == []
    assert list(TABLE.rows_of(SIN)) == [2]


def test_bytes() -> None:
    assert [TABLE.bytes_of_node(node) for node in (MUL, SIN, 2, 3)] == [140, 40, 0, 0]
    assert [TABLE.bytes_of_node(node, own=True) for node in (MUL, SIN)] == [40, 40]
    assert TABLE.bytes_of_nodes([MUL, SIN]) == TABLE.total == 140
    assert (TABLE.own, TABLE.by_device) == (40, {"cpu": 140})


def test_what_keeps_most_comes_first() -> None:
    assert TABLE.by_bytes() == [MUL, SIN, 2]
    assert TABLE.by_bytes(own=False) == [MUL, SIN, 2]
    other = SavedTable(saved_columns([Row(0, "a", 0), Row(1, "a", 1)], [(1000, "parameter w"), (10, "")]))
    assert other.by_bytes() == [1, 0]
    assert other.by_bytes(own=False) == [0, 1]


def test_bytes_of_modules() -> None:
    graph = two_outputs_drawing().graph()
    assert TABLE.by_module(graph) == {"": 140}


def test_no_rows() -> None:
    table = SavedTable(saved_columns([], []))
    assert (len(table), table.total, table.own, table.by_bytes()) == (0, 0, 0, [])


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 6)), max_size=30), st.lists(st.integers(1, 99), min_size=7, max_size=7)
)
def test_every_way_of_adding_up_agrees(pairs: list[tuple[int, int]], sizes: list[int]) -> None:
    rows = [Row(node, "self", storage) for node, storage in sorted(pairs)]
    used = {storage for _, storage in pairs if storage >= 0}
    place = {storage: number for number, storage in enumerate(sorted(used))}
    rows = [Row(row.node, row.name, place.get(row.storage, -1)) for row in rows]
    table = SavedTable(saved_columns(rows, [(sizes[storage], "leaf x" if storage % 2 else "") for storage in sorted(used)]))
    assert table.bytes_of_nodes(range(6)) == table.total == sum(sizes[storage] for storage in used)
    assert table.own == table.bytes_of_nodes(range(6), own=True) == sum(sizes[storage] for storage in used if not storage % 2)
    for node in range(6):
        kept = {storage for one, storage in pairs if one == node and storage >= 0}
        assert table.bytes_of_node(node) == sum(sizes[storage] for storage in kept)
        for saved in table.of_node(node):
            others = {one for one, storage in pairs if place.get(storage, -1) == saved.storage != -1 and one != node}
            assert set(saved.shared) == others
