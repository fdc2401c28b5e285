"""The states of a session, and interrupts, with a debuggee played by hand."""

from __future__ import annotations

import pytest
from graphs import FILE
from playing import Play, call

from gradscope.protocol import messages as m
from gradscope.session.session import Session
from gradscope.session.view import State


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
