import graphs
import pytest
from drawn_passes import FILE, at

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.facts import EarlierCall, LeafHistory

CALL = Related(FILE, 23, "g_loss.backward()")
SAME, OTHER = EarlierCall(1, "backward", FILE, 23, "g_loss.backward()"), EarlierCall(1, "backward", FILE, 18, "d_loss.backward()")
STEP = at(20, "opt.step()")


def told(*histories, earlier=(SAME,), before=(3.0,), owners=("SGD[0]", "SGD[0]")):
    drawing = graphs.Drawing()
    weight, bias = (drawing.leaf(name, owner=owner) for name, owner in zip(("G.weight", "G.bias"), owners, strict=True))
    top = drawing.node("AddBackward0", origin=drawing.origin(FILE, 22, "y = w + b"))
    drawing.edge(top, weight, (4.0,))
    drawing.edge(top, bias, (4.0,))
    drawing.root(top)
    graph = drawing.graph()
    graph.columns.facts.histories, graph.columns.facts.earlier = list(histories), list(earlier)
    tape = drawing.tape(graph, [(1.0,)], before={"G.weight": before, "G.bias": before})
    return [one for one in diagnose(graph, tape, call=CALL) if one.kind == "stale-accumulation"]


def both(*filled_by, **more):
    return [LeafHistory(leaf, filled_by, **more) for leaf in (0, 1)]


def test_micro_batches_are_an_info_for_all_leaves_together():
    (found,) = told(*both(1))
    assert (found.severity, found.leaf, found.file, found.line) == ("info", "G.weight, G.bias", FILE, 23)
    assert found.message == (
        "G.weight, G.bias still hold the gradient of 1 earlier call (line 23), and this one is added "
        "(norm 4.24 old, 5.66 new, cosine 1.00): 2 calls are summed, not averaged"
    )
    assert found.related == (Related(FILE, 23, "backward call 1 filled it"),)


def test_calls_that_went_by_unseen_count_too():
    (found,) = told(LeafHistory(0, (1,), unseen=2))
    assert "G.weight still holds the gradient of 3 earlier calls (line 23)" in found.message
    assert "4 calls are summed" in found.message


def test_a_gradient_that_a_step_used_and_nothing_cleared_is_a_warning():
    (found,) = told(*both(1, stepped=STEP, stepped_by="SGD", own_step=True))
    assert found.severity == "warning"
    assert "that was used by SGD at line 20 (opt.step()): nothing cleared it, and this call adds to it" in found.message
    assert found.related[1] == Related(FILE, 20, "the step that used it, after which it was kept")


def test_what_the_loss_of_another_optimizer_left():
    (found,) = told(*both(1, stepped=STEP, stepped_by="opt_D"), earlier=(OTHER,))
    assert found.severity == "warning"
    assert found.message.startswith(
        "G.weight, G.bias still hold what the call of line 18 (d_loss.backward()) left there for the step of opt_D at line 20"
    )
    assert found.related[0] == Related(FILE, 18, "backward call 1 filled it")


def test_leaves_of_an_optimizer_that_this_call_does_not_train_are_an_info():
    """One optimizer's leaves are fresh: this call trains those, and the others' may be cleared before their own step."""
    history = LeafHistory(0, (1,), stepped=STEP, stepped_by="Adam", own_step=True)
    assert [found.severity for found in told(history, owners=("D.Adam[0]", "G.Adam[0]"))] == ["info"]


def test_leaves_that_one_line_filled_and_their_step_used_again_and_again_are_a_warning():
    """The zero_grad of another optimizer was called: nobody clears these, though others are fresh."""
    history = LeafHistory(0, (1, 2), stepped=STEP, stepped_by="SGD", own_step=True, written=True)
    again = EarlierCall(2, "backward", FILE, 23, "g_loss.backward()")
    owners = ("oe.SGD[0]", "oh.SGD[0]")
    assert [found.severity for found in told(history, earlier=(SAME, again), owners=owners)] == ["warning"]
    waits = LeafHistory(0, (1, 2), stepped=STEP, stepped_by="SGD", own_step=True)
    assert [found.severity for found in told(waits, earlier=(SAME, again), owners=owners)] == ["info"]


def test_leaves_cleared_at_one_line_are_told_together():
    cleared = [LeafHistory(leaf, (1,), zeroed=at(17, code)) for leaf, code in enumerate(("oe.zero_grad()", "oh.zero_grad()"))]
    assert [found.leaf for found in told(*cleared)] == ["G.weight, G.bias"]


def test_leaves_that_had_their_step_beside_some_that_wait_for_theirs_are_an_info():
    mine = LeafHistory(0, (1,), stepped=STEP, stepped_by="opt_D", own_step=True)
    left = LeafHistory(1, (1,), stepped=STEP, stepped_by="opt_D")
    found = told(mine, left, earlier=(OTHER,), owners=("D.Adam[0]", "G.Adam[0]"))
    assert [(one.severity, one.leaf) for one in found] == [("warning", "G.bias"), ("info", "G.weight")]


def test_leaves_of_no_optimizer_are_an_info():
    assert [found.severity for found in told(*both(1, stepped=STEP), owners=("", ""))] == ["info"]


def test_histories_that_differ_are_told_apart():
    found = told(LeafHistory(0, (1,)), LeafHistory(1, (1,), stepped=STEP, own_step=True))
    assert [(one.severity, one.leaf) for one in found] == [("warning", "G.bias"), ("info", "G.weight")]


def test_sizes_too_far_apart_have_no_cosine():
    (found,) = told(*both(1), before=(4e6,))
    assert "(norm 5.66e+06 old, 5.66 new)" in found.message


@pytest.mark.parametrize(("histories", "before"), [((), (3.0,)), (both(), (3.0,)), (both(1), (0.0,)), (both(1), None)])
def test_cleared_gradients_are_none(histories, before):
    assert told(*histories, before=before) == []


def test_an_update_by_hand_between_two_calls():
    (found,) = told(*both(1, written=True))
    assert (found.severity, found.leaf) == ("info", "G.weight, G.bias")
    assert found.message == (
        "G.weight, G.bias still hold the gradient of 1 earlier call (line 23) from before the last update of them: "
        "nothing cleared it, and this call adds to it (norm 4.24 old, 5.66 new, cosine 1.00)"
    )
    assert "w.grad = None" in found.hint
