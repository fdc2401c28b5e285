"""A folded group is one node: what comes into it, what goes out of it."""

from __future__ import annotations

import graphs
from pane_app import PaneApp

from gradscope.model.rows import Folds, Rows
from gradscope.session.view import State, View
from gradscope.tui.widgets import node_page


def gpt(label: str, playhead: str) -> View:
    graph, tape = graphs.gpt_like()
    rows = Rows.build(graph, tape, Folds.default(graph, tape, 30))
    row = next(row for row in range(len(rows)) if rows.label(row).startswith(label))
    step = {"before": rows.first(row) - 1, "inside": rows.first(row), "after": rows.last(row)}[playhead]
    return View(State.STOPPED, "a.py", graph=graph, tape=tape, rows=rows, playhead=step, selection=row)


def page(view: View) -> list[str]:
    return [line.plain for line in node_page.write(view, 51)]


def test_module_after_it_has_run() -> None:
    view = gpt("lm_head", "after")
    assert node_page.title(view) == "lm_head Linear +1   steps 4-8"
    assert page(view) == [
        "arrives  float32 [8,64,384]  ‖·‖ 443.4  max 1.000",
        "  min 1.000  mean 1.000  0: 0  NaN: 0  inf: 0",
        "  from View, step 3",
        "sends    → ln_f             ‖·‖ 443.4     ×1",
        "         → lm_head.weight   ‖·‖ 158.0     1 of 1",
    ]


def test_module_while_the_playhead_is_in_it() -> None:
    lines = page(gpt("lm_head", "inside"))
    assert lines[0] == "● step 4 of 4-8"
    assert not any("sends" in line for line in lines)


def test_module_before_it_runs_shows_no_values() -> None:
    assert page(gpt("lm_head", "before")) == ["○ not run yet   steps 4-8"]


def test_repeated_blocks() -> None:
    view = gpt("h.4…h.0", "after")
    assert node_page.title(view) == "h.4…h.0 Block ×5 +60   steps 55-269"
    lines = page(view)
    assert any(line.endswith("1 of 1") for line in lines)
    assert any("more" in line for line in lines)


def test_every_row_of_a_folded_tape_can_be_shown() -> None:
    graph, tape = graphs.gpt_like()
    for screen in (10, 30, 1000):
        rows = Rows.build(graph, tape, Folds.default(graph, tape, screen))
        for row in range(len(rows)):
            for step in (0, rows.first(row), rows.last(row), tape.steps):
                view = View(State.STOPPED, "a.py", graph=graph, tape=tape, rows=rows, playhead=step, selection=row)
                assert page(view)
                assert max(map(len, page(view))) <= 51


def test_a_group_of_a_hundred_thousand_steps_is_cut() -> None:
    graph, tape = graphs.chain(30_000)
    rows = Rows.build(graph, tape, Folds.default(graph, tape, 30))
    row = max(range(len(rows)), key=lambda row: rows.last(row) - rows.first(row))
    view = View(State.STOPPED, "a.py", graph=graph, tape=tape, rows=rows, playhead=tape.steps, selection=row)
    assert page(view)


async def test_folded_group_in_the_pane() -> None:
    app = PaneApp(gpt("lm_head", "after"))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert app.column(66)[0].startswith("│─3 lm_head Linear +1   steps 4-8─")
