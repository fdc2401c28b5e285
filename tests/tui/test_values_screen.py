"""Full-screen values: any matrix of a tensor, by slices, and jumps to what matters."""

from __future__ import annotations

import math

import graphs
import pytest
from graphs import Drawing
from pane_app import PaneApp, counting, until, view_of
from test_step_tab import big

from gradscope.session.view import State, View
from gradscope.tui import messages
from gradscope.tui.screens.values import ValuesScreen
from gradscope.tui.widgets.value_grid import ValueGrid, shade


async def opened(app: PaneApp, pilot: object) -> ValueGrid:
    app.push_screen(ValuesScreen(app.view))
    await pilot.pause()  # type: ignore[attr-defined]
    return app.screen.query_one(ValueGrid)


async def test_small_tensor_needs_no_fetch() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        grid = await opened(app, pilot)
        lines = app.lines()
        assert lines[0].startswith(" arrives ∂b  float32 [2]  cpu  ‖·‖ 10.05  min 1.000  max 10.00  NaN: 0  inf: 0  0: 0")
        assert lines[1] == " arrives ∂b  sends → x (self)  x 1 of 3"
        assert lines[2] == " index [:]"
        assert lines[4].split() == ["0", "1.000", "10.000"]
        await pilot.press("right")
        assert grid.value == 10.0
        assert app.lines()[-2] == " [1] 10.0"
        await pilot.press("right_square_bracket")
        await pilot.pause()
        assert app.lines()[0].startswith(" sends → x (self)")
        assert app.lines()[-2] == f" [0] {math.cos(1.0)!r}"
        assert app.fetched == []


async def test_big_tensor_is_fetched_as_far_as_it_is_seen() -> None:
    app = PaneApp(view_of(*big(), playhead=2, selection=1), counting)
    async with app.run_test(size=(120, 36)) as pilot:
        grid = await opened(app, pilot)
        await until(pilot, lambda: grid.value is not None)
        asked = [event for event in app.fetched if event.asker is grid]
        assert [event.index for event in asked] == [((0, 1, 1), (0, 32, 1), (0, 32, 1))]
        assert grid.value == 0
        await pilot.press("pagedown", "down", "down")
        await until(pilot, lambda: grid.value is not None)
        assert grid.place == (0, 32, 0)
        assert grid.value == 320
        assert len([event for event in app.fetched if event.asker is grid]) == 2


async def test_an_index_is_typed() -> None:
    app = PaneApp(view_of(*big(), playhead=2, selection=1), counting)
    async with app.run_test(size=(120, 36)) as pilot:
        grid = await opened(app, pilot)
        await pilot.press(*"3,1:,4:8", "enter")
        await until(pilot, lambda: grid.value is not None)
        assert grid.place == (3, 1, 4)
        assert grid.value == 314
        assert " index [3, 1:, 4:8]" in app.text()
        await pilot.press(*"9", "enter")
        assert app.lines()[-2] == " dimension 0 has 8 places: 9 is outside"
        assert grid.place == (3, 1, 4)
        await pilot.press("escape")
        assert isinstance(app.screen, ValuesScreen)
        await pilot.press("n")
        await pilot.pause()
        assert grid.place == (4, 1, 4)
        await pilot.press("N", "N")
        await pilot.pause()
        assert grid.place == (2, 1, 4)


def one_nan(event: messages.FetchWanted) -> messages.TensorFetched:
    """Every element is 1 but [5,33,100], which is NaN."""
    answer = counting(event)
    starts = [part[0] for part in event.index]
    place = 0
    for at, start, extent in zip((5, 33, 100), starts, answer.shape, strict=True):
        if not start <= at < start + extent:
            place = -1
            break
        place = place * extent + at - start
    values: list[float | int | bool] = [1.0] * len(answer.values)
    if place >= 0:
        values[place] = math.nan
    return messages.TensorFetched(event.tensor, event.index, answer.shape, values)


async def test_search_goes_through_the_whole_tensor() -> None:
    app = PaneApp(view_of(*big((1.0, math.nan)), playhead=2, selection=1), one_nan)
    async with app.run_test(size=(120, 36)) as pilot:
        grid = await opened(app, pilot)
        await pilot.press("a")
        await until(pilot, lambda: grid.value is not None and math.isnan(float(grid.value.real)))
        assert grid.place == (5, 33, 100)
        assert " index [5, :, :]" in app.text()
        await pilot.press("a")
        await until(pilot, lambda: "no further element: NaN or infinity" in app.text())


async def test_search_for_what_is_not_there_says_so() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        await opened(app, pilot)
        await pilot.press("a")
        assert app.lines()[-2] == " every element is finite"
        await pilot.press("z")
        assert app.lines()[-2] == " no element is zero"


async def test_greatest_zero_and_nan_of_a_small_tensor() -> None:
    drawing = Drawing()
    op = drawing.node("SinBackward0", (2, 3))
    drawing.edge(op, drawing.leaf("x", (2, 3)), (1.0,) * 6)
    drawing.root(op, "J")
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 0.0, -7.0, math.nan, 0.0, 2.0)])
    app = PaneApp(view_of(graph, tape, 1, 1))
    async with app.run_test(size=(120, 36)) as pilot:
        grid = await opened(app, pilot)
        for key, place in ((">", (0, 2)), ("a", (1, 0)), ("z", (0, 1)), ("z", (1, 1))):
            await pilot.press({">": "greater_than_sign"}.get(key, key))
            await pilot.pause()
            assert grid.place == place
        await pilot.press("f")
        assert "-7.0" in app.text()
        await pilot.press("m")
        await pilot.pause()
        rows = app.lines()[4:6]
        assert rows[0].endswith("▓ ·-█")
        assert rows[1].endswith("N · ▓")


async def test_nothing_arrived_yet() -> None:
    app = PaneApp(View(State.STOPPED, "a.py"))
    async with app.run_test(size=(120, 36)) as pilot:
        await opened(app, pilot)
        assert "nothing has arrived here yet" in app.text()
        await pilot.press("n", "a", "m", "f", "z", "i", "greater_than_sign", "right_square_bracket", "escape")
        await pilot.pause()
        assert not isinstance(app.screen, ValuesScreen)


async def test_a_failed_fetch_is_told() -> None:
    def refuse(event: messages.FetchWanted) -> messages.TensorFetched:
        return messages.TensorFetched(event.tensor, event.index, (), [], "not held any more")

    app = PaneApp(view_of(*big(), playhead=2, selection=1), refuse)
    async with app.run_test(size=(120, 36)) as pilot:
        await opened(app, pilot)
        await until(pilot, lambda: "not held any more" in app.text())


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, " █"), (-0.3, "-▓"), (0.05, " ▒"), (-0.001, "-░"), (0.0, " ·"), (math.nan, " N"), (-math.inf, "-I")]
)
def test_shade(value: float, text: str) -> None:
    assert shade(value, 1.0) == text
