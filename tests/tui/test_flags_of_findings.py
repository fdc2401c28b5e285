"""Findings are flagged where they are, lead to their line, and an error stop says what ended the script."""

from __future__ import annotations

from dataclasses import replace

import pytest
from graphs import FILE
from views import SOURCES, two_outputs_view

from gradscope.findings.finding import Finding, Related
from gradscope.protocol.messages import Call, LiveTensor
from gradscope.session.view import State, Stop, View
from gradscope.tui.flagged import Flagged

ERROR = Finding("zero-gradient", "error", "b is at fault", "try this", node=1, file=FILE, line=11, leaf="x")
WARNING = Finding("cut", "warning", "cut off", file=FILE, line=9, related=(Related(FILE, 13, "cut here"),))
INFO = Finding("hook-changed", "info", "a hook", node=2, file=FILE, line=10)


def test_where_findings_are() -> None:
    tape = two_outputs_view().tape
    flagged = Flagged.of((ERROR, WARNING, INFO), tape)
    step = tape.step_of(1)
    assert [flagged.steps(at, at) for at in range(1, 5)] == ["E" if at == step else "" for at in range(1, 5)]
    assert flagged.steps(1, 4) == "E"
    assert [flagged.line(FILE, line) for line in (9, 10, 11, 13)] == ["W", "", "E", "W"]
    assert (flagged.leaf("x"), flagged.leaf("y")) == ("E", "")


def test_they_are_worked_out_once() -> None:
    findings, tape = (ERROR,), two_outputs_view().tape
    assert Flagged.of(findings, tape) is Flagged.of(findings, tape)
    assert Flagged.of((WARNING,), tape).line(FILE, 9) == "W"


async def test_rows_lines_and_leaves_bear_letters(shown, sight) -> None:
    async with shown(two_outputs_view(step=4, findings=(ERROR, WARNING))) as pilot:
        view = sight(pilot)
        [row] = [line for line in view.pane("tape") if "b = x.sin()" in line]
        assert "10.05 E" in row
        source, leaves = "\n".join(view.pane("source")), "\n".join(view.pane("lower"))
        for start in ("▶W 9", " E11", "  10"):
            assert start in source
        assert "x     E [2]" in leaves


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_finding_without_a_node_leads_to_its_line(shown, size) -> None:
    async with shown(two_outputs_view(step=4, findings=(WARNING,)), size=size) as pilot:
        pilot.app.show(two_outputs_view(step=4, findings=(WARNING,), finding=0))
        await pilot.pause()
        assert pilot.app.query_one("#source").place == (FILE, 9)


def error_view(**more: object) -> View:
    """A script that failed in its forward."""
    stop = Stop(
        Call(0, "none", FILE, 9, "<module>", "x = …"),
        "error",
        "RuntimeError: a leaf is being written into",
        live=[LiveTensor("h", "main() in a.py:3", (2,), "float32", "MulBackward0")],
        traceback="Traceback (most recent call last):\n  line nine",
    )
    finding = replace(WARNING, kind="outside-backward", severity="error", message="x is a leaf", hint="use no_grad", related=())
    return View(State.STOPPED, "a.py", stop=stop, stops=1, stop_number=1, findings=(finding,), sources=SOURCES, **more)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_an_error_stop_says_what_and_why(shown, sight, size) -> None:
    async with shown(error_view(), size=size) as pilot:
        await pilot.pause()
        for piece in (
            "The script failed",
            "RuntimeError: a leaf is being written into",
            "x is a leaf",
            "use no_grad",
            "r lets the script",
        ):
            assert piece in sight(pilot).text
        assert "line nine" not in sight(pilot).text
        await pilot.press("d")
        await pilot.pause()
        assert "line nine" in sight(pilot).text
        await pilot.press("enter")
        await pilot.pause()
        assert "your script failed here" in sight(pilot).text
        assert "1 finding" in sight(pilot).lines[0]
        assert "✗ RuntimeError" in sight(pilot).lines[0]
        assert "outside-backward" in "\n".join(sight(pilot).pane("lower"))
        pilot.app.show(replace(error_view(), state=State.CRASHED))
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 1  # told once
