import graphs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscope.model.folds import UNFOLDED_NODES
from gradscope.model.rows import CALL, LEAVES, MODULE, REPEATED, ROUND, SEED, STEP, Folds, Rows


def labels(rows):
    return [rows.label(row) for row in range(len(rows))]


def find(rows, label):
    return next(row for row in range(len(rows)) if rows.label(row).startswith(label))


@pytest.fixture(scope="module")
def gpt():
    return graphs.gpt_like()


@pytest.fixture
def folded(gpt):
    """As it opens on a screen of 8 rows."""
    return Rows.build(*gpt, Folds.default(*gpt, screen_rows=8))


def test_a_small_graph_opens_step_by_step():
    graph, tape = graphs.two_outputs()
    rows = Rows.build(graph, tape, Folds.default(graph, tape))
    assert labels(rows) == ["seed of J", "AddBackward0", "SinBackward0", "MulBackward0", "x  (leaf)"]
    assert [rows.kind(row) for row in range(5)] == [SEED, STEP, STEP, STEP, STEP]
    assert [(rows.first(row), rows.last(row)) for row in range(5)] == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    assert [rows.node(row) for row in range(5)] == [-1, 2, 1, 0, 3]
    assert [rows.row_of_step(step) for step in range(5)] == [0, 1, 2, 3, 4]
    assert [rows.folded(row) for row in range(5)] == [None] * 5
    assert [rows.key(row) for row in range(5)] == [None] * 5


def test_a_big_graph_opens_as_an_outline(folded):
    assert labels(folded) == [
        "seed of loss",
        "cross_entropy",
        "lm_head Linear +1",
        "ln_f LayerNorm +2",
        "h.5 Block",
        "AddBackward0",
        "mlp +4",
        "ln_2 LayerNorm +2",
        "AddBackward0",
        "attn Attention +4",
        "ln_1 LayerNorm +2",
        "h.4…h.0 Block ×5 +60",
        "AddBackward0",
        "wpe wte Embedding ×2 +2",
    ]
    kinds = [folded.kind(row) for row in range(len(folded))]
    assert kinds == [SEED, CALL, *[MODULE] * 3, STEP, MODULE, MODULE, STEP, MODULE, MODULE, REPEATED, STEP, REPEATED]
    assert [folded.depth(row) for row in range(len(folded))] == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0]
    assert [folded.folded(row) for row in (1, 4, 5, 6)] == [True, False, None, True]


def test_the_outline_has_rails(folded):
    assert [folded.rail(row).text for row in range(len(folded))] == [
        "●",
        "●",
        "●",
        "●",
        "●",
        "●─╮",
        "│ ●",
        "│ ●",
        "●─┤",
        "│ ●",
        "│ ●",
        "●─╯",
        "●",
        "●",
    ]


def test_groups_begun_show_as_run(folded):
    attn = find(folded, "attn")
    middle = folded.first(attn) + 3
    assert folded.row_of_step(middle) == attn
    assert [folded.glyph(row, middle) for row in (0, attn, attn + 1)] == ["▽", "●", "○"]


def test_it_is_folded_deeper_on_a_smaller_screen(gpt):
    small = Rows.build(*gpt, Folds.default(*gpt, screen_rows=5))
    assert len(small) == 7
    assert labels(small)[4] == "h.5…h.0 Block ×6 +72"


def test_opening_a_series_lists_its_members(gpt, folded):
    series = find(folded, "h.4…h.0")
    rows = Rows.build(*gpt, folded.folds.open(folded.key(series)))
    assert [label for label in labels(rows) if label.startswith("h.")] == [
        "h.5 Block",
        "h.4 Block +12",
        "h.3 Block +12",
        "h.2 Block +12",
        "h.1 Block +12",
        "h.0 Block +12",
    ]
    member = find(rows, "h.3")
    again = Rows.build(*gpt, rows.folds.close(rows.outer_key(member)))
    assert labels(again) == labels(folded)


def test_an_open_member_splits_its_series(gpt, folded):
    listed = Rows.build(*gpt, folded.folds.open(folded.key(find(folded, "h.4…h.0"))))
    opened = listed.folds.open(listed.key(find(listed, "h.3")))
    rows = Rows.build(*gpt, opened.close(listed.outer_key(find(listed, "h.3"))))
    blocks = [label for label in labels(rows) if label.startswith("h.")]
    assert blocks == ["h.5 Block", "h.4 Block +12", "h.3 Block", "h.2…h.0 Block ×3 +36"]


def test_closing_at_a_step_closes_the_group_around_it(gpt, folded):
    step = find(folded, "AddBackward0")
    assert folded.key(step) == folded.outer_key(step) == folded.key(find(folded, "h.5"))
    rows = Rows.build(*gpt, folded.folds.close(folded.key(step)))
    assert "h.5…h.0 Block ×6 +72" in labels(rows)


def test_opening_down_to_the_nodes(gpt, folded):
    """As a session opens folds around a step: until its row is a single node."""
    rows, step = folded, 200
    while rows.folded(row := rows.row_of_step(step)):
        rows = Rows.build(*gpt, rows.folds.open(rows.key(row)))
    assert rows.kind(row) == STEP
    assert rows.first(row) <= step <= rows.last(row)
    assert rows.depth(row) > 0


