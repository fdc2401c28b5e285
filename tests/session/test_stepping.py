"""What each step key does, on graphs made by hand."""

from __future__ import annotations

import math

import pytest
from graphs import Drawing, chain, random_drawing, recurrent, two_outputs, two_outputs_drawing
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import call as called

from gradscope.model.modules import Outline
from gradscope.session.browsing import FOLDED, NO_ROW
from gradscope.session.landmark import Landmark
from gradscope.session.run import Visit
from gradscope.session.session import Session
from gradscope.session.stepping import AT_END, AT_START, Walk
from gradscope.session.view import Stop


@pytest.fixture
def walk() -> Walk:
    """Steps: 1 Add, 2 Sin, 3 Mul, 4 x."""
    return Walk(*two_outputs())


def blocks(count: int = 60, calls: int = 5) -> Walk:
    """A network of so many blocks, each a module whose forward makes `calls` nodes and uses a weight: opens folded."""
    drawing = Drawing()
    below = drawing.leaf("x", kind="tensor")
    for block in range(count):
        weight = drawing.leaf(f"h.{block}.w")
        for call in range(calls):
            origin = drawing.origin("/home/ada/model.py", 10 + call, f"y{call} = x.f()", f"h.{block}", "Block")
            node = drawing.node("MulBackward0", origin=origin)
            drawing.edge(node, below, (0.5,))
            if not call:
                drawing.edge(node, weight, (0.25,))
            below = node
    drawing.root(below)
    graph = drawing.graph()
    return Walk(graph, drawing.tape(graph, [(1.0,)]), screen_rows=20)


def test_steps_move_playhead_and_selection_together(walk: Walk):
    assert [(walk.step(1), walk.playhead, walk.selection) for _ in range(5)] == [
        ("", 1, 1),
        ("", 2, 2),
        ("", 3, 3),
        ("", 4, 4),
        (AT_END, 4, 4),
    ]
    assert [(walk.step(-1), walk.playhead, walk.selection) for _ in range(5)] == [
        ("", 3, 3),
        ("", 2, 2),
        ("", 1, 1),
        ("", 0, 0),
        (AT_START, 0, 0),
    ]


def test_the_selection_moves_alone_and_a_step_takes_it_along(walk: Walk):
    walk.step(1)
    walk.move(3)
    assert (walk.playhead, walk.selection) == (1, 4)
    walk.move(9)
    assert walk.selection == 4
    walk.step(1)
    assert (walk.playhead, walk.selection) == (2, 2)
    walk.move(-9)
    assert walk.selection == 0
    walk.select_playhead()
    assert walk.selection == 2


def test_source_lines(walk: Walk):
    assert [(walk.line(1), walk.playhead) for _ in range(4)] == [("", 1), ("", 2), ("", 3), ("", 4)]
    assert walk.line(1) == AT_END
    assert [(walk.line(-1), walk.playhead) for _ in range(2)] == [("", 2), ("", 1)]


def test_to_the_end_and_back(walk: Walk):
    assert (walk.run(1, ()), walk.playhead, walk.selection) == ("", 4, 4)
    assert walk.run(1, ()) == AT_END
    assert (walk.run(-1, [2]), walk.playhead) == ("", 2)
    assert (walk.run(-1, [2]), walk.playhead) == ("", 0)
    assert walk.run(-1, [2]) == AT_START
    assert (walk.run(1, [2, 3]), walk.playhead) == ("", 2)


def test_to_a_step_by_number(walk: Walk):
    assert (walk.to_step(3), walk.playhead, walk.selection) == ("", 3, 3)
    assert (walk.to_step(99), walk.playhead, walk.selection) == ("there is no step 99: this pass has 4", 3, 3)
    assert (walk.to_row(2), walk.playhead) == ("", 2)
    assert (walk.to_row(0), walk.playhead) == ("", 0)


