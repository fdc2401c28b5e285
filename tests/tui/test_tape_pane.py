"""The tape: what each row says at each playhead, and which columns there is room for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from graphs import FILE, chain, two_outputs, two_outputs_drawing
from views import edited_view, gpt_view, two_outputs_view, view_of, waiting_view

from gradscope.model.rows import Folds, Rows
from gradscope.protocol.messages import Call
from gradscope.session.stepping import Walk
from gradscope.session.view import State, Stop
from gradscope.tui.messages import FoldToggled, RowOpened, RowSelected
from gradscope.tui.widgets.bars import Scale
from gradscope.tui.widgets.tape import TapeList
from gradscope.tui.widgets.tape_columns import Columns, Content

PICTURED = """\
━1 Tape━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
   step graph node           makes       line shape ‖grad‖
        ▽     seed of J      1.0 10.0     :14 [2]    10.05  ━━━╸
      1 ●─╮   AddBackward0   J = a + b    :12 [2]    10.05  ━━━╸
 ▶    2 │ ●   SinBackward0   b = x.sin()  :11 [2]    10.05  ━━━╸
      3 ○ │   MulBackward0   a = x * x    :10 [2]        ·
      4 ◇─╯   x  (leaf)      1 of 3 in     :9 [2]    4.196  ━━━

   n one node · c to the end · s edit the seed · ? all keys""".splitlines()


@pytest.mark.parametrize("size", [(120, 36), (100, 30)])
async def test_rows_are_the_pictured_ones(shown, sight, size) -> None:
    async with shown(two_outputs_view(), size) as pilot:
        assert sight(pilot).pane("tape")[: len(PICTURED)] == PICTURED


async def test_eighty_columns_keep_the_same_columns(shown, sight) -> None:
    async with shown(two_outputs_view(), (80, 24)) as pilot:
        assert sight(pilot).pane("tape")[1:7] == PICTURED[1:7]


async def test_two_cursors_apart_are_both_marked(shown, sight) -> None:
    async with shown(two_outputs_view(step=1, selection=4)) as pilot:
        rows = sight(pilot).pane("tape")
    assert [row[1:3] for row in rows[2:7]] == ["  ", "▶ ", "  ", "  ", " ›"]


async def test_start_and_end(shown, sight) -> None:
    async with shown(two_outputs_view(step=0)) as pilot:
        start = sight(pilot).pane("tape")[2:7]
        pilot.app.show(two_outputs_view(step=4))
        await pilot.pause()
        end = sight(pilot).pane("tape")[2:7]
    assert start[0].startswith(" ▶")
    assert [row.split()[-1] for row in start[1:]] == ["·"] * 4
    assert end[4] == " ▶    4 ◇─╯   x  (leaf)      3 of 3 in     :9 [2]    35.93  ━━━━"


async def test_edited_pass_shows_the_change_instead_of_shape_and_bar(shown, sight) -> None:
    async with shown(edited_view()) as pilot:
        rows = sight(pilot).pane("tape")
    assert rows[1] == "   step graph node           makes       line  ‖grad‖   Δ pass 1"
    assert rows[4] == " ▶    2 │ ●   SinBackward0   b = x.sin()  :11   1.414     -8.636"
    assert rows[6] == "      4 ◇─╯   x  (leaf)      1 of 3 in     :9   0.682     -3.514"


async def test_folded_groups_show_ranges_marks_and_leaves(shown, sight) -> None:
    async with shown(gpt_view(rows=3)) as pilot:
        rows = sight(pilot).pane("tape")
    assert rows[1].split() == ["step", "graph", "module", "/", "node", "shape", "‖grad‖"]
    assert any("▸ lm_head Linear +1" in row and "[8,64,384]" in row for row in rows)
    assert any("▾" in row for row in rows)
    assert any(row.split()[0].count("-") == 1 and row.split()[-1] == "·" for row in rows if row.split())


async def test_without_a_tape_it_says_why(shown, sight) -> None:
    async with shown(waiting_view(State.RUNNING, calls=7)) as pilot:
        assert "the script runs: 7 backward calls so far" in "\n".join(sight(pilot).pane("tape"))
        pilot.app.show(two_outputs_view(tape=None, rows=None, graph=None))
        await pilot.pause()
        assert "recording…" in "\n".join(sight(pilot).pane("tape"))


async def test_hint_goes_after_ten_moves(shown, sight) -> None:
    async with shown(two_outputs_view(step=0)) as pilot:
        for move in range(1, 11):
            assert "n one node" in sight(pilot).text, move
            pilot.app.show(two_outputs_view(step=move % 2))
            await pilot.pause()
        assert "n one node" not in sight(pilot).text


async def test_search_and_breakpoints_are_marked_without_colour(shown, sight) -> None:
    view = two_outputs_view(step=0, selection=0, breaks=("op:Mul*", "step:1"), met=(1, 3), matches=(2,), search="sin")
    async with shown(view) as pilot:
        rows = sight(pilot).pane("tape")
        strip = pilot.app.query_one(TapeList).render_line(3)
    assert [row[2] for row in rows[3:7]] == ["◆", " ", "◆", " "]
    assert any(segment.style and segment.style.underline for segment in strip if "Sin" in segment.text)


async def test_a_closed_group_is_marked_where_something_in_it_stops(shown, sight) -> None:
    view = gpt_view(rows=0)
    assert view.rows is not None
    closed = next(row for row in range(1, len(view.rows)) if view.rows.folded(row))
    async with shown(replace(view, selection=0, met=(view.rows.last(closed),))) as pilot:
        rows = sight(pilot).pane("tape")[2:]
    assert [place for place, row in enumerate(rows) if row[2:3] == "◆"] == [closed]


async def test_clicks_select_open_and_fold(shown, sight) -> None:
    told: list[object] = []
    async with shown(gpt_view(rows=0), told=told) as pilot:
        await pilot.click(TapeList, offset=(40, 2))
        await pilot.click(TapeList, offset=(40, 3), times=2)
        mark = sight(pilot).pane("tape")[3].index("▸")
        await pilot.click(TapeList, offset=(mark - 1, 2))
    kinds = (RowSelected, RowOpened, FoldToggled)
    messages = list({id(message): message for message in told if isinstance(message, kinds)}.values())
    assert messages == [RowSelected(1), RowSelected(2), RowOpened(2), FoldToggled(1)]


async def test_flags_say_what_is_wrong(shown, sight) -> None:
    graph, tape = two_outputs((math.nan, 10.0))
    walk = Walk(graph, tape)
    walk.to_step(2)
    async with shown(view_of(walk, [tape])) as pilot:
        assert sight(pilot).pane("tape")[4].split()[-2:] == ["nan", "N"]


async def test_a_long_tape_scrolls_to_the_selection_and_draws_only_what_is_seen(shown, sight, monkeypatch) -> None:
    graph, tape = chain(100_000)
    walk = Walk(graph, tape)
    walk.folds = Folds()
    walk.rows = Rows.build(graph, tape, walk.folds)
    drawn: list[int] = []
    draw = TapeList.draw
    monkeypatch.setattr(TapeList, "draw", lambda self, row, width: drawn.append(row) or draw(self, row, width))
    call = Call(1, "backward", "/home/ada/chain.py", 6, "<module>", "y.backward()")
    async with shown(view_of(walk, [tape], call)) as pilot:
        walk.select(70_000)
        pilot.app.show(view_of(walk, [tape], call))
        await pilot.pause()
        rows = sight(pilot).pane("tape")
    assert any(" 70000 " in row and "›" in row for row in rows)
    assert len(drawn) < 200


def test_columns_drop_makes_then_shape() -> None:
    content = Content(step=4, node=14, makes=11, line=4, shape=4, grouped=False)
    widths = {width: Columns.fit(width, content, 5, delta=False) for width in (64, 62, 61, 45, 35)}
    assert (widths[64].makes, widths[64].line, widths[64].shape) == (11, 4, 4)
    assert (widths[62].makes, widths[62].shape) == (10, 4)
    assert (widths[61].makes, widths[61].line, widths[61].shape) == (11, 4, 0)
    assert (widths[45].makes, widths[45].line, widths[45].shape) == (0, 0, 4)
    assert (widths[35].node, widths[35].shape) == (8, 0)


@pytest.mark.parametrize("width", range(30, 120, 7))
@pytest.mark.parametrize("delta", [False, True])
def test_columns_never_take_more_than_there_is(width: int, delta: bool) -> None:
    content = Content(step=7, node=22, makes=20, line=4, shape=10, grouped=True)
    columns = Columns.fit(width, content, 9, delta)
    shape = columns.shape + 1 if columns.shape else 0
    used = 2 + columns.step + 1 + columns.rail + 1 + columns.node + 1 + shape + 7 + columns.flags + columns.bar + columns.delta
    assert used <= max(width, 44)


def test_bars_are_logarithmic_and_tell_nothing_from_nan() -> None:
    scale = Scale([1e-4, 1.0, math.nan, math.inf, 0.0])
    assert scale.bar(1.0, 4) == "━━━━"
    assert scale.bar(1e-2, 4) == "━━"
    assert scale.bar(1e-4, 4) == "╸"
    assert [scale.bar(norm, 4) for norm in (0.0, math.nan)] == ["", ""]
    assert scale.bar(math.inf, 4) == "━━━━"


def test_bars_of_an_empty_pass() -> None:
    assert Scale([]).bar(1.0, 4) == "━━━━"


async def test_a_zero_gradient_says_so_once(shown, sight) -> None:
    drawing = two_outputs_drawing()
    graph = drawing.graph()
    passes = [drawing.tape(graph, [(1.0, 10.0)]), drawing.tape(graph, [(0.0, 0.0)], number=2)]
    walk = Walk(graph, passes[0], 40)
    walk.to_step(2)
    for against in (None, passes[0]):
        walk.show(passes[1], against)
        async with shown(view_of(walk, passes)) as pilot:
            (row,) = [row for row in sight(pilot).pane("tape") if "SinBackward0" in row]
        assert row.split()[-2 if against else -1] == "0"
        assert row.split().count("0") == 1
        assert row.endswith("-10.05") == bool(against)


async def test_the_cursor_stands_beside_a_breakpoint(shown, sight) -> None:
    async with shown(two_outputs_view(step=1, selection=2, met=(2, 3))) as pilot:
        rows = sight(pilot).pane("tape")
    assert [row[1:3] for row in rows[2:7]] == ["  ", "▶ ", "›◆", " ◆", "  "]


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_what_stands_in_place_of_the_rows_is_wrapped(shown, sight, size) -> None:
    said = "no tensor with a graph is alive at this line: r runs on; --stop-at can name a later line"
    stop = Stop(Call(0, "none", FILE, 12, "<module>", ""), "line", said)
    async with shown(waiting_view(State.STOPPED, stop=stop), size) as pilot:
        words = " ".join(" ".join(sight(pilot).pane("tape")[1:]).split())
    assert said in words
