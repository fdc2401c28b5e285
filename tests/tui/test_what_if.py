"""What-ifs on the screen: the line, the list, the marks; and what a check found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import graphs
from playing import Play, call
from textual.widgets import Input

from gradscope.model.checks import RIGHT, UNKNOWN_RESULT, WRONG, CheckResult, CheckRow
from gradscope.model.columns import Change
from gradscope.model.places import UNKNOWN, CodePlace
from gradscope.protocol import messages as m
from gradscope.tui.exploring import NOT_IN_THE_CALL
from gradscope.tui.screens.what_if import WhatIfPrompt
from gradscope.tui.what_if_targets import code, spoken
from gradscope.tui.widgets.check_block import said

MUL, SIN, ADD, X = range(4)


def played() -> Play:
    """Stopped at the pictured example, after step 4, with x selected."""
    play = Play()
    play.stop()
    play.session.to_step(4)
    play.take()
    return play


def record(play: Play, changes: list[Change], number: int) -> None:
    """Answer the last request with a pass that has these what-ifs; Sin's gradient is halved where one says so."""
    asked = next(request for request in reversed(play.sent) if isinstance(request, m.Explore))
    halved = {SIN: lambda value: tuple(part / 2 for part in value)} if any(one.text == "*0.5" for one in changes) else {}
    columns = play.drawing.tape(play.graph, [(1.0, 10.0)], number=number, hooks=halved).columns
    columns.edited, columns.hook_changed = False, []
    columns.changes = [replace(one, before=columns.seeds[0].tensor) for one in changes]
    play.tell(m.Recorded(columns, [], asked.request))


async def test_the_line_changes_all_that_arrives(walked: Any) -> None:
    play = played()
    async with walked(play.session) as pilot:
        await pilot.press("x")
        label = str(pilot.app.screen.query_one("#prompt Static").render())
        assert label == "what if x.grad is"
        await pilot.press(*"zeros", "enter")
        asked = play.take()
        assert [type(one).__name__ for one in asked] == ["Explore"]
        assert asked[0].changes == [Change(X, 0, UNKNOWN, "zeros")]


async def test_arrows_pick_one_contribution(walked: Any) -> None:
    play = played()
    async with walked(play.session) as pilot:
        await pilot.press("x", *"*2", "down", "down")
        assert isinstance(pilot.app.screen, WhatIfPrompt)
        assert str(pilot.app.screen.query_one("#prompt Static").render()) == "what if x.grad from Mul, step 3 (self) is"
        assert pilot.app.screen.query_one(Input).value == "*2"
        await pilot.press("enter")
        (asked,) = play.take()
        edge = next(edge for edge in play.graph.in_edges(X) if play.graph.source[edge] == MUL)
        assert asked.changes == [Change(X, 0, edge, "*2")]


async def test_escape_asks_for_nothing_and_a_fold_says_what_to_do(walked: Any, sight: Any) -> None:
    play = played()
    async with walked(play.session) as pilot:
        await pilot.press("x", *"*2", "escape")
        assert play.take() == []
        await pilot.press("g", "x")
        assert "select a node's row first" in sight(pilot).lines[-1]


async def test_what_was_refused_can_be_mended(walked: Any, sight: Callable[..., Any]) -> None:
    play = played()
    async with walked(play.session) as pilot:
        await pilot.press("x", "down", *"foo", "enter")
        assert "what-if: foo" in sight(pilot).lines[-1]
        (asked,) = play.take()
        play.tell(m.Refused(asked.request, "'foo' cannot be computed", "NameError: name 'foo' is not defined"))
        pilot.app.refresh_view()
        await pilot.pause()
        assert "what-if: foo" not in sight(pilot).lines[-1]
        assert [told.title for told in pilot.app._notifications] == ["'foo' cannot be computed"]
        await pilot.press("x")
        assert pilot.app.screen.query_one(Input).value == "foo"
        assert "from Sin, step 2" in str(pilot.app.screen.query_one("#prompt Static").render())
        await pilot.press("escape", "x")
        assert pilot.app.screen.query_one(Input).value == ""