def test_search_goes_to_the_next_match_and_round(walk: Walk):
    walk.select(2)
    assert (walk.set_search("backward"), walk.selection) == ("backward: 2 of 3", 2)
    assert [row in walk.matches for row in range(5)] == [False, True, True, True, False]
    assert [(walk.match(1), walk.selection) for _ in range(2)] == [
        ("backward: 3 of 3", 3),
        ("backward: 1 of 3, again from the top", 1),
    ]
    assert (walk.match(-1), walk.selection) == ("backward: 3 of 3, again from the bottom", 3)
    assert (walk.match(-1), walk.selection) == ("backward: 2 of 3", 2)
    assert walk.set_search("tanh") == "nothing matches tanh"
    assert walk.match(1) == "nothing matches tanh"
    walk.set_search("")
    assert (len(walk.matches), walk.match(1), walk.selection) == (0, "nothing is searched for: / searches", 2)


def test_a_search_opens_what_hides_its_matches():
    walk = blocks()
    assert "h.7" not in "".join(walk.rows.label(row) for row in range(len(walk.rows)))
    assert walk.set_search("h.7") == "h.7: 1 of 6"
    seen = []
    for place in range(6):
        seen.append(walk.rows.label(walk.selection))
        assert walk.rows.folded(walk.selection) is None
        assert walk.selection in walk.matches
        assert walk.match(1) == f"h.7: {place + 2} of 6" if place < 5 else "h.7: 1 of 6, again from the top"
    assert seen == [*["MulBackward0"] * 4, "MulBackward0 +1", "h.7.w  (leaf)"]
    labels = [walk.rows.label(row) for row in range(len(walk.rows))]
    assert "h.7 Block" in labels
    assert not any(label.startswith("h.6 Block") for label in labels), "only the block that holds the match is opened"


def test_while_a_search_is_typed_nothing_opens_and_it_begins_where_it_began():
    walk = blocks()
    rows = walk.rows
    walk.select(1)
    for typed, said in (("h", "h: 1 of 360"), ("h.7", "h.7: 1 of 6"), ("h.7z", "nothing matches h.7z"), ("h.7", "h.7: 1 of 6")):
        assert walk.set_search(typed, typing=True) == said
    assert walk.rows is rows
    assert walk.rows.folded(walk.selection) is True
    assert (walk.set_search("", typing=True), walk.selection) == ("", 1)
    assert walk.set_search("h.7") == "h.7: 1 of 6"
    assert walk.rows.folded(walk.selection) is None


def test_a_group_matches_by_its_own_name():
    walk = blocks()
    walk.set_search("Block")
    named = [row for row in range(len(walk.rows)) if "Block" in walk.rows.label(row)]
    assert len(walk.matches) == len(named)
    assert [row for row in range(len(walk.rows)) if row in walk.matches] == named
    visited = [walk.selection, *(walk.match(1) and walk.selection for _ in named[1:])]
    assert visited == named
    walk.set_search("f()")
    assert not any(row in walk.matches for row in named), "what is inside a closed group does not mark it"
    assert len(walk.matches) == 300


def test_edges_lead_to_neighbours_largest_first(walk: Walk):
    walk.select(4)
    choices = walk.neighbours(toward_loss=True)
    assert [(choice.label, pytest.approx(choice.norm, rel=1e-3)) for choice in choices] == [
        ("MulBackward0", 20.02),
        ("SinBackward0", 4.196),
    ]
    assert walk.neighbours(toward_loss=False) == []
    walk.select(2)
    assert [choice.label for choice in walk.neighbours(toward_loss=False)] == ["x  (leaf)"]
    walk.select(0)
    assert walk.neighbours(toward_loss=True) == []


def test_factors_along_the_heaviest_path(walk: Walk):
    walk.select(4)
    factors = walk.factors()
    assert [factor.label for factor in factors] == ["AddBackward0", "MulBackward0", "x  (leaf)"]
    assert [factor.gain for factor in factors[:2]] == pytest.approx([1.0, 20.0249844 / 10.0498756])
    assert math.isnan(factors[2].gain)
    assert factors[2].product == pytest.approx(20.0249844 / 10.0498756)


