import pytest

from gradscope.findings.finding import Related
from gradscope.findings.no_graph import without_graph
from gradscope.model.columns import GraphColumns, Leaf, Root
from gradscope.model.facts import CallFacts, Cut
from gradscope.model.places import UNKNOWN, Origin

FILE = "/home/ada/train.py"
CALL = Related(FILE, 30, "loss.backward()")
OFF = Origin(FILE, 16, "evaluate", code="torch.set_grad_enabled(False)")
STEP = Origin(FILE, 19, "<module>", code="w = w - 0.1 * g")
LEAF = Leaf(UNKNOWN, 0, "w", (), (3,), "float32", "cpu", "tensor")


def told(facts, dtype="float32"):
    columns = GraphColumns(roots=[Root(UNKNOWN, 0, "loss", (), dtype, "cpu")], leaves=[LEAF], facts=facts)
    (found,) = without_graph(columns, CALL)
    assert (found.kind, found.severity, found.file, found.line) == ("no-graph", "error", FILE, 30)
    return found


def test_gradients_that_were_left_off():
    found = told(CallFacts(grad_mode_off=OFF, flat_roots={0: "leaf"}))
    assert found.message == (
        "loss has no graph, so nothing can be differentiated: gradients have been switched off since line 16 "
        "(torch.set_grad_enabled(False))"
    )
    assert found.related == (Related(FILE, 16, "torch.set_grad_enabled(False)"),)


def test_a_name_that_was_rebound_under_no_grad():
    found = told(CallFacts(cuts=[Cut("no_grad", STEP, (0,), (0,))]))
    assert found.message.endswith("line 19 (w = w - 0.1 * g) runs under no_grad, so what it makes has no graph")
    assert (found.leaf, found.related[0].line) == ("w", 19)
    assert "w -= ..." in found.hint


def test_a_cut_that_may_be_meant():
    found = told(CallFacts(cuts=[Cut("no_grad", STEP), Cut("item", OFF)]))
    assert "maybe because line 19" in found.message


def test_what_ran_while_they_were_left_off_is_no_cut_of_its_own():
    cut = Cut("no_grad", Origin(FILE, 26, "<module>", code="loss = net(x).mean()"), (0,), (0,))
    assert told(CallFacts(grad_mode_off=OFF, cuts=[cut])).related[0].line == 16


def test_a_cut_of_the_root_is_better_known_than_the_mode():
    assert told(CallFacts(cuts=[Cut("data", STEP, (0,), (0,))], grad_mode_off=OFF)).related[0].line == 19


@pytest.mark.parametrize(
    ("known", "dtype", "why"),
    [
        ("flat", "int64", "loss is a tensor of int64, and only floating point and complex tensors have gradients"),
        ("leaf", "float32", "no operation of this script's made it, and it does not require a gradient itself"),
        ("constant", "float32", "it is a derivative that does not depend on what one differentiates for, so it is a constant"),
        ("", "float32", "nothing that it was made of requires a gradient"),
    ],
)
def test_other_reasons(known, dtype, why):
    found = told(CallFacts(flat_roots={0: known}), dtype)
    assert found.message.endswith(why)
    assert found.hint


def test_roots_with_a_graph_are_none_of_its():
    assert list(without_graph(GraphColumns(roots=[Root(0, 0, "loss", (), "float32", "cpu")]), CALL)) == []
