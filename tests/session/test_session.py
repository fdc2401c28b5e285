"""The session's states, seeds, passes, breakpoints and tensors, with a debuggee played by hand."""

from __future__ import annotations

import pytest
from graphs import FILE, Drawing
from playing import Play, call

from gradscope.errors import GradscopeError, UsageError
from gradscope.findings.finding import Finding
from gradscope.protocol import messages as m
from gradscope.session.session import Session
from gradscope.session.view import State


@pytest.fixture
def play() -> Play:
    play = Play()
    play.stop()
    return play


# ---------------------------------------------------------------- states


def test_the_first_message_is_answered_with_the_configuration():
    session = Session("a.py", (), m.Configure(stop_at="3"))
    sent: list[m.Request] = []
    session.send = sent.append
    session.add_break("nan")
    assert sent == []
    session.handle(m.Hello(m.VERSION, 7, "3.12.0"))
    assert sent == [m.Configure(stop_at="3", breaks=["nan"])]
    assert session.view().state is State.STARTING


def test_calls_that_go_by_are_counted():
    play = Play()
    play.tell(m.CallPassed(12, "/tmp/a.py", 3))
    view = play.session.view()
    assert (view.state, view.calls, view.where) == (State.RUNNING, 12, ("/tmp/a.py", 3))


def test_a_stop_shows_what_was_recorded(play: Play):
    view = play.session.view()
    assert view.state is State.STOPPED
    assert view.stop is not None
    assert view.stop.call == call()
    assert view.graph is not None
    assert view.rows is not None
    assert (len(view.graph), view.tape and view.tape.steps, len(view.rows)) == (4, 4, 5)
    assert (view.playhead, view.selection, view.stop_number, view.stops, view.busy) == (0, 0, 1, 1, None)
    assert not view.edited


def test_resuming_keeps_what_was_recorded(play: Play):
    play.session.step(1)
    play.session.resume()
    assert play.take() == [m.Resume(False, "break")]
    view = play.session.view()
    assert (view.state, view.playhead) == (State.RUNNING, 1)
    play.session.step(1)
    assert play.session.view().playhead == 2
    play.session.resume()
    assert (play.take(), play.session.notice) == ([], "the script runs already")


def test_resume_waits_for_the_call_that_was_named():
    play = Play(m.Configure(stop_at="5"))
    play.stop(2)
    play.session.resume()
    play.tell(m.Resumed())
    play.stop(5)
    play.session.resume()
    assert play.take() == [m.Resume(False, "5"), m.Resume(False, "break")]


def test_resume_waits_for_the_line_that_was_named():
    play = Play(m.Configure(stop_at="a.py:3"))
    play.stop()
    play.session.resume()
    assert play.take() == [m.Resume(False, "a.py:3")]


def test_earlier_stops_stay_as_they_were_left(play: Play):
    play.session.step(1)
    play.session.on_next_call()
    assert play.take() == [m.Resume(False, "next")]
    play.tell(m.Committed(1, "true", ""), m.Resumed())
    play.stop(2)
    view = play.session.view()
    assert (view.stop_number, view.stops, view.playhead) == (2, 2, 1)
    play.session.step(1)
    play.session.earlier_call()
    view = play.session.view()
    assert view.stop is not None
    assert view.stop.committed is not None
    assert (view.stop_number, view.playhead, view.stop.committed.exact) == (1, 1, "true")
    play.session.earlier_call()
    assert play.session.notice == "no earlier stop is kept"
    play.session.on_next_call()
    assert (play.take(), play.session.view().playhead) == ([], 2)


def test_beyond_a_number_the_oldest_stops_go(play: Play):
    play.session.stops_kept = 3
    for number in range(2, 6):
        play.session.on_next_call()
        play.stop(number)
    view = play.session.view()
    assert (view.stops, view.stop_number) == (3, 3)
    play.session.earlier_call()
    play.session.earlier_call()
    stop = play.session.view().stop
    assert stop is not None
    assert stop.call.number == 3


