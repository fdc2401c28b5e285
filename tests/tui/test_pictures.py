"""Pictures of the whole screen, kept beside this file: `pytest tests/tui/test_pictures.py --snapshot-update` draws them anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot
from views import crashed_view, edited_view, gpt_view, kept_view, two_outputs_view, waiting_view, what_if_view

from gradscope.session.view import State, View
from gradscope.tui.app import GradscopeApp

SIZES = [(80, 24), (120, 36), (200, 60)]


def showing(view: Callable[[], View], *keys: str) -> Callable[[Pilot[int]], Any]:
    """Show a view, then press keys."""

    async def run(pilot: Pilot[int]) -> None:
        assert isinstance(pilot.app, GradscopeApp)
        pilot.app.show(view())
        await pilot.press(*keys)
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("view", [two_outputs_view, gpt_view], ids=["two_outputs", "gpt"])
def test_screen(snap_compare, view, size) -> None:
    assert snap_compare(GradscopeApp(), terminal_size=size, run_before=showing(view))


def test_map(snap_compare) -> None:
    assert snap_compare(GradscopeApp(), terminal_size=(120, 36), run_before=showing(two_outputs_view, "3", "left_square_bracket"))


def test_edited(snap_compare) -> None:
    assert snap_compare(GradscopeApp(), terminal_size=(120, 36), run_before=showing(edited_view))


def test_what_if(snap_compare) -> None:
    assert snap_compare(GradscopeApp(), terminal_size=(120, 36), run_before=showing(what_if_view))


@pytest.mark.parametrize("size", SIZES[:2], ids=lambda size: f"{size[0]}x{size[1]}")
def test_saved(snap_compare, size) -> None:
    assert snap_compare(
        GradscopeApp(), terminal_size=size, run_before=showing(kept_view, "right_square_bracket", "right_square_bracket")
    )


def test_hooks_without_colour_and_signs(snap_compare, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    keys = ["right_square_bracket"] * 3
    view = lambda: replace(kept_view(), selection=2)  # noqa: E731
    assert snap_compare(GradscopeApp(ascii_only=True), terminal_size=(120, 36), run_before=showing(view, *keys))


def test_cursors_apart_without_colour(snap_compare, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    view = lambda: two_outputs_view(step=1, selection=4)  # noqa: E731
    assert snap_compare(GradscopeApp(), terminal_size=(120, 36), run_before=showing(view))


def test_ascii(snap_compare) -> None:
    assert snap_compare(GradscopeApp(ascii_only=True), terminal_size=(120, 36), run_before=showing(gpt_view))


def test_starting(snap_compare) -> None:
    assert snap_compare(GradscopeApp(), terminal_size=(120, 36), run_before=showing(lambda: waiting_view(State.STARTING)))


def test_crashed(snap_compare) -> None:
    assert snap_compare(GradscopeApp(), terminal_size=(120, 36), run_before=showing(crashed_view))


def test_help(snap_compare) -> None:
    assert snap_compare(GradscopeApp(), terminal_size=(120, 50), run_before=showing(two_outputs_view, "question_mark"))


def test_zoom(snap_compare) -> None:
    assert snap_compare(GradscopeApp(), terminal_size=(120, 36), run_before=showing(two_outputs_view, "3", "z"))
