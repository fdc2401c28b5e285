import graphs
import pytest

from gradscope.model import search
from gradscope.model.rows import Folds, Rows


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
    assert search.find(Rows.build(graph, tape, Folds()), graph, tape, text) == rows


def test_a_closed_group_matches_by_what_is_in_it():
    graph, tape = graphs.gpt_like()
    rows = Rows.build(graph, tape, Folds.default(graph, tape, 8))
    found = [rows.label(row) for row in search.find(rows, graph, tape, "c_fc")]
    assert found == ["mlp +4", "h.4…h.0 Block ×5 +60"]
    assert next(rows.label(row) for row in search.find(rows, graph, tape, "Block")) == "h.5 Block"
    assert [rows.label(row) for row in search.find(rows, graph, tape, "wpe.weight")] == ["wpe wte Embedding ×2 +2"]