@pytest.mark.parametrize(
    ("returncode", "state", "code", "message"),
    [
        (0, State.ENDED, 0, ""),
        (3, State.ENDED, 3, ""),
        (-11, State.CRASHED, 139, "killed by signal 11 (SIGSEGV)"),
        (-9, State.CRASHED, 137, "killed by signal 9 (SIGKILL)"),
    ],
)
def test_the_end_of_the_process(play: Play, returncode: int, state: State, code: int, message: str):
    play.session.exited(returncode)
    view = play.session.view()
    assert view.exit is not None
    assert (view.state, view.exit.code, view.exit.message) == (state, code, message)
    play.session.step(1)
    assert play.session.view().playhead == 1


def test_an_uncaught_exception(play: Play):
    play.session.resume()
    play.tell(m.Died("ValueError", "too bad", "Traceback …", FILE, 20), m.Ending(1))
    assert play.session.view().state is State.CRASHED
    play.session.exited(1)
    view = play.session.view()
    assert view.exit is not None
    assert (view.state, view.exit.code, view.exit.message) == (State.CRASHED, 1, "ValueError: too bad")
    assert view.exit.traceback == "Traceback …"


def test_the_report_of_a_death_may_come_after_the_exit(play: Play):
    play.session.exited(1)
    play.tell(m.Died("ValueError", "too bad", "Traceback …"), m.Ending(1))
    view = play.session.view()
    assert view.exit is not None
    assert (view.state, view.exit.code, view.exit.message) == (State.CRASHED, 1, "ValueError: too bad")


def test_recorded_commits_do_not_stop():
    play = Play(m.Configure(record=2))
    play.session.resume()
    play.stop(1, "recorded")
    play.tell(m.Committed(1, "true", ""))
    view = play.session.view()
    assert view.stop is not None
    assert (view.state, view.busy, view.stop.committed and view.stop.committed.exact) == (State.RUNNING, None, "true")


# ---------------------------------------------------------------- seeds and passes


def test_a_seed_edit_adds_a_pass_and_keeps_the_playhead(play: Play):
    play.session.to_step(2)
    play.session.explore(["1,1"])
    assert play.sent == [m.Explore(1, [m.SeedText("1,1")])]
    busy = play.session.view().busy
    assert busy is not None
    assert busy.what == "recording a pass"
    play.tell(m.Progress("recording a pass", 64, 100))
    busy = play.session.view().busy
    assert busy is not None
    assert (busy.done, busy.total) == (64, 100)
    rows = play.session.view().rows
    play.answer([(1.0, 1.0)], 2)
    view = play.session.view()
    assert view.tape is not None
    assert view.against is not None
    assert (view.playhead, view.edited, view.tape.number, view.against.number, view.busy) == (2, True, 2, 1, None)
    assert view.rows is rows
    assert view.tape.tensors.values(view.tape.leaf_total(0)) == pytest.approx((2.5403, 3.5839), abs=1e-4)


def test_a_second_edit_waits_for_the_first(play: Play):
    play.session.explore(["1,1"])
    play.session.explore(["2,2"])
    assert len(play.take()) == 1
    assert play.session.notice == "recording a pass: Ctrl-C gives it up"


def test_flipping_between_passes(play: Play):
    play.session.show_pass(1)
    assert play.session.notice == "one pass so far: s edits the seed"
    play.session.explore(["1,1"])
    play.answer([(1.0, 1.0)], 2)
    play.session.show_pass(-1)
    view = play.session.view()
    assert (play.shown.number, view.against, view.edited) == (1, None, False)
    play.session.show_pass(-1)
    assert play.session.notice == "no further pass"
    play.session.show_pass(1)
    assert (play.shown.number, play.session.notice) == (2, "")


def test_pass_1_is_never_dropped(play: Play):
    for number in range(2, 13):
        play.session.explore([f"{number},1"])
        play.answer([(float(number), 1.0)], number)
    stop = play.session.view().stop
    assert stop is not None
    assert [tape.number for tape in stop.passes] == [1, 5, 6, 7, 8, 9, 10, 11, 12]


def test_one_cell_is_typed_anew(play: Play):
    play.session.set_cell(0, 1, "-2.5")
    assert play.take() == [m.Explore(1, [m.SeedText("1,-2.5")])]


