"""The seed: read as cells, typed as digits, words or expressions, refused with a reason."""

from __future__ import annotations

from dataclasses import replace

import graphs
import pytest
from graphs import Drawing
from pane_app import PaneApp, view_of
from playing import Play, call
from textual.widgets import Input

from gradscope.model.columns import Seed
from gradscope.protocol import messages as m
from gradscope.protocol.messages import Call
from gradscope.session.view import State, Stop, View
from gradscope.tui.messages import SeedTyped


def seed_lines(app: PaneApp) -> list[str]:
    return [line for line in app.column(0, 66) if line.strip()]


async def test_cells_as_in_the_picture() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert seed_lines(app)[-2].startswith("━4 Seed gradient of J━")
        assert seed_lines(app)[-1] == " [0] 1.0   [1] 10.0   s edit   ( ) row of the Jacobian"


async def test_a_lone_number_sets_the_picked_cell() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        app.seed.edit()
        await pilot.pause()
        assert seed_lines(app)[-3] == " [0]  1.0   [1] 10.0"
        assert seed_lines(app)[-2] == " ones  onehot( )  randn  *2  *-1  mean  sum"
        await pilot.press("right", "5", "enter")
        assert app.told[-1] == SeedTyped(["1,5"])


async def test_words_and_expressions_are_the_whole_seed() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        for text in ("1,10", "ones", "*-1", "torch.linspace(0, 1, 2)", "n"):
            app.seed.edit()
            await pilot.pause()
            app.query_one(Input).value = ""
            await pilot.press(*(key if key.isalnum() else {" ": "space"}.get(key, key) for key in text), "enter")
            assert app.told[-1] == SeedTyped([text])
        assert app.seed.editing


async def test_a_click_on_a_word_types_it() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        app.seed.edit()
        await pilot.pause()
        await pilot.click("#seed TabBar", offset=(8, 0))
        await pilot.press("1", "enter")
        assert app.told[-1] == SeedTyped(["onehot(1)"])


async def test_a_click_on_a_cell_edits_it() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        await pilot.click("SeedCells", offset=(15, 0))
        await pilot.press("7", "enter")
        assert app.told[-1] == SeedTyped(["1,7"])


async def test_refusal_shows_root_and_seed_side_by_side() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 40)) as pilot:
        app.seed.edit()
        await pilot.pause()
        await pilot.press("1", ",", "2", ",", "3", "enter")
        app.seed.refuse("the seed does not fit J", "it has 3 elements", "give one number for each of the 2 elements")
        await pilot.pause()
        assert seed_lines(app)[-4:] == [
            " ✗ the seed does not fit J",
            " it has 3 elements",
            " root J [2] float32 cpu   seed 1,2,3",
            " give one number for each of the 2 elements",
        ]
        await pilot.press("backspace", "backspace", "enter")
        await pilot.pause()
        assert "✗" not in app.text()


async def test_an_applied_seed_clears_the_line_and_shows_edited() -> None:
    graph, tape = graphs.two_outputs()
    app = PaneApp(view_of(graph, tape, 2, 2))
    async with app.run_test(size=(120, 36)) as pilot:
        app.seed.edit()
        await pilot.pause()
        await pilot.press(*"ones", "enter")
        edited = graphs.two_outputs_drawing().tape(graph, [(1.0, 1.0)], number=2)
        app.show(view_of(graph, edited, 2, 2, edited=True, against=tape))
        await pilot.pause()
        assert app.query_one(Input).value == ""
        assert "4 Seed gradient of J   SEED EDITED, pass 2" in app.text()
        assert " [0] 1.0   [1] 1.0   s edit" in app.text()
        assert not app.seed.editing


async def test_enter_gives_the_focus_back() -> None:
    """Keys that follow at once are the main screen's again, while the pass is under way and when it is there."""
    graph, tape = graphs.two_outputs()
    app = PaneApp(view_of(graph, tape, 2, 2))
    async with app.run_test(size=(120, 36)) as pilot:
        app.node.focus()
        await pilot.pause()
        app.seed.edit()
        await pilot.pause()
        await pilot.press(*"1,1", "enter")
        await pilot.pause()
        assert app.focused is app.node
        await pilot.press("n", "q")
        assert app.query_one(Input).value == "1,1"
        edited = graphs.two_outputs_drawing().tape(graph, [(1.0, 1.0)], number=2)
        app.show(view_of(graph, edited, 2, 2, edited=True, against=tape))
        await pilot.pause()
        assert app.focused is app.node
        assert not app.seed.editing


