"""The Map tab: the neighbourhood always, the folded graph as boxes where it fits."""

from __future__ import annotations

import graphs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reports import two_outputs_report
from views import gpt_view, two_outputs_view, view_of, waiting_view

from gradscope.session.session import Session
from gradscope.session.stepping import Walk
from gradscope.session.view import State, View
from gradscope.tui.glyphs import to_ascii
from gradscope.tui.widgets import map_page
from gradscope.tui.widgets.jumps import goal_of


@pytest.fixture
def session() -> Session:
    return Session.from_snapshot(two_outputs_report((1.0, 10.0)))


def page(view: View, width: int = 51, height: int = 22) -> list[str]:
    return [line.plain for line in map_page.write(view, width, height)]


def test_two_outputs_as_boxes() -> None:
    assert page(two_outputs_view(2)) == [
        "     ┌───────────────────┐",
        "     │▽ seed of J 10.05  │",
        "     └─────────┬─────────┘",
        "        ┌──────┴──────┐",
        "        │● Add 10.05  │",
        "        └──────┬──────┘",
        "       ╭───────┴────────╮",
        "┏━━━━━━┻━━━━━━┓  ┌──────┴──────┐",
        "┃▶ Sin 10.05  ┃  │○ Mul ·      │",
        "┗━━━━━━┳━━━━━━┛  └──────┬──────┘",
        "       ╰───────╮ ╭──────╯",
        "          ┌────┴─┴────┐",
        "          │◇ x 4.196  │",
        "          └───────────┘",
        "",
        "  ╭ ● Add  other            10.05  step 1",
        "▶ ● Sin  b = x.sin()        10.05  step 2",
        "  ╰ ◇ x  self               4.196  1 of 3",
    ]


def test_a_low_pane_has_boxes_of_one_line() -> None:
    assert page(two_outputs_view(1, selection=3), height=15)[:7] == [
        "     [▽ seed of J 10.05  ]",
        "               │",
        "        [▶ Add 10.05  ]",
        "       ╭───────┴────────╮",
        "[○ Sin ·      ]  [› Mul ·      ]",
        "       ╰───────╮ ╭──────╯",
        "          [◇ x ·      ]",
    ]


def test_what_is_pending_shows_no_values() -> None:
    assert page(two_outputs_view(1, selection=4), height=7)[:4] == [
        "  ╭ ○ Sin  self                 ·  step 2",
        "  ├ ○ Mul  self                 ·  step 3",
        "  ├ ○ Mul  other                ·  step 3",
        "› ◇ x  0 of 3 in                ·  step 4",
    ]


def test_a_leaf_that_has_something_by_now_shows_it() -> None:
    lines = page(two_outputs_view(2, selection=4), height=7)
    assert lines[0] == "  ╭ ● Sin  self             4.196  step 2"
    assert lines[3] == "› ◇ x  1 of 3 in            4.196  step 4"


def test_several_edges_to_one_leaf_are_told_apart() -> None:
    assert page(two_outputs_view(4, selection=3), height=7)[:4] == [
        "  ╭ ● Add  self             10.05  step 1",
        "› ● Mul  a = x * x          10.05  step 3",
        "  ├ ◇ x  self               20.02  3 of 3",
        "  ╰ ◇ x  other              20.02  3 of 3",
    ]


def test_the_seed_sends_to_the_roots() -> None:
    assert page(two_outputs_view(0), height=7)[:2] == [
        "▶ ▽ seed of J  1.0 10.0     10.05",
        "  ╰ ○ Add                   10.05  step 1",
    ]


def test_a_folded_module_names_the_modules_beside_it() -> None:
    graph, tape = graphs.gpt_like()
    walk = Walk(graph, tape, 30)
    walk.select(next(row for row in range(len(walk.rows)) if walk.rows.label(row).startswith("ln_f")))
    walk.playhead = walk.rows.last(walk.selection)
    assert page(view_of(walk, [tape]))[:5] == [
        "  ╭ ● lm_head Linear        443.4  step 6",
        "▶ ● ln_f LayerNorm          443.4  steps 9-11",
        "  ├ ○ Add                   443.4  step 12",
        "  ├ ◇ ln_f.weight           19.60  1 of 1",
        "  ╰ ◇ ln_f.bias             19.60  1 of 1",
    ]


def test_a_weight_of_a_long_loop() -> None:
    graph, tape = graphs.recurrent(400)
    walk = Walk(graph, tape, 30)
    walk.to_node(graph.leaves[0].node)
    lines = page(view_of(walk, [tape]), height=9)
    assert lines[0].split() == ["╭", "●", "Mm", "0.495", "step", "3"]
    assert lines[1].split() == ["├", "●", "Tanh", "Add", "Mm", "×398", "0.441", "largest", "of", "398"]
    assert "W  400 of 400 in" in lines[3]


def test_what_does_not_fit_is_counted() -> None:
    drawing = graphs.Drawing()
    top = drawing.node("StackBackward0")
    for number in range(20):
        drawing.edge(top, drawing.leaf(f"w{number:02}"), (float(number),))
    drawing.root(top)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,)])
    walk = Walk(graph, tape)
    walk.to_step(tape.steps)
    walk.select(1)
    lines = page(view_of(walk, [tape]), height=8)
    assert [line.split()[2] for line in lines[2:7]] == ["w19", "w18", "w17", "w16", "w15"]
    assert lines[7] == "  ╰ … 15 more, largest first"
    assert len(lines) == 8


def test_boxes_of_a_folded_transformer() -> None:
    text = "\n".join(page(gpt_view(6), 110, 70))
    assert "[● lm_head Linear 443.4  ]" in text
    assert "[○ h.4…h.0 Block ×5 ·      ]" in text
    assert page(gpt_view(6))[-1] == "22 rows as boxes do not fit here: z zooms, - folds"


def test_neighbours_lead_to_their_nodes() -> None:
    view = two_outputs_view(2)
    graph = view.graph
    assert graph is not None
    ends = [goal for line in map_page.write(view, 51, 7) if isinstance(goal := goal_of(line), int)]
    assert [graph.label(end) for end in ends] == ["AddBackward0", "x  (leaf)"]


async def test_enter_on_a_neighbour_selects_it(walked, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "n", "3", "left_square_bracket", "z")
        await pilot.pause()
        await pilot.press("j", "enter")
        await pilot.pause()
        assert session.view().selection in (1, 4)
        assert session.view().playhead == 2


def test_nothing_recorded() -> None:
    assert page(waiting_view(State.RUNNING)) == ["nothing is recorded here"]


@pytest.mark.parametrize("view", [two_outputs_view(2), gpt_view(6)])
def test_every_sign_has_an_ascii_stand_in(view: View) -> None:
    for line in page(view, 80, 60):
        swapped = to_ascii(line)
        assert len(swapped) == len(line)
        assert "?" not in swapped


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(24, 70), st.integers(5, 50), st.data())
def test_every_row_of_any_graph_keeps_to_its_room(seed: int, width: int, height: int, data: st.DataObject) -> None:
    drawing = graphs.random_drawing(seed)
    graph = drawing.graph()
    walk = Walk(graph, drawing.tape(graph, [(1.0,)] * len(graph.roots)))
    walk.to_step(data.draw(st.integers(0, walk.tape.steps)))
    walk.select(data.draw(st.integers(0, len(walk.rows) - 1)))
    lines = map_page.write(view_of(walk, [walk.tape]), width, height)
    assert 1 <= len(lines) <= height
    assert all(line.cell_length <= width for line in lines)
