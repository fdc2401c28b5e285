"""Keys and mouse in the Source pane: lines lead to rows, rows to lines, and there are several files."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from graphs import Drawing
from reports import stop_of, two_outputs_report
from textual.pilot import Pilot
from views import waiting_view

from gradscope.model.report import Report
from gradscope.session.session import Session
from gradscope.session.view import State
from gradscope.tui.widgets.source import SourceList

TRAIN, NET = "/home/ada/train.py", "/home/ada/net.py"

NET_LINES = [
    "def forward(x):",
    "    for _ in range(3):",
    "        x = torch.tanh(",
    "            x",
    "            * 2,",
    "        )",
    "    return x",
]
TRAIN_LINES = ["import net", "", "loss = net.forward(x).sum()", "loss.backward()"]


def looped() -> Drawing:
    """Three rounds of tanh(x * 2) in net.py, whose call spans lines 3 to 6; then a sum in train.py."""
    drawing = Drawing()
    x = drawing.leaf("x")
    outer, inner = drawing.origin(NET, 3, "x = torch.tanh(x * 2)"), drawing.origin(NET, 4, "x = torch.tanh(x * 2)")
    for _ in range(3):
        product = drawing.node("MulBackward0", origin=inner)
        drawing.edge(product, x, (2.0,))
        x = drawing.node("TanhBackward0", origin=outer)
        drawing.edge(x, product, (0.5,))
    loss = drawing.node("SumBackward0", origin=drawing.origin(TRAIN, 3, "loss = net.forward(x).sum()"))
    drawing.edge(loss, x)
    drawing.root(loss)
    return drawing


@pytest.fixture
def session() -> Session:
    texts = {NET: "\n".join(NET_LINES) + "\n", TRAIN: "\n".join(TRAIN_LINES) + "\n"}
    stop = stop_of(looped(), ((1.0,),), sources=texts)
    return Session.from_snapshot(Report("train.py", (), "3.11.7", "2.13.0", (stop,)))


def source(sight: Any, pilot: Pilot[int]) -> list[str]:
    return [line for line in sight(pilot).pane("source") if line]


async def test_a_statement_of_several_lines_is_marked_as_a_whole(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "n")
        assert source(sight, pilot)[:8] == [
            "─2 Source  net.py   1 of 3 files [ ]──────────────────────────────",
            "    1  def forward(x):",
            "    2      for _ in range(3):",
            " ▶  3          x = torch.tanh( ● 3rd of 3  ‖∂x‖ 1.000  Tanh",
            " │  4              x           ○ ×3",
            " │  5              * 2,",
            " │  6          )",
            "    7      return x",
        ]


async def test_lines_that_ran_in_part_and_as_a_whole(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "n", "n", "n")
        assert " │  4              x           ● ‖∂x‖ 0.500  1 of 3" in source(sight, pilot)
        await pilot.press("c")
        assert "    4              x           ● ‖∂x‖ 0.500  ×3" in source(sight, pilot)


async def test_moving_over_lines_selects_their_rows(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "n", "n", "n", "2", "j")
        await pilot.pause()
        view = session.view()
        assert (view.playhead, view.selection) == (4, 3)
        await pilot.press("k", "k")
        await pilot.pause()
        assert session.view().selection == 4
        assert [line[:6] for line in source(sight, pilot) if line[1] in "▶›"] == [" ›  2 ", " ▶  3 "]
        await pilot.press("n")
        assert session.view().playhead == 5
        assert [line[:6] for line in source(sight, pilot) if line[1] in "▶›"] == [" ▶  4 "]


async def test_the_nodes_of_one_line_by_left_and_right(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "n", "2")
        seen = []
        for key in ("l", "l", "l", "h"):
            await pilot.press(key)
            await pilot.pause()
            seen.append(session.view().selection)
        assert seen == [4, 6, 6, 4]
        assert " ▶  3          x = torch.tanh( ○ 2nd of 3  Tanh" in source(sight, pilot)
        assert session.view().playhead == 2


async def test_enter_takes_the_playhead_to_the_line(walked, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "n", "2", "j", "enter")
        await pilot.pause()
        assert session.view().playhead == 3
        await pilot.press("C", "enter")
        assert session.view().playhead == 0


async def test_other_files(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "n", "2", "]")
        await pilot.pause()
        assert source(sight, pilot)[0].startswith("━2 Source  train.py   2 of 3 files [ ]")
        assert " ›  3  loss = net.forward(x).sum() ● ‖∂loss‖ 1.000" in source(sight, pilot)
        assert session.view().selection == 2
        await pilot.press("[")
        await pilot.pause()
        assert source(sight, pilot)[0].startswith("━2 Source  net.py   1 of 3 files [ ]")
        await pilot.press("]", "1", "N")
        await pilot.pause()
        assert source(sight, pilot)[0].startswith("─2 Source  train.py")


async def test_the_editor_opens_at_the_cursor(walked, session, monkeypatch) -> None:
    opened: list[list[str]] = []
    monkeypatch.setenv("EDITOR", "ed -s")
    monkeypatch.setattr("gradscope.tui.driving._run", lambda command: opened.append(command))
    monkeypatch.setattr("gradscope.tui.app.GradscopeApp.suspend", lambda self: nullcontext())
    async with walked(session) as pilot:
        await pilot.press("n", "n", "e", "2", "k", "e", "1", "e")
        await pilot.pause()
    assert opened == [["ed", "-s", "+3", NET], ["ed", "-s", "+2", NET], ["ed", "-s", "+3", NET]]


async def test_a_click_on_a_line_without_nodes_puts_the_cursor_there(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "n")
        row = next(row for row, line in enumerate(sight(pilot).pane("source")) if line.startswith("    7 "))
        await pilot.click(SourceList, offset=(8, row - 1))
        await pilot.pause()
        assert " ›  7      return x" in source(sight, pilot)
        assert session.view().selection == 2


async def test_keys_while_nothing_is_recorded(shown, sight) -> None:
    async with shown(waiting_view(State.RUNNING)) as pilot:
        await pilot.press("2", "j", "k", "l", "h", "enter", "]", "[", "G", "g", "pagedown")
        await pilot.pause()
        assert len(source(sight, pilot)) > 1


async def test_keys_that_do_nothing_say_why(walked, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "n", "2", "h")
        await pilot.pause()
        assert session.notice == "the first of this line's 3 nodes"
        await pilot.press("l", "l", "l")
        await pilot.pause()
        assert session.notice == "the last of this line's 3 nodes"
        await pilot.press("g", "enter")
        await pilot.pause()
        assert session.notice == "no node of this line runs in this pass"
        session.notice = ""
        await pilot.press("l")
        await pilot.pause()
        assert session.notice == "no node of this line runs in this pass"


async def test_the_only_file_and_the_only_node_of_a_line(walked) -> None:
    session = Session.from_snapshot(two_outputs_report((1.0, 10.0)))
    async with walked(session) as pilot:
        await pilot.press("n", "n", "2", "right_square_bracket")
        await pilot.pause()
        assert session.notice == "the pass goes through this file alone"
        await pilot.press("l")
        await pilot.pause()
        assert session.notice == "the only node of this line"
