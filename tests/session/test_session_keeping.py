"""Breakpoints, findings, watches, tensors, sources and reports of a session."""

from __future__ import annotations

import pytest
from graphs import Drawing
from playing import Play

from gradscope.errors import GradscopeError, UsageError
from gradscope.findings.finding import Finding
from gradscope.model.saved import SavedColumns
from gradscope.protocol import messages as m
from gradscope.session.session import Session
from gradscope.session.view import State


def test_breakpoints_are_sent_while_the_script_lives(play: Play):
    play.session.add_break("nan")
    play.session.add_break("op:SinBackward0")
    assert play.take() == [m.SetBreaks(["nan"]), m.SetBreaks(["nan", "op:SinBackward0"])]
    assert play.session.view().breaks == ("nan", "op:SinBackward0")
    play.session.add_break("nan")
    assert (play.take(), play.session.notice) == ([], "nan is set already")
    with pytest.raises(UsageError):
        play.session.add_break("norm>>3")
    play.session.remove_break("nan")
    play.session.exited(0)
    play.take()
    play.session.add_break("inf")
    assert (play.take(), play.session.view().breaks) == ([], ("op:SinBackward0", "inf"))


def test_b_sets_and_clears_a_breakpoint_on_the_rows_line(play: Play):
    play.session.select(2)
    play.session.toggle_break()
    assert play.take() == [m.SetBreaks(["two_outputs.py:11"])]
    play.session.run_to_break_or_end(1)
    assert play.session.view().playhead == 2
    play.session.run_to_break_or_end(1)
    play.session.run_to_break_or_end(1)
    assert (play.session.view().playhead, play.session.notice) == (4, "at the end: r resumes your script")
    play.session.run_to_break_or_end(-1)
    assert play.session.view().playhead == 2
    play.session.toggle_break()
    assert (play.session.view().breaks, play.session.notice) == ((), "no breakpoint at two_outputs.py:11 any more")


def test_b_on_a_leaf_names_the_leaf(play: Play):
    play.session.select(4)
    play.session.toggle_break()
    assert play.take() == [m.SetBreaks(["leaf:x"])]
    play.session.run_to_break_or_end(1)
    assert play.session.view().playhead == 4


def test_playing_stops_at_breakpoints_and_at_the_end(play: Play):
    play.session.add_break("step:2")
    play.session.play()
    seen = []
    while play.session.view().playing:
        play.session.tick()
        seen.append(play.session.view().playhead)
    play.session.play()
    while play.session.view().playing:
        play.session.tick()
        seen.append(play.session.view().playhead)
    assert seen == [1, 2, 3, 4]
    play.session.play()
    assert (play.session.view().playhead, play.session.view().playing) == (0, True)
    play.session.move(1)
    assert play.session.view().playing
    play.session.step(1)
    assert not play.session.view().playing


def test_every_kind_of_breakpoint_is_met_somewhere_and_c_says_which(play: Play):
    for text in ("op:Sin", "leaf:x", "norm>15", "shape:[9]"):
        play.session.add_break(text)
    assert list(play.session.view().met) == [2, 4]
    said = []
    for _ in range(3):
        play.session.run_to_break_or_end(1)
        said.append((play.session.view().playhead, play.session.notice))
    assert said == [
        (2, "op:Sin met at step 2"),
        (4, "leaf:x, norm>15 met at step 4"),
        (4, "at the end: r resumes your script"),
    ]
    play.session.run_to_break_or_end(-1)
    assert (play.session.view().playhead, play.session.notice) == (2, "op:Sin met at step 2")
    play.session.run_to_break_or_end(-1)
    assert (play.session.view().playhead, play.session.notice) == (0, "")
    play.session.remove_break("op:Sin")
    assert list(play.session.view().met) == [4]


def test_a_breakpoint_on_a_finding_must_name_a_kind_that_exists(play: Play):
    with pytest.raises(UsageError) as refused:
        play.session.add_break("finding:bogus")
    assert refused.value.what == "cannot read the condition 'finding:bogus': no finding is called so"
    assert "not-exact" in refused.value.why
    play.session.add_break("finding:not-exact")
    assert play.session.view().breaks == ("finding:not-exact",)


def test_a_stop_at_a_condition_says_which_and_where():
    play = Play(m.Configure(breaks=["op:Mul*"]))
    play.stop(reason="breakpoint")
    assert play.session.notice == "op:Mul* met at step 3: c goes there"


def test_findings_come_from_everywhere_worst_first():
    play = Play()
    node = 1
    play.stop(findings=[Finding("vanishing", "warning", "small", node=node)])
    play.tell(
        m.Diagnosed([Finding("orphan-parameter", "info", "outside")]), m.Diagnosed([Finding("cut", "error", "cut", call=1)])
    )
    view = play.session.view()
    assert [finding.kind for finding in view.findings] == ["cut", "vanishing", "orphan-parameter"]
    assert play.session.view().findings is view.findings
    play.session.finding(1)
    assert play.session.view().playhead == play.shown.step_of(node)
    assert (play.session.view().finding, play.session.notice) == (1, "finding 1 of 3")
    for place in (0, 2):
        play.session.finding(1)
        assert (play.session.view().finding, play.session.notice) == (place, "this finding has no node in the graph")
    play.session.finding(1)
    assert (play.session.view().finding, play.session.notice) == (1, "the last finding: back at the first")
    play.session.to_step(0)
    play.session.to_finding(1)
    assert play.session.view().playhead == play.shown.step_of(node)
    play.session.to_finding(0)
    assert play.session.notice == "this finding has no node in the graph"


