import random

import graphs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscope.model.rails import MOST_LANES, Rails
from gradscope.model.rows import Folds, Rows


def drawn(edges: dict[int, list[int]], count: int) -> list[str]:
    rails = Rails(count, lambda row: edges.get(row, []))
    return [rails.rail(row).text for row in range(count)]


def test_the_pictured_rails():
    graph, tape = graphs.two_outputs()
    rows = Rows.build(graph, tape, Folds.default(graph, tape))
    assert [rows.rail(row).draw(rows.glyph(row, 2)) for row in range(5)] == ["▽", "●─╮", "│ ●", "○ │", "◇─╯"]


def test_a_residual_block():
    assert drawn({0: [1], 1: [4, 2], 2: [3], 3: [4], 4: [5]}, 6) == ["●", "●─╮", "│ ●", "│ ●", "●─╯", "●"]


def test_a_lane_merges_and_another_opens_in_its_place():
    assert drawn({0: [2, 1], 1: [2], 2: [4, 3], 3: [4]}, 5) == ["●─╮", "│ ●", "●─┤", "│ ●", "●─╯"]


def test_several_lanes_open_and_merge():
    assert drawn({0: [4, 3, 2, 1], 1: [4], 2: [4], 3: [4]}, 5) == ["●─┬─┬─╮", "│ │ │ ●", "│ │ ● │", "│ ● │ │", "●─┴─┴─╯"]


def test_a_further_edge_joins_a_lane_that_waits_for_the_same_row():
    assert drawn({0: [3, 1, 2], 1: [4, 3], 2: [3], 3: [4]}, 5)[1] == "├─● │"


def test_a_lane_that_only_passes_is_crossed():
    # row 1 stands in lane 1 and opens lane 3 across lane 2
    assert drawn({0: [5, 1, 4], 1: [2, 3]}, 6)[1] == "│ ●─┼─╮"


def test_a_free_lane_at_the_left_is_used():
    # lane 0 is free once row 1 has ended there
    assert drawn({0: [1, 2], 2: [4, 3]}, 5) == ["●─╮", "● │", "╭─●", "● │", "  ●"]


def test_rows_without_edges_start_anew():
    assert drawn({}, 3) == ["●", "●", "●"]


def test_more_than_twelve_lanes_are_cut():
    wide = {0: list(range(1, 21))}
    texts = drawn(wide, 21)
    assert texts[0] == "●" + "─┬" * (MOST_LANES - 1) + "─…"
    assert texts[20].rstrip().endswith("●")
    assert max(map(len, texts)) == 2 * MOST_LANES + 1


def test_the_sign_is_always_in_sight():
    rails = Rails(21, lambda row: list(range(1, 21)) if not row else [])
    for row in range(21):
        rail = rails.rail(row)
        assert rail.draw("X")[rail.column] == "X"
        assert rail.text.count("●") == 1


def test_no_such_row():
    with pytest.raises(IndexError, match="row 3 of 3"):
        Rails(3, lambda row: []).rail(3)


def random_edges(seed: int, count: int) -> dict[int, list[int]]:
    rng = random.Random(seed)
    return {
        row: rng.sample(range(row + 1, min(count, row + 40)), min(rng.choice([0, 1, 1, 1, 2, 3]), min(count, row + 40) - row - 1))
        for row in range(count - 1)
    }


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_any_page_is_drawn_as_from_the_top(seed):
    count = 900
    edges = random_edges(seed, count)
    straight = drawn(edges, count)
    rails = Rails(count, lambda row: edges.get(row, []))
    order = random.Random(seed).sample(range(count), 60)
    assert [rails.rail(row).text for row in order] == [straight[row] for row in order]


UP, DOWN, LEFT, RIGHT = "│●┼┤├╯╰┴", "│●┼┤├╮╭┬", "─●┼┤╯╮┴┬", "─●┼├╰╭┴┬"


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**9), count=st.integers(2, 16))
def test_every_edge_can_be_followed_in_the_picture(seed, count):
    """From a row's sign down and sideways along the lines one comes to each row that it sends to."""
    edges = random_edges(seed, count)
    texts = [text.ljust(60) for text in drawn(edges, count)]
    if any("…" in text for text in texts):
        return
    for row, targets in edges.items():
        assert set(targets) <= followed(texts, row)


def followed(texts: list[str], row: int) -> set[int]:
    found, todo, seen = set(), [(row, texts[row].index("●"))], set()
    while todo:
        here = todo.pop()
        if here in seen:
            continue
        seen.add(here)
        line, column = here
        sign = texts[line][column]
        if sign == "●" and line != row:
            found.add(line)
            continue
        for turn, signs, back in ((-1, LEFT, RIGHT), (1, RIGHT, LEFT)):
            if sign in signs and column + turn >= 0 and texts[line][column + turn] in back:
                todo.append((line, column + turn))
        if sign in DOWN and line + 1 < len(texts) and texts[line + 1][column] in UP:
            todo.append((line + 1, column))
    return found
