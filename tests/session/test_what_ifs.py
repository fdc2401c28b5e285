"""What-ifs, checks and pdb as the session sees them, with a debuggee played by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import jsonschema
import pytest
from playing import Play

from gradscope.errors import GradscopeError
from gradscope.export import json_report
from gradscope.model.checks import RIGHT, WRONG, CheckResult, CheckRow
from gradscope.model.columns import Change
from gradscope.model.places import UNKNOWN, CodePlace
from gradscope.protocol import messages as m

NODE = 1


@pytest.fixture
def play() -> Play:
    play = Play()
    play.stop()
    play.take()
    return play


def asked(play: Play) -> m.Explore:
    (request,) = play.take()
    assert isinstance(request, m.Explore)
    return request


def answer(play: Play, number: int, seed: tuple[float, float] = (1.0, 10.0), edited: bool = False) -> m.Explore:
    """Record the pass that is asked for; what would have been is the first tensor."""
    request = asked(play)
    tape = play.tape([seed], number)
    tape.edited = edited
    tape.root = request.root
    tape.changes = [replace(change, before=0) for change in request.changes]
    play.tell(m.Recorded(tape, [], request.request))
    return request


def texts(changes: Sequence[Change]) -> list[tuple[int, int, int, str]]:
    return [(change.node, change.input_nr, change.edge, change.text) for change in changes]


def shown(play: Play) -> tuple[int, list[str]]:
    return play.shown.number, [change.text for change in play.shown.columns.changes]


def test_a_what_if_is_a_pass_with_the_seeds_of_the_one_shown(play: Play) -> None:
    play.session.to_step(2)
    play.session.change("*0.5", NODE, 0)
    busy = play.session.view().busy
    assert busy is not None
    assert (busy.what, play.session.notice) == ("recording a pass", "what-if: *0.5")
    request = answer(play, 2)
    assert (request.base, request.same_seeds, request.root) == (1, True, UNKNOWN)
    assert request.changes == [Change(NODE, 0, UNKNOWN, "*0.5")]
    view = play.session.view()
    assert view.against is not None
    assert (shown(play), view.against.number, view.playhead, view.edited) == ((2, ["*0.5"]), 1, 2, False)


def test_what_ifs_build_on_each_other_and_go_one_by_one(play: Play) -> None:
    play.session.change("*0.5", NODE, 0)
    answer(play, 2)
    play.session.change("zeros", 2, 0, 3)
    request = answer(play, 3)
    assert texts(request.changes) == [(NODE, 0, UNKNOWN, "*0.5"), (2, 0, 3, "zeros")]
    assert request.base == 2
    play.session.undo_change(0)
    request = answer(play, 4)
    assert (texts(request.changes), request.base) == ([(2, 0, 3, "zeros")], 3)
    assert all(change.before == UNKNOWN for change in request.changes)
    play.session.undo_change(0)
    assert (play.take(), shown(play), play.session.notice) == ([], (1, []), "back to pass 1: no what-ifs")
    play.session.undo_change(0)
    assert play.session.notice == "this pass has no what-ifs"


def test_undoing_all_and_the_last_one_go_back_to_passes_that_are_kept(play: Play) -> None:
    for number, (text, node) in enumerate([("*0.5", 1), ("none", 2)], 2):
        play.session.change(text, node, 0)
        answer(play, number)
    play.session.undo_change(1)
    assert (play.take(), shown(play), play.session.notice) == ([], (2, ["*0.5"]), "back to pass 2: what-if: *0.5")
    play.session.show_pass(1)
    play.session.undo_change(None)
    assert (play.take(), shown(play)) == ([], (1, []))
    play.session.change("*0.5", 1, 0)
    assert (play.take(), shown(play)) == ([], (2, ["*0.5"]))


def test_another_text_at_the_same_place_takes_its_place_and_an_empty_one_takes_it_back(play: Play) -> None:
    play.session.change("*0.5", NODE, 0)
    answer(play, 2)
    play.session.change("*0.5", NODE, 0)
    assert (play.take(), play.session.notice) == ([], "pass 2 has this what-if already")
    play.session.change("clip(1)", NODE, 0)
    assert texts(answer(play, 3).changes) == [(NODE, 0, UNKNOWN, "clip(1)")]
    play.session.change("", NODE, 0)
    assert (play.take(), shown(play)) == ([], (1, []))
    play.session.change(" ", NODE, 0)
    assert (play.take(), play.session.notice) == ([], "no what-if is here")


@pytest.mark.parametrize("text", ["torch.rand(2)", "made()", "*next(it)", "clip(limits.pop())", "randn"])
def test_what_may_come_out_otherwise_is_recorded_again(play: Play, text: str) -> None:
    for number in (2, 3):
        play.session.change(text, NODE, 0)
        assert texts(answer(play, number).changes) == [(NODE, 0, UNKNOWN, text)]


def test_a_changed_pass_never_stands_for_its_seed(play: Play) -> None:
    play.session.change("*0.5", NODE, 0)
    answer(play, 2)
    play.session.show_pass(-1)
    play.session.explore(["1,10"])
    assert (play.take(), shown(play)) == ([], (1, []))
    play.session.explore(["2,20"])
    assert answer(play, 3, (2.0, 20.0), edited=True).changes == []


def test_a_seed_edit_keeps_the_what_ifs(play: Play) -> None:
    play.session.change("*0.5", NODE, 0)
    answer(play, 2)
    play.session.explore(["2,20"])
    assert play.session.notice == "with the what-ifs of the pass before"
    request = answer(play, 3, (2.0, 20.0), edited=True)
    assert (texts(request.changes), request.same_seeds) == ([(NODE, 0, UNKNOWN, "*0.5")], False)
    play.session.explore(["1,10"])
    assert (play.take(), shown(play)) == ([], (2, ["*0.5"]))
    play.session.show_pass(1)
    play.session.undo_change(None)
    request = answer(play, 4, (2.0, 20.0), edited=True)
    assert (request.base, request.changes, request.same_seeds) == (3, [], True)
    play.session.explore(["1,10"])
    assert shown(play) == (1, [])
    play.session.explore(["2,20"])
    assert (play.take(), shown(play)) == ([], (4, []))


def test_seeding_another_tensor_leaves_the_what_ifs_behind(play: Play) -> None:
    play.session.change("*0.5", NODE, 0)
    answer(play, 2)
    play.session.explore(["1"], root=2)
    assert asked(play).changes == []


def test_only_seeds_are_taken_along_when_the_script_goes_on(play: Play) -> None:
    play.session.change("*0.5", NODE, 0)
    answer(play, 2)
    assert not play.session.can_resume_edited
    play.session.explore(["2,20"])
    answer(play, 3, (2.0, 20.0), edited=True)
    assert play.session.can_resume_edited
    assert play.session.seeds_to_choose[1].endswith("2, 20 (without the what-ifs)")


def test_the_json_report_tells_what_was_changed(play: Play) -> None:
    play.session.change("*0.5", NODE, 0)
    answer(play, 2)
    report = json.loads(b"".join(json_report.chunks(play.session.report())))
    jsonschema.validate(report, json_report.schema())
    (changed,) = report["calls"][0]["passes"]
    (change,) = changed["changes"]
    assert (change["node"], change["input_nr"], change["edge"], change["text"]) == (NODE, 0, None, "*0.5")
    assert change["before"]["norm"] == play.shown.norm(0)
    assert not changed["edited"]


def test_a_refused_what_if_leaves_the_pass_shown(play: Play) -> None:
    errors: list[GradscopeError] = []
    play.session.on_error = errors.append
    play.session.change("torch.ones(3)", NODE, 0)
    request = asked(play)
    play.tell(m.Refused(request.request, "the change does not fit", "the shapes differ"))
    assert (shown(play), play.session.view().busy, errors[0].why) == ((1, []), None, "the shapes differ")
    play.session.change("zeros", NODE, 0)
    assert texts(answer(play, 2).changes) == [(NODE, 0, UNKNOWN, "zeros")]


def test_nothing_can_be_tried_while_something_is(play: Play) -> None:
    play.session.change("*2", NODE, 0)
    play.take()
    play.session.change("*3", NODE, 0)
    play.session.check(NODE)
    play.session.debug(NODE)
    assert (play.take(), play.session.notice) == ([], "recording a pass: Ctrl-C gives it up")


def test_the_answer_of_a_check_stands_in_the_view(play: Play) -> None:
    play.session.check(NODE)
    (request,) = play.take()
    assert request == m.Check(1, NODE, 1)
    busy = play.session.view().busy
    assert busy is not None
    assert busy.what.startswith("checking ")
    result = CheckResult(NODE, "how", [CheckRow("∂self", RIGHT, 1e-9, 1e-6)])
    before = play.session.view().checks
    play.tell(m.Checked(1, result))
    assert (play.session.view().checks, play.session.view().busy, before) == ({NODE: result}, None, {})


def test_what_a_check_finds_wrong_in_a_custom_backward_is_a_finding(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = play.session.view().graph
    assert graph is not None
    monkeypatch.setitem(graph.columns.backward_code, NODE, CodePlace("/home/ada/ops.py", 8, "Square.backward"))
    play.session.check(NODE)
    play.tell(m.Checked(1, CheckResult(NODE, "how", [CheckRow("linear in the incoming gradient", WRONG, 0.5, 1e-6)])))
    found = [finding for finding in play.session.view().findings if finding.kind == "custom-function"]
    assert [(one.severity, one.node, one.call) for one in found] == [("error", NODE, 1)]


def test_pdb_waits_for_what_is_typed(play: Play) -> None:
    play.session.debug(NODE)
    (request,) = play.take()
    assert request == m.Debug(1, NODE, 1)
    play.session.waiting = True
    view = play.session.view()
    assert view.busy is not None
    assert view.busy.typing
    assert view.busy.what.endswith("type in the Output pane")
    assert view.waiting
    play.session.resume()
    assert play.take() == []
    assert play.session.notice.endswith("type in the Output pane; leave pdb first (c, or Ctrl-C)")
    play.session.on_next_call()
    assert play.take() == []
    interrupts: list[str] = []
    play.session.signal_script = lambda: interrupts.append("SIGINT")
    play.session.interrupt()
    play.session.interrupt()
    play.session.interrupt()
    assert (interrupts, play.take()) == (["SIGINT"] * 3, [])
    play.tell(m.Debugged(1, NODE, "ValueError: no"))
    view = play.session.view()
    assert (view.busy, view.waiting, view.notice) == (None, False, "pdb is over: the backward raised ValueError: no")
