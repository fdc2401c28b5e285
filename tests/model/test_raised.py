"""The step of the node that raised, and so ended a pass: its row, what arrived there, and what it did not send."""

from __future__ import annotations

from endings import ended
from graphs import FILE, two_outputs_drawing

from gradscope.findings.diagnosis import diagnose
from gradscope.findings.finding import Related
from gradscope.model.columns import Change, Failure, Hook
from gradscope.model.folds import Folds
from gradscope.model.places import UNKNOWN, CodePlace
from gradscope.model.rows import Rows
from gradscope.model.tape import Tape
from gradscope.session.stepping import AT_END, Walk

MUL, SIN, ADD, X = 0, 1, 2, 3


def test_it_has_the_last_step_and_sends_nothing() -> None:
    graph, columns = ended(two_outputs_drawing(), 2, SIN)
    tape = Tape(columns, graph)
    assert [tape.node_at(step) for step in range(1, tape.steps + 1)] == [ADD, SIN]
    assert (tape.ran, tape.failed_step, tape.step_of(MUL)) == (1, 2, 0)
    assert tape.tensors.values(tape.arrived(SIN)) == (1.0, 10.0)
    assert tape.sent_by(2) == []
    assert (tape.finished(ADD), tape.finished(SIN), tape.finished(MUL)) == (True, False, False)
    assert tape.flags(2) == ""
    assert tape.leaf_total(0) == -1


def test_the_sum_of_all_that_was_delivered_arrived() -> None:
    graph, columns = ended(two_outputs_drawing(), 4, X)
    tape = Tape(columns, graph)
    whole = two_outputs_drawing().tape(graph, [(1.0, 10.0)])
    assert tape.failed_step == 4
    assert tape.tensors.values(tape.arrived(X)) == whole.tensors.values(whole.arrived(X))


def test_nothing_is_said_to_arrive_where_a_hook_or_a_what_if_came_between() -> None:
    graph, columns = ended(two_outputs_drawing(), 2, SIN)
    columns.changes = [Change(SIN, 0, text="*2")]
    assert Tape(columns, graph).arrivals(SIN) == []
    columns.changes = [Change(MUL, 0, text="*2")]
    assert len(Tape(columns, graph).arrivals(SIN)) == 1
    for kind, known in (("tensor", 0), ("pre", 0), ("post", 1)):
        graph = two_outputs_drawing().graph()
        graph.columns.hooks.append(Hook(SIN, 0, kind, "clip"))
        assert len(Tape(columns, graph).arrivals(SIN)) == known


def test_a_node_that_came_to_its_end_keeps_its_step() -> None:
    graph, columns = ended(two_outputs_drawing(), 3, SIN)
    tape = Tape(columns, graph)
    assert (tape.steps, tape.ran, tape.failed_step) == (2, 2, 2)
    columns.failure = Failure(UNKNOWN, "ValueError", "too big", "")
    assert (Tape(columns, graph).steps, Tape(columns, graph).failed_step) == (2, 0)


def test_its_row_is_marked_and_step_keys_lead_there() -> None:
    graph, columns = ended(two_outputs_drawing(), 2, SIN)
    walk = Walk(graph, Tape(columns, graph))
    assert [walk.rows.glyph(row, 0) for row in range(len(walk.rows))] == ["▽", "○", "✗"]
    assert walk.rows.rail(2).draw("✗") in ("✗", "│ ✗")
    assert walk.run(1, []) == ""
    assert (walk.playhead, walk.selection, walk.node) == (2, 2, SIN)
    assert walk.step(1) == AT_END
    assert walk.step(-1) == ""
    assert (walk.playhead, walk.selection) == (1, 1)
    assert walk.to_node(SIN) == ""
    assert walk.to_node(MUL) == "MulBackward0 does not run in this pass"
    assert [choice.node for choice in walk.neighbours(toward_loss=True)] == [ADD]


def test_hidden_or_folded_it_is_marked() -> None:
    graph, columns = ended(two_outputs_drawing(), 4, X)
    tape = Tape(columns, graph)
    rows = Rows.build(graph, tape, Folds(leaves=True, outline=True))
    assert [rows.raised(row) for row in range(len(rows))] == [row == len(rows) - 1 for row in range(len(rows))]


def test_another_pass_that_ends_elsewhere_has_rows_of_its_own() -> None:
    graph, columns = ended(two_outputs_drawing(), 2, SIN)
    other = ended(two_outputs_drawing(), 2, MUL)[1]
    walk = Walk(graph, Tape(columns, graph))
    walk.show(Tape(other, graph), walk.tape)
    assert [walk.rows.label(row) for row in (1, 2)] == ["AddBackward0", "MulBackward0"]


def test_the_persons_own_backward_is_a_finding() -> None:
    graph, columns = ended(two_outputs_drawing(), 2, SIN)
    assert diagnose(graph, Tape(columns, graph)) == []
    graph.columns.backward_code[SIN] = CodePlace(FILE, 2, "Bad.backward")
    (found,) = diagnose(graph, Tape(columns, graph))
    assert (found.kind, found.severity, found.node, found.line) == ("custom-function", "error", SIN, 11)
    assert found.message == "SinBackward0 raised ValueError: too big (two_outputs.py:3)"
    assert found.related == (Related(FILE, 3, "raised here"),)
    columns.failure = Failure(SIN, "RuntimeError", "wrong shape", "")
    (found,) = diagnose(graph, Tape(columns, graph))
    assert found.related == (Related(FILE, 2, "its backward"),)