def test_another_pass_keeps_the_playhead_and_the_rows(walk: Walk):
    walk.to_step(2)
    rows = walk.rows
    drawing = two_outputs_drawing()
    other = drawing.tape(walk.graph, [(1.0, 1.0)], number=2)
    first = walk.tape
    walk.show(other, first)
    assert (walk.tape, walk.against, walk.playhead, walk.rows) == (other, first, 2, rows)


def test_a_pass_over_part_of_the_graph_keeps_the_node(walk: Walk):
    walk.to_step(3)
    first = walk.tape
    part = _part_of(walk)
    walk.show(part, first)
    assert (part.steps, walk.playhead, walk.selection, len(walk.rows)) == (2, 1, 1, 3)
    walk.show(first, None)
    assert (walk.playhead, len(walk.rows)) == (3, 5)


def _part_of(walk: Walk):
    """A pass that seeds what Mul made: only Mul and x run."""
    drawing = two_outputs_drawing()
    drawing.roots.clear()
    drawing.root(walk.tape.node_at(3), "a")
    return drawing.tape(drawing.graph(), [(1.0, 1.0)], number=2)


def test_a_big_graph_opens_folded_and_n_runs_one_visible_row():
    walk = blocks()
    assert len(walk.rows) < 45
    folded = next(row for row in range(1, len(walk.rows)) if walk.rows.folded(row))
    walk.to_row(folded - 1)
    before = walk.playhead
    walk.step(1)
    assert (walk.playhead, walk.selection) == (walk.rows.last(folded), folded)
    walk.step(-1)
    assert walk.playhead == before


def test_folds_open_and_close_around_the_selection():
    walk = blocks()
    rows = len(walk.rows)
    folded = next(row for row in range(1, len(walk.rows)) if walk.rows.folded(row))
    first = walk.rows.first(folded)
    walk.select(folded)
    assert walk.unfold(folded) == ""
    assert len(walk.rows) > rows
    assert walk.rows.first(walk.selection) == first
    while walk.rows.folded(walk.selection):
        walk.unfold(walk.selection)
    assert walk.rows.first(walk.selection) == first
    walk.fold(walk.selection)
    assert walk.rows.folded(walk.selection)
    assert walk.fold(0) == "nothing to fold here"
    assert walk.unfold(0) == "nothing to open here"


def test_going_to_a_node_opens_what_hides_it():
    walk = blocks()
    for node in (walk.tape.node_at(150), walk.graph.reached[3].node):
        assert walk.select_node(node) == ""
        assert walk.node == node
    walk.fold(walk.selection)
    assert walk.to_node(walk.tape.node_at(150)) == ""
    assert (walk.playhead, walk.node) == (150, walk.tape.node_at(150))


def test_the_next_call_is_shown_as_the_last_was():
    walk, later = blocks(), blocks()
    walk.to_node(walk.tape.node_at(150))
    walk.select_node(walk.tape.node_at(160))
    later.align(walk)
    assert (later.playhead, later.node, later.folds) == (150, later.tape.node_at(160), walk.folds)
    walk.run(1, ())
    later.align(walk)
    assert later.playhead == later.tape.steps


def test_a_node_is_found_again_by_line_and_place_among_its_like():
    walk, other = blocks(60), blocks(61)
    node = walk.tape.node_at(150)
    landmark = Landmark.of(walk.graph, node)
    found = landmark.find(other.graph)
    assert found is not None
    assert Landmark.of(other.graph, found) == Landmark(found, landmark.label, landmark.file, landmark.line, landmark.nth)
    leaf = walk.graph.reached[3]
    there = Landmark.of(walk.graph, leaf.node).find(other.graph)
    assert there is not None
    assert other.graph.label(there) == f"{leaf.name}  (leaf)"
    assert landmark.find(two_outputs()[0]) is None


