"""Top and bottom line: what is dropped where there is no room, and what never is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views import crashed_view, edited_view, two_outputs_view, waiting_view

from gradscope.findings.finding import Finding
from gradscope.protocol.messages import Committed
from gradscope.session.view import Busy, Exit, State, View
from gradscope.tui.messages import ActionWanted
from gradscope.tui.widgets.footer import Footer
from gradscope.tui.widgets.header import status

FINDING = Finding("missing-gradient", "warning", "w gets no gradient")


def words(view: View) -> list[str]:
    return [part.text for part in status(view)]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (120, " two_outputs.py backward 1 J.backward(gradient=v) :14" + " " * 35 + "step 2/4 · no findings · sums ✓"),
        (80, " two_outputs.py backward 1 :14                  step 2/4 · no findings · sums ✓"),
        (50, " two_outputs.py   step 2/4 · no findings · sums ✓"),
        (36, " two_outputs.py   step 2/4 · sums ✓"),
    ],
)
async def test_header_drops_the_calls_text_first(shown, sight, width, line) -> None:
    async with shown(two_outputs_view(), (width, 24)) as pilot:
        assert sight(pilot).lines[0] == line


async def test_findings_and_pass_are_never_dropped(shown, sight) -> None:
    view = replace(edited_view(), findings=(FINDING,))
    async with shown(view, (64, 24)) as pilot:
        assert sight(pilot).lines[0].endswith("step 2/4 · 1 finding (a) · pass 2 of 2: SEED EDITED")


def test_status_of_states() -> None:
    assert words(waiting_view(State.STARTING)) == ["starting"]
    assert words(waiting_view(State.RUNNING, calls=1200)) == ["running · backward calls 1,200"]
    assert words(waiting_view(State.STARTING, waiting=True)) == ["the script waits for input: o, then type"]
    assert words(crashed_view()) == ["crashed"]
    assert words(replace(two_outputs_view(), state=State.ENDED, exit=Exit(3)))[0] == "ended, exit 3"
    assert words(replace(two_outputs_view(), state=State.SNAPSHOT))[:2] == ["snapshot", "step 2/4"]


def test_status_while_a_pass_runs() -> None:
    assert "recording a pass 64/6,004" in words(replace(two_outputs_view(), busy=Busy("recording a pass", 64, 6004)))
    assert "recording a pass…" in words(replace(two_outputs_view(), busy=Busy("recording a pass")))


@pytest.mark.parametrize(("exact", "said"), [("true", "exact ✓"), ("false", "NOT EXACT ✗"), ("unchecked", "exact unchecked")])
def test_after_the_commit_exactness_is_that_of_the_call(exact, said) -> None:
    view = two_outputs_view()
    assert view.stop is not None
    view.stop.committed = Committed(1, exact, "")
    assert words(view)[-1] == said


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (120, " n step N back c to end a finding s seed / find t to row ( ) Jacobian row r resume E export ? keys q quit"),
        (80, " n step N back c to end a finding s seed / find r resume E export ? keys q quit"),
        (40, " n step N back c to end ? keys q quit"),
        (16, " ? keys q quit"),
    ],
)
async def test_footer_never_cuts_help_and_quit(shown, sight, width, line) -> None:
    async with shown(two_outputs_view(), (width, 24)) as pilot:
        assert sight(pilot).lines[-1] == line


async def test_footer_says_what_the_last_action_had_to_say(shown, sight) -> None:
    async with shown(two_outputs_view(notice="at the end: r resumes your script")) as pilot:
        assert sight(pilot).lines[-1].startswith(" at the end: r resumes your script · n step")


async def test_footer_shows_the_keys_of_a_search(shown, sight) -> None:
    async with shown(two_outputs_view(matches=(1, 2), search="backward")) as pilot:
        assert sight(pilot).lines[-1].startswith(" . , next, previous match n step")


async def test_a_click_on_a_key_is_that_key(shown) -> None:
    told: list[object] = []
    async with shown(two_outputs_view(), told=told) as pilot:
        await pilot.click(Footer, offset=(9, 0))
    wanted = {id(message): message for message in told if isinstance(message, ActionWanted)}
    assert [message.call for message in wanted.values()] == ["drive('step', -1)"]
