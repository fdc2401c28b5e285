"""Keys that fold everything by depth and hide view-like nodes."""

from __future__ import annotations

import pytest
from graphs import gpt_like
from reports import AT

from gradscope.model.report import CallInfo, Report, StopReport
from gradscope.session.session import Session
from gradscope.tui.widgets.tape import _shortened


@pytest.fixture
def session() -> Session:
    graph, tape = gpt_like()
    stop = StopReport(CallInfo(1, "backward", AT), graph, (tape,))
    return Session.from_snapshot(Report("train_gpt.py", (), "3.11.7", "2.13.0", (stop,)))


async def test_depth_keys(walked, sight, session) -> None:
    async with walked(session) as pilot:
        for _ in range(6):
            await pilot.press("-")
        await pilot.pause()
        assert session.view().notice == "all is folded"
        assert [line.split()[1:4] for line in sight(pilot).pane("tape")[3:8]] == [
            *(["○", "▸", "cross_entropy"], ["○", "▸", "lm_head"], ["○", "▸", "ln_f"], ["○", "▸", "h.5…h.0"]),
            ["○", "AddBackward0", ":57"],
        ]
        await pilot.press("+")
        assert session.view().notice == "open to depth 1"
        await pilot.press("=", "=", "=", "=", "=")
        assert len(session.view().rows or ()) == 275


async def test_hidden_nodes_are_counted_in_title_and_rows(walked, sight, session) -> None:
    async with walked(session) as pilot:
        rows = session.view().rows
        assert rows is not None
        await pilot.press("P")
        await pilot.pause()
        hidden = session.view().rows
        assert hidden is not None
        assert hidden.hidden > 0
        assert sight(pilot).pane("tape")[0].startswith(f"━1 Tape  {hidden.hidden} view-like nodes hidden: P")
        assert session.view().notice == f"{hidden.hidden} view-like nodes hidden: P shows them"
        assert [line.split("views")[0][-4:-1] for line in sight(pilot).pane("tape") if " views" in line] == [" +2", " +6"]
        await pilot.press("P")
        await pilot.pause()
        assert sight(pilot).pane("tape")[0].startswith("━1 Tape━")
        assert len(session.view().rows or ()) == len(rows)


async def test_steps_go_by_visible_rows_to_the_end(walked, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("P")
        rows = session.view().rows
        assert rows is not None
        ends = []
        while session.view().playhead < 274:
            await pilot.press("n")
            ends.append(session.view().playhead)
        assert ends == [rows.last(row) for row in rows.covering][1:]


@pytest.mark.parametrize(
    ("label", "room", "shown"),
    [
        ("c_proj Linear +2", 16, "c_proj Linear +2"),
        ("c_proj Linear +2", 12, "c_proj L… +2"),
        ("SplitBackward0 +6 views", 16, "SplitB… +6 views"),
        ("c_proj Linear +2 +1 view", 18, "c_proj… +2 +1 view"),
        ("SinBackward0", 8, "SinBack…"),
    ],
)
def test_a_label_keeps_its_counts(label: str, room: int, shown: str) -> None:
    assert _shortened(label, room) == shown