async def test_a_pass_with_what_ifs_says_so_everywhere(walked: Any, sight: Callable[..., Any]) -> None:
    play = played()
    async with walked(play.session, size=(120, 36)) as pilot:
        play.session.go_to_node(SIN)
        pilot.app.refresh_view()
        await pilot.press("x", *"*0.5", "enter")
        record(play, [Change(SIN, 0, text="*0.5")], 2)
        pilot.app.refresh_view()
        await pilot.pause()
        shown = sight(pilot)
        assert "pass 2 of 2: WHAT-IF" in shown.lines[0]
        assert pilot.app.screen.has_class("edited")
        assert next(line for line in shown.pane("tape") if "SinBackward0" in line).split()[-2:] == ["x", "-5.025"]
        assert any("instead of" in line and "x *0.5" in line for line in shown.pane("node"))
        assert any("what if  ∂b, step 2  *0.5" in line for line in shown.pane("seed"))
        assert "X what-ifs" in shown.lines[-1]


async def test_the_list_takes_one_back(walked: Any, sight: Callable[..., Any]) -> None:
    play = played()
    async with walked(play.session) as pilot:
        play.session.change("zeros", SIN, 0)
        record(play, [Change(SIN, 0, text="zeros"), Change(X, 0, text="clip(1)")], 2)
        pilot.app.refresh_view()
        await pilot.press("X")
        text = sight(pilot).text
        assert "∂b, step 2   zeros     b = x.sin()" in text
        assert "x.grad       clip(1)" in text
        assert "your script's own call never has them" in text
        play.take()
        await pilot.press("up", "delete")
        await pilot.pause()
        (asked,) = play.take()
        assert [change.text for change in asked.changes] == ["clip(1)"]


async def test_resuming_says_that_the_call_has_none(walked: Any, sight: Callable[..., Any]) -> None:
    play = played()
    async with walked(play.session) as pilot:
        play.session.change("zeros", SIN, 0)
        record(play, [Change(SIN, 0, text="zeros")], 2)
        pilot.app.refresh_view()
        play.take()
        await pilot.press("r")
        await pilot.pause()
        assert [type(one).__name__ for one in play.take()] == ["Resume"]
        (told,) = pilot.app._notifications
        assert (told.title, told.message) == ("Resumed", NOT_IN_THE_CALL)


def checked() -> CheckResult:
    rows = [
        CheckRow("linear in the incoming gradient", RIGHT, 0.0, 1e-12),
        CheckRow("∂self against finite differences", WRONG, 0.5, 1e-6, "element [1]: backward says -0.4, differences say -0.9"),
        CheckRow("∂other against finite differences", UNKNOWN_RESULT, why="an integer input"),
    ]
    return CheckResult(SIN, "the forward of sin again in float64", rows)


async def test_a_check_is_asked_for_and_shown(walked: Any, sight: Callable[..., Any]) -> None:
    play = played()
    async with walked(play.session) as pilot:
        play.session.go_to_node(SIN)
        pilot.app.refresh_view()
        await pilot.press("K")
        (asked,) = play.take()
        assert (type(asked).__name__, asked.node, asked.tape) == ("Check", SIN, 1)
        play.tell(m.Checked(asked.request, checked()))
        pilot.app.refresh_view()
        await pilot.pause()
        node = sight(pilot).pane("node")
        assert any("the forward of sin again in float64" in line for line in node)
        assert any("✓ linear in the incoming gradient   0 ≤ 1.0e-12" in line for line in node)
        assert any("✗ ∂self against finite differences   0.500 >" in line for line in node)
        assert sight(pilot).lines[-1].lstrip().startswith("check: ∂self against finite differences 0.500 ✗")
        assert any("? ∂other against finite differences" in line for line in node)


def test_a_check_in_one_line_says_what_is_wrong_or_what_was_compared() -> None:
    wrong = checked()
    assert said(wrong) == "check: ∂self against finite differences 0.500 ✗"
    right = replace(wrong, rows=[row for row in wrong.rows if row.verdict != WRONG])
    assert said(right) == "check: linear in the incoming gradient 0 ✓"
    unknown = replace(wrong, rows=[row for row in wrong.rows if row.verdict == UNKNOWN_RESULT])
    assert said(unknown) == "check: ∂other against finite differences ?"


