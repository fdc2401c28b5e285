"""The whole screen over a session: keys act, panes follow, layouts and zoom."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reports import two_outputs_report
from views import crashed_view, gpt_view, two_outputs_view, waiting_view

from gradscope.findings.finding import Finding
from gradscope.session.session import Session
from gradscope.session.view import State
from gradscope.tui.app import GradscopeApp
from gradscope.tui.screens.choices import Choice, ChoicesScreen
from gradscope.tui.screens.error import ErrorScreen
from gradscope.tui.screens.help import HelpScreen


@pytest.fixture
def session() -> Session:
    """The pictured example, opened from a report: two passes, one finding."""
    return Session.from_snapshot(two_outputs_report((1.0, 10.0), (1.0, 1.0)))


async def test_step_keys_move_playhead_and_selection(walked, session) -> None:
    async with walked(session) as pilot:
        seen = []
        for key in ("n", "n", "N", "c", "C", "f", "a"):
            await pilot.press(key)
            view = session.view()
            seen.append((view.playhead, view.selection))
    assert seen == [(1, 1), (2, 2), (1, 1), (4, 4), (0, 0), (1, 1), (2, 2)]


async def test_selection_keys_leave_the_playhead(walked, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "j", "j")
        assert (session.view().playhead, session.view().selection) == (1, 3)
        await pilot.press("G", "k", "t")
        assert (session.view().playhead, session.view().selection) == (3, 3)
        await pilot.press("g", "H")
        assert session.view().selection == 3
        await pilot.press("g", "enter")
        assert session.view().playhead == 0


async def test_panes_follow(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "n")
        assert "step 2/4 · 1 finding (a)" in sight(pilot).lines[0]
        assert sight(pilot).pane("node")[0].startswith("─3 SinBackward0   b = x.sin()   step 2")
        assert "│ ●   SinBackward0" in sight(pilot).pane("tape")[4]


async def test_search_as_one_types_and_its_keys(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("slash", "m", "u", "l")
        await pilot.pause()
        assert session.view().selection == 3
        assert sight(pilot).lines[-1].startswith(" / mul")
        await pilot.press("enter")
        await pilot.pause()
        assert ". , next, previous match" in sight(pilot).lines[-1]
        await pilot.press("escape")
        assert session.view().search == ""


async def test_search_line_is_left_with_escape(walked, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("slash", "s", "escape")
        await pilot.pause()
        assert (session.view().search, len(pilot.app.screen_stack)) == ("", 1)


async def test_go_to_a_step_takes_digits_only(walked, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("number_sign", "x", "3", "enter")
        await pilot.pause()
        assert session.view().playhead == 3


async def test_several_edges_ask_which(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "d")
        await pilot.pause()
        assert isinstance(pilot.app.screen, ChoicesScreen)
        assert "Toward the leaves" in sight(pilot).text
        await pilot.press("j", "enter")
        await pilot.pause()
        assert session.view().selection in (2, 3)
        before = session.view().selection
        await pilot.press("u")
        assert (session.view().selection, before) == (1, before)


async def test_edges_to_nodes_of_one_kind_are_told_apart(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("G", "u")
        await pilot.pause()
        menu = [" ".join(line.split()) for line in sight(pilot).lines if "‖·‖" in line and "step" in line]
    assert menu == [
        "MulBackward0 step 3 :10 a = x * x ‖·‖ 20.02",
        "SinBackward0 step 2 :11 b = x.sin() ‖·‖ 4.196",
    ]


async def test_passes_flip(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("right_curly_bracket")
        await pilot.pause()
        assert "pass 2 of 2: SEED EDITED" in sight(pilot).lines[0]
        assert pilot.app.screen.has_class("edited")
        await pilot.press("left_curly_bracket")
        await pilot.pause()
        assert not pilot.app.screen.has_class("edited")


async def test_playing_ticks_to_the_end(walked, session, monkeypatch) -> None:
    monkeypatch.setattr("gradscope.tui.driving.BEAT", 0.01)
    async with walked(session) as pilot:
        await pilot.press("space")
        while session.view().playing:
            await pilot.pause(0.01)
        assert session.view().playhead == 4
        assert pilot.app._playing is None


@pytest.mark.parametrize("key", ["s", "r", "S", "(", ")", "R", "f5", "ctrl+c"])
async def test_keys_for_a_script_say_that_a_snapshot_has_none(walked, sight, session, key) -> None:
    async with walked(session, (80, 24)) as pilot:
        await pilot.press("n", key)
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 1
        assert session.view().playhead == 1
        assert "a snapshot: the script is not here" in sight(pilot).lines[-1]
        await pilot.press("n")
        assert session.view().notice == ""


@pytest.mark.parametrize(
    ("state", "key", "said"),
    [
        (State.STARTING, "n", "the script has not stopped yet"),
        (State.RUNNING, "v", "the script runs: it has not stopped again yet"),
        (State.CRASHED, "s", "the script is over: R runs it again"),
        (State.ENDED, "r", "the script is over: R runs it again"),
        (State.ENDED, "v", "nothing is recorded here"),
        (State.ENDED, "slash", "nothing is recorded here"),
        (State.ENDED, "number_sign", "nothing is recorded here"),
        (State.ENDED, "y", "nothing is recorded here"),
        (State.ENDED, "enter", "nothing is recorded here"),
        (State.ENDED, "G", "nothing is recorded here"),
    ],
)
async def test_a_key_that_does_nothing_says_why(shown, sight, state, key, said) -> None:
    async with shown(waiting_view(state), (80, 24)) as pilot:
        await pilot.press("enter" if state is State.CRASHED else "1", "1", key)  # the crash is told in a dialog
        await pilot.pause()
        assert said in sight(pilot).lines[-1]


@pytest.mark.parametrize(("size", "columns"), [((80, 24), [80, 80]), ((120, 36), [66, 54]), ((200, 60), [136, 64])])
async def test_layout_by_width(shown, size, columns) -> None:
    async with shown(two_outputs_view(), size) as pilot:
        assert [pilot.app.query_one(f"#{name}").outer_size.width for name in ("left", "right")] == columns


async def test_narrow_shows_one_pane_below_the_tape(shown, sight) -> None:
    async with shown(two_outputs_view(), (80, 24)) as pilot:
        for key, rule in (("2", "━2 Source"), ("3", "━3 Sin"), ("5", "━5"), ("1", "━1 Tape")):
            await pilot.press(key)
            await pilot.pause()
            rules = [
                line for line in sight(pilot).lines if line[:2] in ("━1", "━2", "━3", "━4", "━5", "─1", "─2", "─3", "─4", "─5")
            ]
            assert len(rules) == 2
            assert any(line.startswith(rule) for line in rules), key


async def test_narrow_tape_takes_twelve_lines_at_most(shown) -> None:
    async with shown(gpt_view(rows=2, screen_rows=40), (80, 24)) as pilot:
        assert pilot.app.query_one("#tape").outer_size.height == 12


async def test_zoom_and_escape(shown, sight) -> None:
    async with shown(two_outputs_view()) as pilot:
        await pilot.press("3", "z")
        await pilot.pause()
        assert sight(pilot).lines[1].startswith("━3 SinBackward0")
        assert len([line for line in sight(pilot).lines if line[1:2].isdigit() and line[0] in "━─"]) == 1
        await pilot.press("2")
        await pilot.pause()
        assert sight(pilot).lines[1].startswith("━2 Source")
        await pilot.press("escape")
        await pilot.pause()
        assert sight(pilot).lines[1].startswith("─1 Tape")


async def test_resize_changes_the_layout_and_keeps_the_selection_in_sight(shown, sight) -> None:
    async with shown(gpt_view(rows=9, screen_rows=40), (200, 60)) as pilot:
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert any(line.startswith(" ▶") for line in sight(pilot).pane("tape"))
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert sight(pilot).lines[-1].endswith("? keys q quit")


async def test_help_lists_every_key(shown, sight) -> None:
    async with shown(two_outputs_view(), (120, 60)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(pilot.app.screen, HelpScreen)
        text = sight(pilot).text
        for piece in ("n N ", "next node (visible row) / previous", "Script and calls", "ctrl+z", "a breakpoint"):
            assert piece in text
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(pilot.app.screen, HelpScreen)


async def test_palette_offers_what_lives_in_the_state(shown, sight) -> None:
    async with shown(two_outputs_view(state=State.SNAPSHOT)) as pilot:
        await pilot.press("colon")
        await pilot.pause(0.2)
        for letter in "resume":
            await pilot.press(letter)
        await pilot.pause(0.3)
        assert "Resume the script" not in sight(pilot).text


@pytest.mark.parametrize(("key", "action"), [("R", "rerun"), ("q", "quit")])
async def test_the_keys_that_the_text_of_a_crash_names_work_from_there(shown, monkeypatch, key, action) -> None:
    done = []
    monkeypatch.setattr(GradscopeApp, f"action_{action}", lambda app: done.append(action))
    async with shown(crashed_view()) as pilot:
        await pilot.press(key)
        await pilot.pause()
        await pilot.pause()
        assert (done, len(pilot.app.screen_stack)) == ([action], 1)


async def test_a_crash_is_told_once_with_its_traceback(shown, sight) -> None:
    async with shown(crashed_view()) as pilot:
        assert isinstance(pilot.app.screen, ErrorScreen)
        for piece in ("The script crashed", "RuntimeError: [broken]", "line 10, in <module>"):
            assert piece in sight(pilot).text
        await pilot.press("d")
        await pilot.pause()
        assert "line 10, in <module>" not in sight(pilot).text
        await pilot.press("enter")
        pilot.app.show(crashed_view())
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 1


async def test_quit_without_a_script_asks_nothing(walked, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("q")
        await pilot.pause()
        assert pilot.app.return_code == 0


async def test_no_colour_leaves_none_and_marks_the_selection(shown, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with shown(two_outputs_view()) as pilot:
        strips = pilot.app.screen._compositor.render_strips()
        styles = [segment.style for strip in strips for segment in strip if segment.style]
        assert {style.color.name for style in styles if style.color} <= {"default"}
        assert {style.bgcolor.name for style in styles if style.bgcolor} <= {"default"}
        row = pilot.app.query_one("TapeList").render_line(3)
        assert any(segment.style and segment.style.reverse for segment in row)


async def test_ascii_leaves_no_other_sign(shown, sight) -> None:
    async with shown(gpt_view(), ascii_only=True) as pilot:
        text = sight(pilot).text
    assert text.isascii()
    assert "?" not in text.replace("? keys", "").replace("? all keys", "")


async def test_waiting_states_say_what_is_going_on(shown, sight) -> None:
    async with shown(waiting_view(State.STARTING)) as pilot:
        assert "starting" in sight(pilot).lines[0]
        assert "the script starts" in sight(pilot).text
        assert sight(pilot).lines[-1].endswith("stop at the next call o output ? keys q quit")


async def test_a_menus_letter_picks_and_goes_no_further(walked, session) -> None:
    picked: list[int | None] = []
    async with walked(session) as pilot:
        pilot.app.push_screen(ChoicesScreen("Pick", [Choice("one", key="n"), Choice("two", key="c")]), picked.append)
        await pilot.pause()
        await pilot.press("c")
        await pilot.pause()
        assert picked == [1]
        assert session.view().playhead == 0


async def test_the_next_finding_comes_with_its_text(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("a")
        await pilot.pause()
        assert session.view().playhead == 2
        assert "log(0) makes the gradient" in "\n".join(sight(pilot).pane("lower"))


async def test_copying_says_what_was_copied(walked, sight, session) -> None:
    async with walked(session) as pilot:
        await pilot.press("n", "y")
        await pilot.pause()
        copied = pilot.app.clipboard
        assert "AddBackward0" in copied
        assert sight(pilot).lines[-1].startswith(f" copied: {copied} ·")


async def test_a_finding_without_a_node_is_picked_too(walked, sight) -> None:
    report = two_outputs_report((1.0, 10.0))
    cut = Finding("cut", "warning", "the graph was cut", hint="do not detach")
    session = Session.from_snapshot(replace(report, findings=(cut,)))
    async with walked(session) as pilot:
        for text in ("log(0) makes the gradient", "try: do not detach", "log(0) makes the gradient"):
            await pilot.press("a")
            await pilot.pause()
            assert text in "\n".join(sight(pilot).pane("lower")[3:])
        assert " the last finding: back at the first ·" in sight(pilot).lines[-1]


async def test_the_footer_tells_the_keys_of_a_line_that_is_typed(shown, sight) -> None:
    async with shown(two_outputs_view()) as pilot:
        await pilot.press("s")
        await pilot.pause()
        await pilot.pause()
        assert sight(pilot).lines[-1] == " Enter run it Esc leave the line"
        await pilot.press("escape")
        await pilot.pause()
        await pilot.pause()
        assert sight(pilot).lines[-1].startswith(" n step")