async def test_a_refused_seed_takes_the_focus_again() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        app.node.focus()
        await pilot.pause()
        app.seed.edit()
        await pilot.pause()
        await pilot.press(*"1,2,3", "enter")
        app.seed.refuse("the seed does not fit J", "it has 3 elements", "")
        await pilot.pause()
        await pilot.press("backspace", "backspace", "enter")
        assert app.told == [SeedTyped(["1,2,3"]), SeedTyped(["1,2"])]
        assert app.focused is app.node


async def test_a_pass_that_comes_while_one_types_leaves_the_line_alone() -> None:
    graph, tape = graphs.two_outputs()
    app = PaneApp(view_of(graph, tape, 2, 2))
    async with app.run_test(size=(120, 36)) as pilot:
        app.seed.edit()
        await pilot.pause()
        await pilot.press(*"on")
        edited = graphs.two_outputs_drawing().tape(graph, [(1.0, 0.0)], number=2)
        app.show(view_of(graph, edited, 2, 2, edited=True, against=tape))
        await pilot.press(*"es", "enter")
        assert app.told == [SeedTyped(["ones"])]


async def test_enter_on_an_empty_line_leaves_it() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        app.node.focus()
        await pilot.pause()
        app.seed.edit()
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert (app.focused, app.seed.editing, app.told) == (app.node, False, [])


async def test_escape_gives_the_focus_back() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        app.node.focus()
        await pilot.pause()
        app.seed.edit()
        await pilot.pause()
        await pilot.press("9", "escape")
        await pilot.pause()
        assert app.focused is app.node
        assert not app.seed.editing
        assert app.told == []


async def test_several_roots_have_a_line_each() -> None:
    drawing = Drawing()
    for name, size in (("a", 2), ("b", 3)):
        op = drawing.node("SinBackward0", (size,))
        drawing.edge(op, drawing.leaf(f"x{name}", (size,)), (1.0,) * size)
        drawing.root(op, name)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 2.0), (3.0, 4.0, 5.0)])
    app = PaneApp(view_of(graph, tape))
    async with app.run_test(size=(120, 36)) as pilot:
        app.seed.edit()
        await pilot.pause()
        assert "4 Seed gradient of a, b" in app.text()
        await pilot.press("tab", "right", "right", "9", "enter")
        assert app.told[-1] == SeedTyped(["", "3,4,9"])
        app.seed.edit()
        await pilot.pause()
        await pilot.press("ctrl+u", "down")
        await pilot.press(*"sum", "enter")
        assert app.told[-1] == SeedTyped(["sum", ""])


async def test_matrix_of_cells() -> None:
    drawing = Drawing()
    op = drawing.node("SinBackward0", (2, 3))
    drawing.edge(op, drawing.leaf("x", (2, 3)), (1.0,) * 6)
    drawing.root(op, "J")
    graph = drawing.graph()
    app = PaneApp(view_of(graph, drawing.tape(graph, [tuple(map(float, range(6)))])))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert seed_lines(app)[-2:] == [" [0,:]   0.0  1.0  2.0", " [1,:]   3.0  4.0  5.0"]
        app.seed.edit()
        await pilot.pause()
        await pilot.press("down", "right", "8", "enter")
        assert app.told[-1] == SeedTyped(["0,1,2,3,8,5"])


async def test_scalar_root() -> None:
    drawing = Drawing()
    op = drawing.node("SumBackward0", ())
    drawing.edge(op, drawing.leaf("x", (2,)), lambda value: (value[0], value[0]))
    drawing.root(op, "loss")
    graph = drawing.graph()
    app = PaneApp(view_of(graph, drawing.tape(graph, [(1.0,)])))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert seed_lines(app)[-1] == " loss [] 1.0   scalar;  S seeds the selected row instead"
        app.seed.edit()
        await pilot.pause()
        await pilot.press("2", "enter")
        assert app.told[-1] == SeedTyped(["2"])


