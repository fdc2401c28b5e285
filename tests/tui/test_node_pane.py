"""Pane 3 on the screen: where the picture has it, and with the values of big tensors once they come."""

from __future__ import annotations

import graphs
from keeping import Kept, inspected, table
from pane_app import PaneApp, counting, names, until, view_of
from reports import two_outputs_report
from test_step_tab import big

from gradscope.session.session import Session
from gradscope.tui.messages import FetchWanted, InspectWanted, NodeWanted, SavedFetched, SavedSliceWanted, TensorFetched
from gradscope.tui.widgets.node import PATIENCE, NodePane
from gradscope.tui.widgets.tabs import TabBar


async def test_node_pane_is_the_picture() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert app.column(66)[:13] == [
            "│─3 SinBackward0   b = x.sin()   step 2───────────────",
            "│ Step  Formula  Saved  Hooks 0  Map",
            "│                    [0]       [1]",
            "│ arrives  ∂b     1.0000   10.0000   from Add, step 1",
            "│ × local         0.5403   -0.4161   cos(x)",
            "│ = sends  → x    0.5403   -4.1615   ×0.42 in norm",
            "│",
            "│ x.grad  1 of 3 contributions",
            "│   was             None",
            "│ + Sin           0.5403   -4.1615   step 2  ◀ now",
            "│ · Mul  self                        step 3",
            "│ · Mul  other                       step 3",
            "│ = so far        0.5403   -4.1615",
        ]


async def test_stepping_repaints_and_keeps_the_tab() -> None:
    graph, tape = graphs.two_outputs()
    app = PaneApp(view_of(graph, tape, 2, 2))
    async with app.run_test(size=(120, 36)) as pilot:
        app.show(view_of(graph, tape, 3, 3))
        await pilot.pause()
        text = app.text()
        assert "3 MulBackward0   a = x * x   step 3" in text
        assert "x.grad  3 of 3 contributions" in text
        app.node.tab(1)
        await pilot.pause()
        assert "Step" in app.text()


async def test_tabs_turn_with_keys_and_the_mouse_and_stay(walked, sight) -> None:
    session = Session.from_snapshot(two_outputs_report((1.0, 10.0)))
    async with walked(session) as pilot:
        await pilot.press("]")
        assert any("the seed is given, not computed" in line for line in sight(pilot).pane("node"))
        await pilot.press("n")
        assert pilot.app.query_one(NodePane).open_name == "formula"
        await pilot.press("]", "]")
        assert "no hooks here" in "\n".join(sight(pilot).pane("node"))
        await pilot.press("n", "n")
        assert pilot.app.query_one(NodePane).open_name == "hooks"
        await pilot.press("[")
        assert any("the snapshot was saved without it" in line for line in sight(pilot).pane("node"))
        bar = pilot.app.query_one(NodePane).query_one(TabBar)
        await pilot.click(bar, offset=(1, 0))
        assert pilot.app.query_one(NodePane).open_name == "step"


async def test_a_line_that_leads_somewhere_is_picked_and_opened() -> None:
    graph, tape = graphs.two_outputs()
    kept = table([Kept(0, "other", 0), Kept(0, "mask", 1, (4, 1024)), Kept(1, "self", 0)], [(8, "leaf x"), (16384, "")])
    app = PaneApp(view_of(graph, tape, 2, 0, saved=kept, stop_number=1, stops=1))
    async with app.run_test(size=(120, 36)) as pilot:
        app.node.open_tab("saved")
        app.node.focus()
        await pilot.press("enter")  # the line of the order
        assert "by step   Enter: by module" in app.text()
        await pilot.press("j", "j", "j", "enter")
        assert [message for message in app.told if isinstance(message, NodeWanted)] == [NodeWanted(0)]
        await pilot.press("k", "enter")
        assert app.told[-1] == NodeWanted(1)


async def test_what_is_kept_is_asked_for_once_the_selection_rests() -> None:
    graph, tape = graphs.two_outputs()
    settings = {"stop_number": 1, "stops": 1}
    app = PaneApp(view_of(graph, tape, 2, 2, **settings))
    async with app.run_test(size=(120, 36)) as pilot:
        app.node.open_tab("saved")
        await until(pilot, lambda: names(app.told).count("SavedWanted") == 1)
        await until(pilot, lambda: [one.node for one in app.told if isinstance(one, InspectWanted)] == [1])
        kept = table([Kept(1, "self", 0, (64, 64))], [(16384, "")])
        looked = inspected(1, [((1.0,) * 4096, (64, 64))])
        app.show(view_of(graph, tape, 2, 2, saved=kept, inspected={1: looked}, **settings))
        await until(pilot, lambda: "SavedSliceWanted" in names(app.told))
        asked = next(one for one in app.told if isinstance(one, SavedSliceWanted))
        assert (asked.node, asked.place, asked.dtype) == (1, 0, "float32")
        values = [float(place) for place in range(120)]
        asked.asker.post_message(SavedFetched(1, 0, asked.index, "float32", (12, 10), values))
        await until(pilot, lambda: "10.000" in app.text())
        assert "self  float32 [64,64]   16.0 KiB" in app.text()


async def test_values_of_a_big_tensor_come_when_the_selection_rests() -> None:
    app = PaneApp(view_of(*big(), playhead=2, selection=1), counting)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "  2    20.000   21.000   22.000" in "\n".join(app.column(66)))
        asked = [event for event in app.fetched if event.asker is app.node]
        assert [event.index for event in asked] == [((0, 1, 1), (0, 12, 1), (0, 10, 1))]
        assert "values arrives[0, :, :]   v full screen" in app.text()
        app.show(view_of(app.view.graph, app.view.tape, 1, 1))  # type: ignore[arg-type]
        await pilot.pause(2 * PATIENCE)
        assert len([event for event in app.fetched if event.asker is app.node]) == 1


async def test_values_of_another_call_are_never_shown() -> None:
    """Tensors of every call are numbered anew: what was fetched at one stop says nothing of the next."""
    app = PaneApp(view_of(*big(), playhead=2, selection=1), counting)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "  2    20.000   21.000   22.000" in "\n".join(app.column(66)))
        app.answer = None
        app.show(view_of(*big(), playhead=2, selection=1))
        await pilot.pause()
        assert "values arrives" in app.text()
        assert "20.000" not in app.text()
        await until(pilot, lambda: len([event for event in app.fetched if event.asker is app.node]) == 2)


async def test_values_that_cannot_be_had_are_explained() -> None:
    def refuse(event: object) -> TensorFetched:
        return TensorFetched(event.tensor, event.index, (), [], "not held after the commit")  # type: ignore[attr-defined]

    app = PaneApp(view_of(*big(), playhead=2, selection=1), refuse)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "not held after the commit" in app.text())


async def test_a_slice_wanted_while_a_thread_has_the_session_comes_later(walked, monkeypatch) -> None:
    session = Session.from_snapshot(two_outputs_report((1.0, 10.0)))
    async with walked(session) as pilot:
        app = pilot.app
        asked: list[int] = []
        monkeypatch.setattr(session, "fetch", lambda tape, tensor, index, done: asked.append(tensor))
        app._reading = True
        app.post_message(FetchWanted(0, ((0, 2, 1),)))
        await pilot.pause(0.1)
        assert asked == []
        app._reading = False
        await until(pilot, lambda: asked == [0])


async def test_factors_of_a_folded_row_say_what_to_do(walked, sight) -> None:
    session = Session.from_snapshot(two_outputs_report((1.0, 10.0)))
    async with walked(session) as pilot:
        await pilot.press("g", "p")
        assert "select a node's row first" in sight(pilot).lines[-1]
