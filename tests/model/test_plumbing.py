"""Hiding view-like nodes: every step stays in exactly one row, and what is hidden is counted."""

from __future__ import annotations

from dataclasses import replace

import graphs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscope.model.folds import Folds
from gradscope.model.modules import Outline
from gradscope.model.plumbing import hidden_steps
from gradscope.model.rows import LEAVES, Rows
from gradscope.model.tape import Tape
from gradscope.session.stepping import Walk


def linear() -> graphs.Drawing:
    """y = F.linear(x.view(…), W, b).transpose(…): the transposed weight and the views lie between nodes that matter."""
    drawing = graphs.Drawing()
    x, weight, bias = drawing.leaf("x"), drawing.leaf("W"), drawing.leaf("b")
    viewed = drawing.node("ViewBackward0")
    drawing.edge(viewed, x)
    turned = drawing.node("TBackward0")
    drawing.edge(turned, weight)
    product = drawing.node("AddmmBackward0")
    for target in (bias, viewed, turned):
        drawing.edge(product, target)
    out = drawing.node("TransposeBackward0")
    drawing.edge(out, product)
    loss = drawing.node("SumBackward0")
    drawing.edge(loss, out)
    drawing.root(loss)
    return drawing


def rows_of(folds: Folds) -> Rows:
    drawing = linear()
    graph = drawing.graph()
    return Rows.build(graph, drawing.tape(graph, [(1.0,)]), folds)


def shown(rows: Rows) -> list[tuple[int, int, str]]:
    return [(rows.first(row), rows.last(row), rows.label(row)) for row in range(1, len(rows))]


def test_unfolded_views_join_the_row_above_or_below() -> None:
    rows = rows_of(Folds(plumbing=True))
    assert shown(rows) == [
        (1, 2, "SumBackward0 +1 view"),
        (3, 3, "AddmmBackward0"),
        (4, 4, "b  (leaf)"),
        (5, 6, "W  (leaf) +1 view"),
        (7, 8, "x  (leaf) +1 view"),
    ]
    assert (rows.hidden, rows.head(4), rows.kind(4), rows.leaf_count(4)) == (3, 6, "step", 0)


def test_with_leaves_folded_in() -> None:
    assert shown(rows_of(Folds(plumbing=True, leaves=True))) == [
        (1, 2, "SumBackward0 +1 view"),
        (3, 8, "AddmmBackward0 +3 +2 views"),
    ]


def test_a_step_runs_one_visible_row() -> None:
    drawing = linear()
    graph = drawing.graph()
    walk = Walk(graph, drawing.tape(graph, [(1.0,)]))
    assert walk.toggle_plumbing() == "3 view-like nodes hidden: P shows them"
    seen = []
    while walk.playhead < walk.tape.steps:
        walk.step(1)
        seen.append((walk.playhead, walk.selection))
    assert seen == [(2, 1), (3, 2), (4, 3), (6, 4), (8, 5)]
    while walk.playhead:
        walk.step(-1)
        seen.append((walk.playhead, walk.selection))
    assert seen[5:] == [(6, 4), (4, 3), (3, 2), (2, 1), (0, 0)]


def test_a_leaf_runs_after_the_views_that_lead_to_it() -> None:
    rows = rows_of(Folds(plumbing=True))
    assert [rows.glyph(2, step) for step in (2, 3)] == ["○", "●"]
    assert rows.row_of_step(5) == 4


def test_edges_are_followed_through_what_is_hidden() -> None:
    drawing = linear()
    graph = drawing.graph()
    walk = Walk(graph, drawing.tape(graph, [(1.0,)]))
    walk.toggle_plumbing()
    walk.select(2)
    assert [choice.label for choice in walk.neighbours(toward_loss=False)] == ["x  (leaf)", "W  (leaf)", "b  (leaf)"]
    assert [choice.label for choice in walk.neighbours(toward_loss=True)] == ["SumBackward0"]


