"""Breakpoints, export, roots, resume and factors."""

from __future__ import annotations

import math
from pathlib import Path

import graphs
import pytest
from pane_app import PaneApp, view_of
from textual.widgets import Input, OptionList

from gradscope.protocol.messages import Call, LiveTensor
from gradscope.session.edges import Factor
from gradscope.session.view import State, Stop, View
from gradscope.tui.messages import BreakAdded, BreakRemoved, ExportWanted, NodeWanted, RootPicked
from gradscope.tui.screens import breakpoints
from gradscope.tui.screens.breakpoints import BreaksScreen
from gradscope.tui.screens.error import ErrorScreen
from gradscope.tui.screens.export import ExportScreen
from gradscope.tui.screens.factors import FactorsScreen
from gradscope.tui.screens.resume import ResumeScreen
from gradscope.tui.screens.roots import RootsScreen


def app_of(**more: object) -> PaneApp:
    return PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2, **more))


async def test_breakpoints_are_added_checked_and_removed() -> None:
    app = app_of(breaks=("nan",))
    async with app.run_test(size=(120, 36)) as pilot:
        app.push_screen(BreaksScreen(app.view))
        await pilot.pause()
        await pilot.press(*"op:Sin", "enter")
        assert app.told == [BreakAdded("op:Sin")]
        assert "◆ op:Sin" in app.text()
        await pilot.press(*"step:x", "enter")
        assert app.told == [BreakAdded("op:Sin")]
        await pilot.pause()
        assert "✗" in app.text()
        await pilot.press("up", "up", "delete")
        assert app.told[1:] == [BreakRemoved("nan")]
        await pilot.pause()
        assert "◆ nan" not in app.text()
        await pilot.press("escape")


@pytest.mark.parametrize("text", [word for example, _ in breakpoints.EXAMPLES for word in example.split()])
def test_every_example_of_a_condition_is_one(text: str) -> None:
    assert breakpoints.wrong(text) == ""


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_what_is_wrong_with_a_condition_is_read_to_its_end(size: tuple[int, int]) -> None:
    app = app_of()
    async with app.run_test(size=size) as pilot:
        app.push_screen(BreaksScreen(app.view))
        await pilot.pause()
        for text, last in (("norm>x", "shape:[2,3]"), ("finding:bogus", "zero-gradient")):
            app.screen.query_one(Input).value = text
            await pilot.press("enter")
            await pilot.pause()
            error = app.screen.query_one("#breaks-error")
            assert last in str(error.render())
            assert error.region.bottom <= size[1]
            assert error.region.right <= size[0]
            assert last in app.text()


async def test_export_asks_before_it_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.json").write_text("old")
    app = app_of()
    async with app.run_test(size=(120, 36)) as pilot:
        app.push_screen(ExportScreen())
        await pilot.pause()
        assert ".gscope" in app.text()
        await pilot.press(*"run.js", "tab", "enter")
        await pilot.pause()
        assert "run.json exists: Enter again replaces it" in app.text()
        assert app.told == []
        await pilot.press("enter")
        await pilot.pause()
        assert app.told == [ExportWanted("run.json")]
        assert not isinstance(app.screen, ExportScreen)
        assert Path("run.json").read_text() == "old"


async def test_export_refuses_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_of()
    async with app.run_test(size=(120, 36)) as pilot:
        for path in ("run.png", "missing/run.json", "-"):
            app.push_screen(ExportScreen(path))
            await pilot.pause()
            await pilot.press("enter")
            await pilot.pause()
            assert "✗" in app.text()
            await pilot.press("escape")
            await pilot.pause()
        app.push_screen(ExportScreen("a.json", "the disk is full"))
        await pilot.pause()
        assert "the disk is full" in app.text()
    assert app.told == []


LIVE = [
    LiveTensor("loss", "main() in a.py:12", (), "float32", "MeanBackward0"),
    LiveTensor("J", "main() in a.py:9", (2, 3), "float32", "AddBackward0"),
]


def stop_at_end(live: list[LiveTensor]) -> View:
    return View(State.STOPPED, "a.py", stop=Stop(Call(0, "none", "a.py", 12, "main", ""), "end", live=live))