def test_a_loop_that_ran_less_often_gives_the_first_of_its_line():
    graph, _ = chain(50)
    other, _ = chain(10)
    late = next(node for node in range(50) if graph.occurrence(node) == 40)
    found = Landmark.of(graph, late).find(other)
    assert found is not None
    assert other.label(found) == "SinBackward0"


walks = st.builds(
    lambda seed, nodes: (
        (drawing := random_drawing(seed, nodes, roots=1), graph := drawing.graph()) and Walk(graph, drawing.tape(graph, [(1.0,)]))
    ),
    st.integers(0, 10_000),
    st.integers(1, 30),
)


@given(walks, st.data())
@settings(max_examples=60, deadline=None)
def test_back_undoes_step(walk: Walk, data: st.DataObject):
    walk.to_step(data.draw(st.integers(0, walk.tape.steps)))
    before = walk.playhead
    if walk.step(1) == "":
        assert walk.playhead == before + 1
        assert walk.step(-1) == ""
    assert walk.playhead == before


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_with_folds_step_and_back_meet_the_same_places(data: st.DataObject):
    walk = blocks(data.draw(st.integers(41, 60)))
    for _ in range(data.draw(st.integers(0, 4))):
        walk.toggle(data.draw(st.integers(0, len(walk.rows) - 1)))
    there, back = [walk.playhead], []
    while walk.step(1) == "":
        there.append(walk.playhead)
        assert walk.rows.last(walk.selection) == walk.playhead
        assert walk.rows.folded(walk.selection) is not False
    back.append(walk.playhead)
    while walk.step(-1) == "":
        back.append(walk.playhead)
    assert there == back[::-1]
    assert there[-1] == walk.tape.steps


def chained() -> Walk:
    """exp(-x**2) at one element, then a sum over two."""
    drawing = Drawing()
    exp, neg, power = (drawing.node(op, ()) for op in ("ExpBackward0", "NegBackward0", "PowBackward0"))
    drawing.edge(exp, neg, (0.75,), text="exp(x)")
    drawing.edge(neg, power, lambda value: (-value[0],))
    drawing.edge(power, drawing.leaf("x", ()), (1.0,))
    drawing.root(exp, "y")
    graph = drawing.graph()
    return Walk(graph, drawing.tape(graph, [(1.0,)]))


def test_single_elements_have_factors_with_their_signs():
    walk = chained()
    walk.to_step(4)
    factors = walk.factors()
    assert [factor.factor for factor in factors] == [0.75, -1.0, 1.0, None]
    assert [factor.gain for factor in factors[:3]] == [0.75, 1.0, 1.0]


def test_several_elements_have_no_one_factor(walk: Walk):
    walk.to_step(4)
    assert [factor.factor for factor in walk.factors()] == [None, None, None]


def test_a_folded_row_is_told_to_be_opened():
    session = Session("a.py")
    walk = blocks()
    session._visits.append(Visit(Stop(called(1), "call", graph=walk.graph, passes=[walk.tape]), walk))
    session._at = 0
    walk.select(next(row for row in range(len(walk.rows)) if walk.rows.folded(row)))
    assert session.factors() == []
    assert session.notice == FOLDED
    walk.select(0)
    session.toggle_watch()
    assert session.notice == NO_ROW


def test_what_is_worked_out_beforehand_changes_nothing(walk: Walk):
    walk.warm()
    assert (walk.playhead, walk.selection) == (0, 0)
    assert walk.step(1) == ""


def test_going_into_a_long_series_makes_one_member_only(monkeypatch: pytest.MonkeyPatch):
    graph, tape = recurrent(400)
    walk = Walk(graph, tape, 40)
    made: list[int] = []
    member = Outline.member
    monkeypatch.setattr(Outline, "member", lambda self, series, number: made.append(number) or member(self, series, number))
    groups = list(Outline.of(graph, tape).around(tape.steps // 2))
    assert len(made) == 1
    assert walk.to_node(tape.node_at(tape.steps // 2)) == ""
    assert walk.node == tape.node_at(tape.steps // 2)
    assert all(group.first <= tape.steps // 2 <= group.last for group in groups)
