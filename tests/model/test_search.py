import time

import graphs
import pytest

from gradscope.model.rows import Folds, Rows
from gradscope.model.search import Matches


def _rows_of(found: Matches, rows: Rows) -> list[int]:
    return [row for row in range(len(rows)) if row in found]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("sin", [2]),
        ("Sin", [2]),
        ("SIN", []),
        ("x * x", [3]),
        ("back", [1, 2, 3]),
        ("/^(Sin|Mul)/", [2, 3]),
        ("/[/", []),
        ("", []),
        ("seed of J", [0]),
        ("x", [2, 3, 4]),
        ("nothing", []),
    ],
)
def test_rows_that_match(text, rows):
    graph, tape = graphs.two_outputs()
    visible = Rows.build(graph, tape, Folds())
    found = Matches(visible, graph, tape, text)
    assert _rows_of(found, visible) == rows
    assert len(found) == len(rows)


def test_folds_hide_no_match_and_closed_groups_match_by_their_own_names():
    graph, tape = graphs.gpt_like()
    flat = Rows.build(graph, tape, Folds())
    rows = Rows.build(graph, tape, Folds.default(graph, tape, 8))
    everywhere = Matches(flat, graph, tape, "c_fc")
    found = Matches(rows, graph, tape, "c_fc")
    assert len(found) == len(everywhere) == len(_rows_of(everywhere, flat)) > 6
    assert _rows_of(found, rows) == []
    named = Matches(rows, graph, tape, "Block")
    assert [rows.label(row) for row in _rows_of(named, rows)] == ["h.5 Block", "h.4…h.0 Block ×5 +60"]
    assert len(named) == 2


@pytest.mark.parametrize("text", ["c_fc", "Block", "mlp", "/ln|Block/", "weight"])
@pytest.mark.parametrize("folded", [True, False])
def test_the_walk_meets_each_match_once_in_both_directions(text, folded):
    graph, tape = graphs.gpt_like()
    rows = Rows.build(graph, tape, Folds.default(graph, tape, 8) if folded else Folds())
    found = Matches(rows, graph, tape, text)
    places = [found.first]
    while len(places) < len(found):
        step, row = places[-1]
        below = [place for place in _all(found, rows) if found.number(place) == len(places) + 1]
        assert len(below) == 1
        if row < 0 and rows.node(rows.row_of_step(step)) == tape.node_at(step):
            assert found.after(rows.row_of_step(step)) == below[0]
            assert found.before(rows.row_of_step(step)) == (places[-2] if len(places) > 1 else None)
        places.append(below[0])
    assert places[-1] == found.last


def _all(found: Matches, rows: Rows):
    return [*((step, -1) for step in found._steps), *((rows.first(row), row) for row in found._groups)]


def test_a_move_is_fast_in_a_long_tape():
    graph, tape = graphs.chain(200_000)
    rows = Rows.build(graph, tape, Folds())
    found = Matches(rows, graph, tape, "sin")
    started = time.perf_counter()
    row = 0
    for _ in range(200):
        place = found.after(row)
        assert place is not None
        assert found.number(place) > 0
        row = rows.row_of_step(place[0])
    assert (time.perf_counter() - started) / 200 < 0.005