async def test_pdb_gets_the_terminal_and_gives_it_back(walked: Any, sight: Callable[..., Any]) -> None:
    from gradscope.session.terminal import Terminal

    play = played()
    async with walked(play.session) as pilot:
        play.session.go_to_node(SIN)
        pilot.app.refresh_view()
        await pilot.press("i")
        assert "Sin's backward is not Python of yours" in sight(pilot).lines[-1]
        assert play.take() == []
        play.graph.columns.backward_code[SIN] = CodePlace("model.py", 3, "backward")
        play.session.view().graph.columns.backward_code[SIN] = CodePlace("model.py", 3, "backward")  # type: ignore[union-attr]
        pilot.app.lower.attach(Terminal(24, 80))
        await pilot.press("i")
        await pilot.pause()
        (asked,) = play.take()
        assert (type(asked).__name__, asked.node) == ("Debug", SIN)
        assert pilot.app.lower.open_name == "output"
        assert pilot.app.screen.focused is pilot.app.lower._output
        play.tell(m.Debugged(asked.request, SIN))
        pilot.app.refresh_view()
        await pilot.pause()
        assert pilot.app.lower.open_name == "leaves"
        assert pilot.app.screen.focused is pilot.app.tape


async def test_a_pdb_that_is_refused_leaves_the_keys_where_they_were(walked: Any) -> None:
    from gradscope.session.terminal import Terminal

    play = played()
    async with walked(play.session) as pilot:
        play.session.go_to_node(SIN)
        play.session.view().graph.columns.backward_code[SIN] = CodePlace("model.py", 3, "backward")  # type: ignore[union-attr]
        pilot.app.refresh_view()
        pilot.app.lower.attach(Terminal(24, 80))
        pilot.app.action_debug()
        (asked,) = play.take()
        play.tell(m.Refused(asked.request, "this pass was recorded", "it cannot run again"))
        pilot.app.refresh_view()
        await pilot.pause()
        await pilot.pause()
        assert pilot.app.lower.open_name == "leaves"
        assert pilot.app.screen.focused is pilot.app.tape


def test_gradients_without_names_are_told_apart() -> None:
    drawing = graphs.Drawing()
    leaf = drawing.leaf("w")
    below = leaf
    for line in (1, 2):
        node = drawing.node("AddBackward0", (2,), drawing.origin(graphs.FILE, line, f"print(h + {line})"))
        drawing.edge(node, below, (1.0,))
        below = node
    drawing.root(below)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,)])
    adds = [tape.node_at(2), tape.node_at(1)]
    graph.columns.roots.clear()  # the root's gradient has a name
    named = [spoken(graph, tape, Change(node, 0, text="*2")) for node in adds]
    assert named == ["what arrives at Add, step 2", "what arrives at Add, step 1"]
    assert [code(graph, Change(node, 0)) for node in adds] == ["print(h + 1)", "print(h + 2)"]
    assert code(graph, Change(leaf, 0)) == ""
    assert spoken(graph, tape, Change(leaf, 0)) == "w.grad"
    edge = graph.in_edges(leaf)[0]
    assert spoken(graph, tape, Change(leaf, 0, edge)) == "w.grad from Add, step 2"


async def test_a_call_that_has_run_says_so_and_offers_nothing(walked: Any, sight: Callable[..., Any]) -> None:
    play = Play()
    columns = play.tape([(1.0, 10.0)])
    columns.kind = "committed"
    play.tell(m.Stopped(call(), "call"), m.Captured(play.graph.columns), m.Recorded(columns))
    play.take()
    async with walked(play.session) as pilot:
        assert sight(pilot).pane("seed")[1] == " [0] 1.0   [1] 10.0   its call has run: nothing can be tried here"
        assert " s seed" not in sight(pilot).lines[-1]
        assert "n one node · c to the end · ? all keys" in sight(pilot).text
        for key in ("s", "x", "i", "K", ")", "S"):
            play.session.go_to_node(SIN)
            play.session.view().graph.columns.backward_code[SIN] = CodePlace("model.py", 3, "backward")  # type: ignore[union-attr]
            play.session.notice = ""
            pilot.app.refresh_view()
            await pilot.press({")": "right_parenthesis"}.get(key, key))
            await pilot.pause()
            assert play.session.notice == "this call has run already and was recorded as it ran: nothing can be tried on it", key
            assert len(pilot.app.screen_stack) == 1
            assert pilot.app.screen.focused is pilot.app.tape
        assert play.take() == []
