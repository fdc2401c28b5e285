"""Pictures of the panes, to see by eye what a change does to them: `pytest --snapshot-update` makes them anew."""

from __future__ import annotations

from typing import Any

import graphs
from pane_app import PaneApp, counting, until, view_of
from test_lower_pane import WRONG
from test_step_group import gpt
from test_step_tab import big
from textual.pilot import Pilot

from gradscope.tui.screens.values import ValuesScreen
from gradscope.tui.widgets.value_grid import ValueGrid

SIZE = (120, 36)


def test_step_two(snap_compare: Any) -> None:
    assert snap_compare(PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2)), terminal_size=SIZE)


def test_folded_module(snap_compare: Any) -> None:
    assert snap_compare(PaneApp(gpt("attn", "after")), terminal_size=SIZE)


def test_refused_seed(snap_compare: Any) -> None:
    async def refuse(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, PaneApp)
        app.seed.edit()
        await pilot.pause()
        await pilot.press("1", "enter")
        app.seed.refuse("the seed does not fit J", "it has 1 element", "give one number for each of the 2 elements")
        app.node.focus()
        await pilot.pause()

    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    assert snap_compare(app, terminal_size=SIZE, run_before=refuse)


def test_findings(snap_compare: Any) -> None:
    async def look(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, PaneApp)
        app.lower.open_tab("findings")
        app.lower.focus()
        await pilot.pause()

    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2, findings=WRONG))
    assert snap_compare(app, terminal_size=SIZE, run_before=look)


def test_values_as_a_map(snap_compare: Any) -> None:
    async def look(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, PaneApp)
        app.push_screen(ValuesScreen(app.view))
        await pilot.pause()
        await pilot.press("m")
        await until(pilot, lambda: app.screen.query_one(ValueGrid).value is not None)
        await pilot.pause(0.2)

    assert snap_compare(PaneApp(view_of(*big(), playhead=2, selection=1), counting), terminal_size=SIZE, run_before=look)
