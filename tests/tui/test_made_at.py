"""Which time of its line made a node, and the library code below the person's line."""

from __future__ import annotations

from dataclasses import replace

import graphs
from pane_app import PaneApp, view_of

from gradscope.model.places import CodePlace
from gradscope.session.view import View
from gradscope.tui.widgets import node_page
from gradscope.tui.widgets.jumps import goal_of
from gradscope.tui.widgets.made_at import FRAMES

PACKAGES = "/usr/lib/python3.12/site-packages/"
LINEAR = CodePlace(f"{PACKAGES}torch/nn/modules/linear.py", 134, "Linear.forward")
SEQUENTIAL = CodePlace(f"{PACKAGES}torch/nn/modules/container.py", 250, "Sequential.forward")


def framed(*frames: CodePlace) -> View:
    """The pictured example after step 2, with library frames below the line of Sin."""
    graph, tape = graphs.two_outputs()
    origins = graph.columns.origins
    origins[graph.origin_index(1)] = replace(origins[graph.origin_index(1)], frames=frames, module="net.0")
    return view_of(graph, tape, playhead=2, selection=2)


def last(view: View, lines: int, frames: bool = False) -> list[str]:
    return [line.plain.rstrip() for line in node_page.fitting(view, 60, frames)[0][-lines:]]


def test_a_line_that_runs_often_says_which_time_it_was() -> None:
    assert last(view_of(*graphs.chain(60), playhead=24, selection=24), 2) == ["", "line 4, 37th of 60"]


def test_a_line_that_runs_once_needs_no_account() -> None:
    assert last(view_of(*graphs.two_outputs(), playhead=2, selection=2), 1)[0].startswith("= so far")


def test_one_library_frame_stands_there() -> None:
    assert last(framed(LINEAR), 2) == ["line 11   net.0", "  in torch/nn/modules/linear.py:134 Linear.forward"]


def test_several_frames_unfold() -> None:
    view = framed(SEQUENTIAL, LINEAR)
    assert last(view, 1) == ["▸ in torch/nn/modules/linear.py:134 Linear.forward  +1"]
    assert last(view, 2, frames=True) == [
        "▾ in torch/nn/modules/container.py:250 Sequential.forward",
        "     torch/nn/modules/linear.py:134 Linear.forward",
    ]
    assert goal_of(node_page.fitting(view, 60)[0][-1]) == FRAMES


async def test_enter_unfolds_them_in_the_pane() -> None:
    app = PaneApp(framed(SEQUENTIAL, LINEAR))
    async with app.run_test(size=(120, 36)) as pilot:
        app.node.focus()
        await pilot.pause()
        assert "container.py" not in app.text()
        await pilot.press("enter")
        assert "in torch/nn/modules/container.py:250" in app.text()
        await pilot.press("enter")
        assert "container.py" not in app.text()