def test_going_to_a_hidden_node_shows_them_all() -> None:
    drawing = linear()
    graph = drawing.graph()
    walk = Walk(graph, drawing.tape(graph, [(1.0,)]))
    walk.toggle_plumbing()
    walk.select_node(3)
    assert (walk.folds.plumbing, graph.op(walk.rows.node(walk.selection))) == (False, "ViewBackward0")
    walk.toggle_plumbing()
    assert walk.toggle_plumbing() == "view-like nodes are shown"


def test_nodes_of_which_there_is_more_to_say_stay() -> None:
    drawing = linear()
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,)])
    assert [step for step in range(tape.steps + 1) if hidden_steps(graph, tape)[step]] == [2, 5, 7]
    graph.columns.foreign[tape.node_at(5)] = "hook clip (a.py:3)"
    hooked = drawing.tape(graph, [(1.0,)])
    hooked.columns.hook_changed.append(7)
    assert [step for step in range(tape.steps + 1) if hidden_steps(graph, hooked)[step]] == [2]


def covers(rows: Rows, steps: int) -> bool:
    """The rows that are no headings cover every step once, in order."""
    bounds = [(rows.first(row), rows.last(row)) for row in rows.covering]
    ends = [0, *(last for _, last in bounds[1:])]
    return all(first == end + 1 for (first, _), end in zip(bounds[1:], ends, strict=False)) and bounds[-1][1] == steps


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("outline", [True, False])
def test_a_transformer_is_covered_at_every_depth(outline: bool, leaves: bool) -> None:
    graph, tape = graphs.gpt_like(3)
    folds: Folds | None = Folds(outline=outline, leaves=leaves, plumbing=True, depth=0 if outline else -1)
    while folds is not None:
        rows, plain = Rows.build(graph, tape, folds), Rows.build(graph, tape, folds.with_plumbing(False))
        assert covers(rows, tape.steps)
        assert len(rows) <= len(plain)
        assert rows.hidden <= sum(hidden_steps(graph, tape))
        folds = folds.by_depth(graph, tape, 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.booleans(), st.data())
def test_any_graph_is_covered(seed: int, outline: bool, leaves: bool, data: st.DataObject) -> None:
    drawing = graphs.random_drawing(seed)
    drawing.ops = [data.draw(st.sampled_from([op, "ViewBackward0"])) if op != "AccumulateGrad" else op for op in drawing.ops]
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,)] * len(graph.roots))
    rows = Rows.build(graph, tape, Folds(outline=outline, leaves=leaves, plumbing=True))
    assert covers(rows, tape.steps)
    assert all(rows.row_of_step(rows.head(row)) == row for row in rows.covering)
    assert all(rows.kind(row) != LEAVES or rows.last(row) > rows.head(row) for row in rows.covering)
    assert all(target > row for row in rows.covering for target in rows.targets(row))
    if not outline:
        marks = hidden_steps(graph, tape)
        visible = {rows.head(row) for row in rows.covering}
        heads = set(Outline.of(graph, tape).heads) if leaves else set(range(1, tape.steps + 1))
        assert {step for step in heads if not marks[step]} <= visible
        assert len(heads) == len(visible) - 1 + rows.hidden


@pytest.mark.parametrize("folds", [Folds(), Folds(plumbing=True), Folds(leaves=True), Folds(outline=True)])
def test_a_pass_that_ran_nothing_has_its_seed_alone(folds: Folds) -> None:
    drawing = linear()
    graph = drawing.graph()
    columns = drawing.tape(graph, [(1.0,)]).columns
    columns.step_node = columns.arrival_step = columns.arrival_input_nr = columns.arrival_tensor = b""
    for name in ("step", "edge", "tensor", "so_far"):
        setattr(columns, f"contribution_{name}", getattr(columns, f"contribution_{name}")[:4])
    rows = Rows.build(graph, Tape(columns, graph), folds)
    assert (len(rows), rows.row_of_step(0), rows.hidden) == (1, 0, 0)


def test_folds_keep_it_when_they_change() -> None:
    folds = Folds(plumbing=True)
    assert folds.close("a").plumbing
    assert Folds(outline=True).like(folds) == Folds(outline=True, plumbing=True)
    assert replace(folds, plumbing=False) == Folds()
