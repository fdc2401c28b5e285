"""The source: the file of the selection, with what the pass has done to each line."""

from __future__ import annotations

import pytest
from graphs import FILE, recurrent
from views import CALL, SOURCE, edited_view, two_outputs_view, view_of, waiting_view

from gradscope.protocol.messages import Call
from gradscope.session.stepping import Walk
from gradscope.session.view import State, Stop
from gradscope.tui.messages import NodeWanted
from gradscope.tui.widgets.source import SourceList
from gradscope.tui.widgets.source_marks import Mark, calls, ordinal


async def test_lines_are_the_pictured_ones(shown, sight) -> None:
    async with shown(two_outputs_view()) as pilot:
        lines = sight(pilot).pane("source")
    assert lines[0].startswith("─2 Source  two_outputs.py──")
    at = next(row for row, line in enumerate(lines) if line.startswith("    9 "))
    assert lines[at : at + 6] == [
        "    9  x = torch.tensor([1., 2.], requires_grad=True)",
        "   10  a = x * x              ○",
        " ▶ 11  b = x.sin()            ● ‖∂b‖ 10.05",
        "   12  J = a + b              ● ‖∂J‖ 10.05",
        "   13  v = torch.tensor([1., 10.])",
        "   14  J.backward(gradient=v) ▽ seed",
    ]


async def test_both_cursors_show(shown, sight) -> None:
    async with shown(two_outputs_view(step=1, selection=3)) as pilot:
        lines = "\n".join(sight(pilot).pane("source"))
    assert " ▶ 12  J = a + b" in lines
    assert " › 10  a = x * x" in lines


async def test_at_the_start_the_call_is_where_the_playhead_is(shown, sight) -> None:
    async with shown(two_outputs_view(step=0)) as pilot:
        assert " ▶ 14  J.backward(gradient=v) ▽ seed" in sight(pilot).pane("source")


async def test_another_pass_shows_its_norms(shown, sight) -> None:
    async with shown(edited_view()) as pilot:
        assert " ▶ 11  b = x.sin()            ● ‖∂b‖ 1.414" in sight(pilot).pane("source")


async def test_a_stop_without_a_call_marks_no_backward_call(shown, sight) -> None:
    stop = Stop(Call(0, "none", CALL.file, 12, "<module>", ""), "line")
    async with shown(waiting_view(State.STOPPED, stop=stop)) as pilot:
        source = sight(pilot).pane("source")
    (line,) = [line for line in source if "J = a + b" in line]
    assert line.split() == ["›", "12", "J", "=", "a", "+", "b", "the", "script", "stands", "here"]
    assert [line.split()[1] for line in source if "backward call" in line] == ["J.backward(gradient=v)"]


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING])
async def test_before_a_stop_backward_calls_are_marked(shown, sight, state) -> None:
    async with shown(waiting_view(state)) as pilot:
        text = "\n".join(sight(pilot).pane("source"))
    assert "J.backward(gradient=v) ▽ backward call" in text or "14" not in text


async def test_a_line_of_a_loop_says_which_round(shown, sight) -> None:
    graph, tape = recurrent(6)
    walk = Walk(graph, tape)
    walk.to_step(2)
    file = "/home/ada/rnn.py"
    sources = {file: ["import torch"] * 6 + ["    h = torch.tanh(h @ W + b)"]}
    async with shown(view_of(walk, [tape], CALL, sources=sources)) as pilot:
        lines = sight(pilot).pane("source")
    assert " ▶  7      h = torch.tanh(h @ W + b) ● 6th of 6  0.990  Add" in lines
    assert lines[0].startswith("─2 Source  rnn.py")


async def test_a_click_means_the_lines_node(shown, sight) -> None:
    told: list[object] = []
    async with shown(two_outputs_view(), told=told) as pilot:
        row = next(row for row, line in enumerate(sight(pilot).pane("source")) if line.startswith("   10 "))
        await pilot.click(SourceList, offset=(8, row - 1))
    wanted = {id(message): message for message in told if isinstance(message, NodeWanted)}
    assert [message.node for message in wanted.values()] == [0]


async def test_a_file_that_is_not_here_says_so_and_shows_what_is_known(shown, sight) -> None:
    async with shown(two_outputs_view(sources={})) as pilot:
        lines = sight(pilot).pane("source")
    assert lines[0].startswith("─2 Source  two_outputs.py")
    assert lines[1:8] == [
        "       the text of /home/ada/two_outputs.py is not here",
        "       what is known of it:",
        "    9  x = torch.tensor([1., 2.], requires_grad=True)",
        "   10  a = x * x              ○",
        " ▶ 11  b = x.sin()            ● ‖∂b‖ 10.05",
        "   12  J = a + b              ● ‖∂J‖ 10.05",
        "   14  J.backward(gradient=v) ▽ seed",
    ]


def test_calls_are_found_in_code_not_in_comments() -> None:
    lines = ["# loss.backward()", "loss.backward()", "g = torch.autograd.grad(y, x)", "backward = 3"]
    assert sorted(calls(lines)) == [2, 3]


def test_ordinals() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"),
    ]


def test_a_number_beside_a_line_is_never_cut() -> None:
    norm = Mark("●", ("‖∂safe‖ 1.414", "×3"), short="1.414")
    assert [norm.text(room) for room in (17, 16, 13, 12, 9, 8)] == [
        *("‖∂safe‖ 1.414  ×3", "‖∂safe‖ 1.414", "‖∂safe‖ 1.414", "1.414  ×3", "1.414  ×3", "1.414"),
    ]
    assert Mark("●", ("none arrives",)).text(6) == "none …"


async def test_beside_a_long_line_the_name_goes_not_the_number(shown, sight) -> None:
    sources = {FILE: [line.replace("a = x * x", "a = x * x  # " + "long " * 20) for line in SOURCE]}
    async with shown(two_outputs_view(step=3, sources=sources)) as pilot:
        (line,) = [line for line in sight(pilot).pane("source") if "a = x * x" in line]
    assert line.split()[-2:] == ["●", "10.05"] or line.endswith("● ‖∂a‖ 10.05")