def test_watches_are_found_again_at_the_next_stop(play: Play):
    play.session.select(4)
    play.session.toggle_watch()
    play.session.toggle_watch(play.shown.node_at(2))
    nodes = (play.shown.node_at(4), play.shown.node_at(2))
    assert (play.session.view().watches, play.session.notice) == (nodes, "watching SinBackward0")
    play.session.on_next_call()
    play.stop(2)
    assert play.session.view().watches == nodes
    play.session.toggle_watch(nodes[0])
    assert play.session.view().watches == nodes[1:]


def test_small_tensors_are_here_already(play: Play):
    got: list[m.TensorSlice | GradscopeError] = []
    play.session.fetch(play.shown, play.shown.seeds[0].tensor, [(1, 2, 1)], got.append)
    assert (got, play.take()) == ([m.TensorSlice(0, (1,), [10.0])], [])


def big() -> Play:
    """A stop whose seed has more elements than a summary carries."""
    drawing = Drawing()
    leaf = drawing.leaf("w", (100,))
    node = drawing.node("SinBackward0", (100,))
    drawing.edge(node, leaf, (1.0,))
    drawing.root(node)
    play = Play(drawing=drawing)
    play.stop(seed=tuple(map(float, range(100))))
    return play


def test_big_tensors_are_asked_for():
    play = big()
    got: list[m.TensorSlice | GradscopeError] = []
    seed = play.shown.seeds[0].tensor
    play.session.fetch(play.shown, seed, [(0, 4, 2)], got.append)
    assert play.take() == [m.Fetch(1, 1, seed, [(0, 4, 2)])]
    answer = m.TensorSlice(1, (2,), [0.0, 2.0])
    play.tell(answer)
    assert got == [answer]


def test_why_a_tensor_cannot_be_had():
    play = big()
    got: list[m.TensorSlice | GradscopeError] = []
    seed = play.shown.seeds[0].tensor
    play.session.fetch(play.shown, seed, [(0, 4, 2)], got.append)
    play.tell(m.Refused(1, "not held", "the budget is spent"))
    play.session.fetch(play.shown, seed, [(0, 4, 2)], got.append)
    play.session.resume()
    play.session.fetch(play.shown, seed, [(0, 4, 2)], got.append)
    assert [(error.what, error.why) for error in got if isinstance(error, GradscopeError)] == [
        ("not held", "the budget is spent"),
        ("the tensor cannot be had any more", "the script runs on"),
        ("that tensor is gone", "the script has run on since"),
    ]


def test_tensors_are_collected_for_a_report():
    play = big()
    missing: list[int] = []
    play.session.collect(missing.append)
    (read,) = play.take()
    assert isinstance(read, m.ReadSaved)
    play.tell(m.SavedRead(read.request, SavedColumns()))
    (request,) = play.take()
    assert isinstance(request, m.FetchTensors)
    seed = play.shown.seeds[0].tensor
    assert seed in request.tensors
    play.tell(m.TensorBytes(1, seed, "F32", (100,), bytes(400)), m.TensorsDone(request.request, [5, 6]))
    assert missing == [2]
    tensors = play.session.report().stops[0].tensors
    assert [(key, data.dtype, data.shape) for key, data in tensors.items()] == [((1, seed), "F32", (100,))]


def test_sources_are_read_or_asked_for(tmp_path):
    script = tmp_path / "two_outputs.py"
    script.write_text("import torch\nx = 1\n", encoding="utf-8")
    play = Play()
    play.tell(m.CallPassed(1, str(script), 2), m.Stopped(m.Call(2, "backward", "<string>", 1, "<module>", ""), "call"))
    assert play.files == ["<string>"]
    play.tell(m.Source("<string>", "loss.backward()\n"))
    sources = play.session.view().sources
    assert sources == {str(script): ["import torch", "x = 1"], "<string>": ["loss.backward()"]}


def test_a_snapshot_opens_as_a_stop_does(play: Play):
    play.tell(m.Committed(1, "true", "", [], "", False))
    play.session.explore(["1,1"])
    play.answer([(1.0, 1.0)], 2)
    session = Session.from_snapshot(play.session.report())
    view = session.view()
    assert view.stop is not None
    assert (view.state, view.script, view.stops, view.stop.committed) == (
        State.SNAPSHOT,
        "two_outputs.py",
        1,
        m.Committed(1, "true", ""),
    )
    session.step(1)
    session.show_pass(1)
    view = session.view()
    assert (view.playhead, view.tape and view.tape.number, view.edited) == (1, 2, True)
    session.explore(["1,1"])
    assert session.notice == "a snapshot cannot run another pass"
    session.resume()
    assert session.notice == "a snapshot does not run"


def test_running_again_keeps_breakpoints_and_watches(play: Play):
    play.session.add_break("nan")
    play.session.toggle_watch(1)
    session = play.session.again()
    assert (session.view().state, session.view().breaks) == (State.STARTING, ("nan",))
    again = Play()
    again.session = session
    again.stop()
    assert session.view().watches == (1,)