def test_rows_of_the_jacobian_go_round(play: Play):
    for key, text, seed, notice in [
        (1, "onehot(0)", (1.0, 0.0), "row 0 of 2 of the Jacobian"),
        (1, "onehot(1)", (0.0, 1.0), "row 1 of 2 of the Jacobian"),
        (1, "onehot(0)", (1.0, 0.0), "row 0 of 2 of the Jacobian, from the other end"),
        (-1, "onehot(1)", (0.0, 1.0), "row 1 of 2 of the Jacobian, from the other end"),
    ]:
        play.session.jacobian_row(key)
        (request,) = play.sent
        assert isinstance(request, m.Explore)
        assert (request.seeds, play.session.notice) == ([m.SeedText(text)], notice)
        play.answer([seed], request.request + 1)
        play.take()


def test_the_row_before_none_is_the_last(play: Play):
    play.session.jacobian_row(-1)
    assert play.take() == [m.Explore(1, [m.SeedText("onehot(1)")])]


def test_a_row_of_one_root_gives_the_others_nothing():
    drawing = Drawing()
    leaf = drawing.leaf("w")
    for name in ("a", "b"):
        node = drawing.node("SinBackward0")
        drawing.edge(node, leaf)
        drawing.root(node, name)
    play = Play(drawing=drawing)
    play.tell(m.Stopped(call(), "call"), m.Captured(play.graph.columns), m.Recorded(play.tape([(1.0,), (1.0,)])))
    play.session.jacobian_row(1, root=1)
    assert play.take() == [m.Explore(1, [m.SeedText("zeros"), m.SeedText("onehot(0)")])]


def test_the_selected_rows_tensor_is_seeded_instead(play: Play):
    play.session.seed_selected()
    assert (play.take(), play.session.notice) == ([], "select a node's row first")
    play.session.select(2)
    play.session.seed_selected()
    node = play.shown.node_at(2)
    assert play.sent == [m.Explore(1, [m.SeedText("ones")], node, 0)]
    play.answer([(1.0, 1.0)], 2)
    assert not play.session.can_resume_edited
    play.take()
    play.session.explore(["2,2"])
    assert play.take() == [m.Explore(2, [m.SeedText("2,2")], node, 0)]


def test_resuming_with_the_edited_seed(play: Play):
    assert not play.session.can_resume_edited
    play.session.explore(["1,1"])
    play.answer([(1.0, 1.0)], 2)
    play.take()
    assert play.session.can_resume_edited
    play.session.resume(edited=True)
    assert play.take() == [m.Resume(True, "break")]


def test_the_seed_of_the_command_line_is_one_to_resume_with():
    play = Play(m.Configure(gradient="1,1"))
    play.stop()
    columns = play.tape([(1.0, 1.0)], 2)
    play.tell(m.Recorded(columns))
    view = play.session.view()
    assert (view.edited, view.tape and view.tape.number) == (True, 2)
    assert play.session.can_resume_edited
    play.session.set_cell(0, 1, "5")
    assert play.take() == [m.Explore(1, [m.SeedText("1,5")])]


def test_the_pass_that_is_shown_is_the_one_that_an_edited_resume_uses(play: Play):
    for number, text in ((2, "1,1"), (3, "2,2")):
        play.session.explore([text])
        play.answer([(1.0, 1.0)], number)
    play.session.show_pass(-1)
    play.take()
    play.session.resume(edited=True)
    assert play.take() == [m.Explore(3, [m.SeedText("1,1")]), m.Resume(True, "break")]


def test_a_factor_scales_the_seed_that_is_shown(play: Play):
    play.session.explore(["*2"])
    play.answer([(2.0, 20.0)], 2)
    play.session.show_pass(-1)
    play.take()
    play.session.explore(["*3"])
    assert play.take() == [m.Explore(2, [m.SeedText("torch.tensor([1,10]).reshape((2,))*3")])]


def test_nothing_can_be_explored_while_the_script_runs(play: Play):
    play.session.resume()
    play.take()
    play.session.explore(["1,1"])
    assert (play.take(), play.session.notice) == ([], "the script runs: a pass can be recorded where it stops")
    play.session.exited(0)
    play.session.jacobian_row(1)
    assert (play.take(), play.session.notice) == ([], "the script is over: R runs it again")