async def test_a_root_is_picked_with_its_seed() -> None:
    app = PaneApp(stop_at_end(LIVE))
    async with app.run_test(size=(120, 36)) as pilot:
        app.push_screen(RootsScreen(app.view))
        await pilot.pause()
        assert "loss  []     float32   MeanBackward0       main() in a.py:12" in app.text()
        await pilot.press("enter")
        app.push_screen(RootsScreen(app.view))
        await pilot.pause()
        await pilot.press("down", "enter")
        app.push_screen(RootsScreen(app.view))
        await pilot.pause()
        await pilot.press("down", *"randn", "enter")
        assert app.told == [RootPicked(0, ""), RootPicked(1, "ones"), RootPicked(1, "randn")]


async def test_nothing_alive_offers_another_line() -> None:
    app = PaneApp(stop_at_end([]))
    async with app.run_test(size=(120, 36)) as pilot:
        app.push_screen(RootsScreen(app.view))
        await pilot.pause()
        assert "--stop-at FILE:LINE" in app.text()
        await pilot.press("down", "escape")


@pytest.mark.parametrize(("keys", "answer"), [(["enter"], False), (["e"], True), (["escape"], None)])
async def test_resume_asks_for_the_seed(keys: list[str], answer: bool | None) -> None:
    app, answers = app_of(), []
    async with app.run_test(size=(120, 36)) as pilot:
        app.push_screen(ResumeScreen("v", "ones"), answers.append)
        await pilot.pause()
        assert "your script's own seed   v" in app.text()
        await pilot.press(*keys)
        await pilot.pause()
    assert answers == [answer]


async def test_factors_of_a_path() -> None:
    factors = [
        Factor(2, "AddBackward0", 10.05, 1.0, 1.0),
        Factor(1, "SinBackward0", 10.05, 0.0042, 0.0042),
        Factor(3, "x  (leaf)", 0.042, math.nan, 0.0042),
    ]
    app = app_of()
    async with app.run_test(size=(120, 36)) as pilot:
        app.push_screen(FactorsScreen(factors))
        await pilot.pause()
        assert "SinBackward0      10.05    ×0.0042↓   ×0.0042" in app.text()
        assert app.screen.query_one(OptionList).highlighted == 2
        await pilot.press("up", "enter")
        assert app.told == [NodeWanted(1)]


async def test_factors_of_single_elements_have_signs_and_multiply() -> None:
    factors = [
        Factor(3, "ExpBackward0", 1.0, 0.7788008, 0.7788008, 0.7788008),
        Factor(2, "NegBackward0", 0.7788008, 1.0, 0.7788008, -1.0),
        Factor(1, "MulBackward0", 0.7788008, 1.0, 0.7788008, 1.0),
        Factor(0, "x  (leaf)", 0.7788008, math.nan, 0.7788008),
    ]
    app = app_of()
    async with app.run_test(size=(120, 36)) as pilot:
        app.push_screen(FactorsScreen(factors))
        await pilot.pause()
        assert "NegBackward0      0.779        ×-1   ×-0.7788" in app.text()
        assert "x  (leaf)         0.779              ×-0.7788" in app.text()
        assert "0.7788 × -1 × 1 = -0.7788" in app.text()


async def test_the_traceback_is_hidden_and_shown() -> None:
    app = app_of()
    async with app.run_test(size=(120, 36)) as pilot:
        app.push_screen(ErrorScreen("The script crashed", "boom", details="Traceback (most recent call last):"))
        await pilot.pause()
        assert "d hide the traceback" in app.text()
        assert "Traceback (most" in app.text()
        await pilot.press("d")
        await pilot.pause()
        assert "d show the traceback" in app.text()
        assert "Traceback (most" not in app.text()


async def test_letters_go_into_a_focused_line() -> None:
    app = app_of()
    async with app.run_test(size=(120, 36)) as pilot:
        app.push_screen(BreaksScreen(app.view))
        await pilot.pause()
        await pilot.press(*"qnNcrs")
        assert app.screen.query_one(Input).value == "qnNcrs"