def test_leaves_stand_with_their_consumer_or_alone(gpt):
    graph, tape = gpt
    together = Rows.build(graph, tape, Folds(leaves=True))
    row = find(together, "NativeLayerNormBackward0")
    assert (together.label(row), together.leaf_count(row)) == ("NativeLayerNormBackward0 +2", 2)
    assert together.last(row) == together.first(row) + 2
    alone = Rows.build(graph, tape, together.folds.with_leaves(False))
    assert len(alone) == tape.steps + 1
    assert "ln_f.weight  (leaf)" in labels(alone)


def test_roots_that_are_leaves_come_first():
    drawing = graphs.Drawing()
    for name in "ab":
        drawing.root(drawing.leaf(name), name)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,), (1.0,)])
    rows = Rows.build(graph, tape, Folds(leaves=True))
    assert (rows.kind(1), rows.first(1), rows.last(1), rows.label(0)) == (LEAVES, 1, 2, "seed of a, b")


def test_closing_a_module_of_a_small_graph():
    graph, tape = graphs.gpt_like(blocks=1)
    assert len(graph) <= UNFOLDED_NODES
    rows = Rows.build(graph, tape, Folds.default(graph, tape))
    assert len(rows) == tape.steps + 1
    row = find(rows, "GeluBackward0")
    key = rows.key(row)
    closed = Rows.build(graph, tape, rows.folds.close(key))
    assert closed.label(row) == "act GELU"
    assert closed.folded(row) is True
    around = Rows.build(graph, tape, closed.folds.close(closed.outer_key(row)))
    assert "mlp +4" in labels(around)
    assert labels(Rows.build(graph, tape, around.folds.open(around.key(find(around, "mlp"))))) == labels(closed)


def test_a_loop_is_one_series_of_rounds():
    graph, tape = graphs.recurrent(100)
    rows = Rows.build(graph, tape, Folds.default(graph, tape, 30))
    assert labels(rows) == [
        "seed of h",
        "Tanh Add Mm",
        "TanhBackward0",
        "AddBackward0",
        "MmBackward0",
        "Tanh Add Mm ×99 +3",
    ]
    assert [rows.kind(row) for row in range(6)] == [SEED, ROUND, STEP, STEP, STEP, REPEATED]
    opened = Rows.build(graph, tape, rows.folds.open(rows.key(5)))
    assert len(opened) == 100 + 3 + 1


def test_folds_go_over_to_the_next_call(gpt, folded):
    graph, tape = graphs.gpt_like()
    fresh = Folds.default(graph, tape, 8)
    assert labels(Rows.build(graph, tape, fresh.like(folded.folds))) == labels(folded)
    small = graphs.two_outputs()
    assert Folds.default(*small).like(folded.folds) == Folds()


def test_nodes_that_never_run_are_no_rows():
    drawing = graphs.two_outputs_drawing()
    other = drawing.leaf("w")
    side = drawing.node("ExpBackward0", (2,))
    drawing.edge(2, side)
    drawing.edge(side, other)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 1.0)], inputs=[3])
    rows = Rows.build(graph, tape, Folds.default(graph, tape))
    assert "ExpBackward0" not in labels(rows)
    assert rows.rail(1).text == "●─╮"


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    outline=st.booleans(),
    leaves=st.booleans(),
    steps=st.lists(st.integers(1, 400), max_size=8),
)
def test_rows_cover_every_step_once(gpt, seed, outline, leaves, steps):
    graph, tape = graphs_for(seed, gpt)
    rows = Rows.build(graph, tape, Folds(outline, leaves))
    for step in steps:
        key = rows.key(rows.row_of_step(1 + step % tape.steps))
        if key is not None:
            rows = Rows.build(graph, tape, rows.folds.toggle(key))
    plain = [row for row in range(1, len(rows)) if rows.folded(row) is not False]
    assert [(rows.first(row), rows.last(row)) for row in plain] == list(
        zip([1, *(rows.last(row) + 1 for row in plain[:-1])], [rows.last(row) for row in plain], strict=True)
    )
    assert rows.last(plain[-1]) == tape.steps
    for row in plain:
        assert rows.row_of_step(rows.first(row)) == rows.row_of_step(rows.last(row)) == row
    for row in range(len(rows)):
        assert rows.rail(row).text
        assert rows.label(row)


def graphs_for(seed, gpt):
    if seed % 3 == 0:
        return gpt
    if seed % 3 == 1:
        return graphs.recurrent(5 + seed % 50)
    drawing = graphs.random_drawing(seed)
    graph = drawing.graph()
    return graph, drawing.tape(graph, [(1.0,)] * len(drawing.roots))


def test_a_very_deep_chain():
    graph, tape = graphs.chain(200_000)
    rows = Rows.build(graph, tape, Folds.default(graph, tape))
    assert labels(rows) == ["seed of y", "Sin ×200000 +1"]
    unfolded = Rows.build(graph, tape, Folds())
    assert len(unfolded) == tape.steps + 1
    assert unfolded.rail(tape.steps).draw(unfolded.glyph(tape.steps, 0)) == "◇"
    assert unfolded.row_of_step(123_456) == 123_456