def test_a_refused_seed_is_told(play: Play):
    errors: list[GradscopeError] = []
    play.session.on_error = errors.append
    play.session.explore(["1,2,3"])
    play.tell(m.Refused(1, "seed of 3 elements", "the root has 2", "give 2 numbers"))
    assert [str(error) for error in errors] == ["seed of 3 elements\n  the root has 2\n  give 2 numbers"]
    view = play.session.view()
    assert (view.busy, view.tape and view.tape.number) == (None, 1)


def test_a_call_that_torch_would_refuse_opens_without_a_pass():
    play = Play()
    wrong = Finding("seed-mismatch", "error", "the seed has 3 elements, J has 2")
    play.tell(
        m.Stopped(call(), "seed", "RuntimeError: Mismatch in shape", [wrong]),
        m.Captured(play.graph.columns),
        m.Refused(0, "no pass was recorded", "torch would refuse the seed"),
    )
    view = play.session.view()
    assert view.stop is not None
    assert (view.state, view.rows, view.stop.refusal) == (
        State.STOPPED,
        None,
        "no pass was recorded\n  torch would refuse the seed",
    )
    assert [finding.kind for finding in view.findings] == ["seed-mismatch"]
    play.session.step(1)
    assert play.session.notice == "nothing is recorded yet"
    play.session.explore(["1,1"])
    play.answer([(1.0, 1.0)], 2)
    assert play.shown.number == 2


def test_a_root_is_picked_among_live_tensors():
    play = Play()
    tensors = [m.LiveTensor("loss", "main() in train.py:12", (), "float32", "MeanBackward0")]
    play.tell(m.Stopped(m.Call(0, "none", FILE, 20, "<module>", ""), "end"), m.LiveTensors(tensors))
    view = play.session.view()
    assert view.stop is not None
    assert (view.stop.live, view.busy) == (tensors, None)
    play.session.pick_root(0, "1")
    assert play.take() == [m.PickRoot(1, 0, m.SeedText("1"))]
    play.tell(m.Captured(play.graph.columns), m.Recorded(play.tape([(1.0, 1.0)]), [], 1))
    assert play.shown.steps == 4
    play.session.explore(["2,2"])
    play.answer([(2.0, 2.0)], 2)
    assert play.session.view().edited
    assert not play.session.can_resume_edited
    play.session.pick_root(0, "2")
    play.tell(m.Captured(play.graph.columns), m.Recorded(play.tape([(2.0, 2.0)]), [], 3))
    stop = play.session.view().stop
    assert stop is not None
    assert len(stop.passes) == 1


# ---------------------------------------------------------------- interrupts


def test_three_interrupts(play: Play):
    done: list[str] = []
    play.session.signal_script = lambda: done.append("signal")
    play.session.kill_script = lambda: done.append("kill")
    play.session.interrupt()
    assert (play.take(), play.session.notice) == ([], "the script stands still: r resumes it, q quits")
    play.session.resume()
    play.take()
    play.session.interrupt()
    assert (play.take(), done) == ([m.StopSoon()], [])
    play.tell(m.CallPassed(2, FILE, 14))
    play.session.interrupt()
    play.session.interrupt()
    assert done == ["signal", "kill"]


def test_interrupts_start_again_when_something_came_of_them(play: Play):
    done: list[str] = []
    play.session.signal_script = lambda: done.append("signal")
    play.session.resume()
    play.session.interrupt()
    play.stop(2)
    play.session.resume()
    play.session.interrupt()
    assert (done, play.take().count(m.StopSoon())) == ([], 2)


def test_a_pass_is_given_up(play: Play):
    play.session.explore(["1,1"])
    play.take()
    play.session.interrupt()
    assert play.take() == [m.Cancel()]
    play.tell(m.Refused(1, "the pass was given up", ""))
    assert (play.session.view().busy, play.session.notice) == (None, "the pass was given up")


def test_a_script_that_has_not_said_hello_is_interrupted_at_once():
    session = Session("a.py")
    done: list[str] = []
    session.signal_script = lambda: done.append("signal")
    session.interrupt()
    assert done == ["signal"]


# ---------------------------------------------------------------- breakpoints, findings, watches


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
    play.session.finding(1)
    assert play.session.notice == "no further finding"
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


# ---------------------------------------------------------------- tensors, sources, reports


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