async def test_a_stop_for_the_seed_opens_the_line_and_says_why() -> None:
    graph, _ = graphs.two_outputs()
    call = Call(1, "backward", "a.py", 3, "<module>", "J.backward()")
    stop = Stop(call, "seed", "grad can be implicitly created only for scalar outputs", graph=graph)
    app = PaneApp(View(State.STOPPED, "a.py", stop=stop))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert app.seed.editing
        assert "grad can be implicitly created only for scalar outputs" in app.text()
        await pilot.press(*"ones", "enter")
        assert app.told[-1] == SeedTyped(["ones"])


SCALARS = "grad can be implicitly created only for scalar outputs"

SEEDLESS = (
    m.Stopped(Call(1, "backward", "a.py", 3, "<module>", "J.backward()"), "seed", SCALARS),
    m.Source("a.py", "import torch\n"),
    m.Captured(graphs.two_outputs()[0].columns),
)


@pytest.mark.parametrize("looks", [(3,), (1, 3), (2, 3), (1, 2, 3)])
async def test_the_line_opens_however_many_reports_come_between_two_looks(looks: tuple[int, ...]) -> None:
    """Torch would refuse the call: there is a root as soon as the graph is there, and a seed is asked for."""
    play = Play()
    app = PaneApp(play.session.view())
    async with app.run_test(size=(120, 36)) as pilot:
        told = 0
        for upto in looks:
            play.tell(*SEEDLESS[told:upto])
            told = upto
            app.show(play.session.view())
            await pilot.pause()
        assert app.seed.editing
        assert SCALARS in app.text()
        assert "no root yet" not in app.text()
        await pilot.press(*"ones", "enter")
        assert app.told[-1] == SeedTyped(["ones"])


@pytest.mark.parametrize("looks", [(4,), (1, 2, 3, 4), (2, 4), (3, 4)])
async def test_a_gradient_option_that_does_not_fit_is_shown_in_the_line(looks: tuple[int, ...]) -> None:
    play = Play()
    reports = (
        m.Stopped(call(), "call"),
        m.Captured(play.graph.columns),
        m.Recorded(play.tape([(1.0, 10.0)])),
        m.Refused(0, "the seed does not fit", "4 cells for 2 elements", seed="1,2,3,4"),
    )
    app = PaneApp(play.session.view())
    async with app.run_test(size=(120, 36)) as pilot:
        told = 0
        for upto in looks:
            play.tell(*reports[told:upto])
            told = upto
            app.show(play.session.view())
            await pilot.pause()
        assert app.seed.editing
        assert app.query_one(Input).value == "1,2,3,4"
        assert "✗ the seed does not fit" in app.text()
        assert "4 cells for 2 elements" in app.text()
        await pilot.press("escape")
        app.show(play.session.view())
        await pilot.pause()
        assert not app.seed.editing


async def test_the_line_closes_when_the_script_runs_on() -> None:
    view = view_of(*graphs.two_outputs(), playhead=2, selection=2)
    app = PaneApp(view)
    async with app.run_test(size=(120, 36)) as pilot:
        app.seed.edit()
        await pilot.pause()
        app.show(replace(view, state=State.RUNNING))
        await pilot.pause()
        assert not app.seed.editing


async def test_nothing_is_edited_in_a_snapshot() -> None:
    graph, tape = graphs.two_outputs()
    tape.columns.seeds[0] = Seed(0, tape.seeds[0].tensor, "v", given=True)
    view = view_of(graph, tape)
    app = PaneApp(View(State.SNAPSHOT, "a.py", graph=graph, tape=tape, rows=view.rows))
    async with app.run_test(size=(120, 36)) as pilot:
        app.seed.edit()
        await pilot.pause()
        assert not app.seed.editing
        assert seed_lines(app)[-1] == " [0] 1.0   [1] 10.0"


async def test_a_row_of_the_jacobian_is_named_by_its_cell() -> None:
    app = PaneApp(view_of(*graphs.two_outputs((0.0, 1.0)), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert seed_lines(app)[-1] == " [0] 0.0   [1] 1.0   s edit   ( ) row [1] of the Jacobian"
