"""Seeds and passes, with a debuggee played by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from graphs import FILE, Drawing
from playing import Play, call

from gradscope.errors import GradscopeError
from gradscope.findings.finding import Finding
from gradscope.protocol import messages as m
from gradscope.session import seeding
from gradscope.session.view import State


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
    assert play.session.notice == "pass 4 dropped: 9 are kept"
    play.session.show_pass(-1)
    assert play.shown.number == 11


def test_one_cell_is_typed_anew(play: Play):
    play.session.set_cell(0, 1, "-2.5")
    assert play.take() == [m.Explore(1, [m.SeedText("1,-2.5")])]


def test_rows_of_the_jacobian_go_round_and_are_recorded_once(play: Play):
    for index, seed in enumerate([(1.0, 0.0), (0.0, 1.0)]):
        play.session.jacobian_row(1)
        (request,) = play.sent
        assert isinstance(request, m.Explore)
        assert (request.seeds, play.session.notice) == (
            [m.SeedText(f"onehot({index})")],
            f"row [{index}] of the Jacobian, 2 rows",
        )
        play.answer([seed], request.request + 1)
        play.take()
    for key, number, notice in [
        (1, 2, "row [0] of the Jacobian, 2 rows, from the other end"),
        (1, 3, "row [1] of the Jacobian, 2 rows"),
        (-1, 2, "row [0] of the Jacobian, 2 rows"),
        (-1, 3, "row [1] of the Jacobian, 2 rows, from the other end"),
    ]:
        play.session.jacobian_row(key)
        assert (play.take(), play.shown.number, play.session.notice) == ([], number, notice)


@pytest.mark.parametrize("text", ["1,10", "[1, 10]", "1.0,1e1", "*1", "/1", ""])
def test_the_scripts_own_seed_is_pass_1(play: Play, text: str):
    play.session.explore(["2,20"])
    play.answer([(2.0, 20.0)], 2)
    play.session.show_pass(-1)
    play.take()
    play.session.explore([text])
    assert (play.take(), play.shown.number, play.session.notice) == ([], 1, "pass 1 has this seed already")
    play.session.show_pass(1)
    play.session.explore([text if text[:1] not in ("*", "/") else "*0.5"])
    assert (play.take(), play.shown.number, play.session.notice) == ([], 1, "pass 1 has this seed: back to it")
    assert not play.session.can_resume_edited


@pytest.mark.parametrize(
    ("text", "again"),
    [("v * 3", True), ("torch.tensor([2,2])", True), ("randn(4)", True), ("v.abs()", True), ("float(3)", True)]
    + [(text, False) for text in ("randn", "torch.rand(2)", "made()", "v.mul_(2)", "seeds.pop()", "@seed.pt", "next(it)", "*v")],
)
def test_an_expression_is_recorded_again_only_where_it_may_come_out_otherwise(play: Play, text: str, again: bool):
    play.session.explore([text])
    play.answer([(7.0, 7.0)], 2)
    play.take()
    play.session.show_pass(-1)
    play.session.explore([text])
    assert ((play.take(), play.shown.number) == ([], 2)) is again


def test_the_same_words_for_another_root_are_another_seed(play: Play):
    play.session.explore(["ones"])
    play.answer([(1.0, 1.0)], 2)
    play.take()
    play.session.select(2)
    play.session.seed_selected()
    assert play.sent == [m.Explore(2, [m.SeedText("ones")], play.shown.node_at(2), 0)]
    play.answer([(1.0, 1.0)], 3)
    play.take()
    play.session.show_pass(-1)
    play.session.select(2)
    play.session.seed_selected()
    assert (play.take(), play.shown.number) == ([], 3)


def test_randn_is_made_again_by_its_number(play: Play):
    play.session.explore(["randn"])
    columns = play.tape([(0.5, -0.25)], 2, ["randn(7)"])
    play.tell(m.Recorded(columns, request=1))
    play.session.explore(["1,1"])
    play.answer([(1.0, 1.0)], 3)
    play.session.show_pass(-1)
    play.take()
    play.session.resume(edited=True)
    assert play.take() == [m.Resume(True, "break", tape=2)]


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
    assert play.take() == [m.Resume(True, "break", tape=2)]


def test_a_factor_scales_the_seed_that_is_shown(play: Play):
    play.session.explore(["*2"])
    play.answer([(2.0, 20.0)], 2)
    play.session.show_pass(-1)
    play.take()
    play.session.explore(["*3"])
    assert play.take() == [m.Explore(2, [m.SeedText("*3")], base=1)]


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


def test_the_question_on_resuming_says_both_seeds(play: Play):
    play.session.jacobian_row(1)
    play.answer([(1.0, 0.0)], 2)
    assert play.session.can_resume_edited
    assert play.session.seeds_to_choose == ("1, 10", "onehot(0): 1, 0")


def test_seeds_in_words():
    drawing = Drawing()
    for name, size in (("a", 2), ("b", 9)):
        op = drawing.node("SinBackward0", (size,))
        drawing.edge(op, drawing.leaf(f"x{name}", (size,)), (1.0,) * size)
        drawing.root(op, name)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, -0.5), (0.0,) * 9])
    assert seeding.spoken(tape) == "a = 1, -0.5; b = a tensor of [9]"
    tape.columns.seeds = [replace(tape.seeds[0], expression="1,-0.5"), replace(tape.seeds[1], expression="zeros")]
    assert seeding.spoken(tape) == "a = 1, -0.5; b = zeros of [9]"


@pytest.mark.parametrize(
    ("shape", "index", "name"), [((2,), 1, "row [1]"), ((2, 3), 5, "row [1,2]"), ((2, 3), 3, "row [1,0]"), ((), 0, "row [0]")]
)
def test_a_row_of_the_jacobian_is_named_by_its_element(shape: tuple[int, ...], index: int, name: str):
    assert seeding.row_name(shape, index) == name
