import math

import drawn_passes as passes
import graphs
from drawn_passes import FILE

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.facts import BadValue

NAN, INF = math.nan, math.inf
LOG = (("LogBackward0", 14, "y = torch.log(-w)"), ("SqrtBackward0", 15, "z = y.sqrt()"), ("SumBackward0", 16, "loss = z"))


def told(*bad, steps=LOG, makes=None, value=NAN, roots_bad=(), leaf_hook=False):
    """`makes` is the node at which the pass makes something bad of finite gradients."""
    drawing = passes.chain(*steps)
    if makes is not None:
        drawing.locals[makes, 0] = (1.0, value, 1.0)
    graph, tape = passes.passed(drawing)
    tape.columns.facts.forward, tape.columns.facts.roots_bad = list(bad), list(roots_bad)
    return diagnose(graph, tape)


def test_a_loss_that_is_nan_while_every_gradient_is_finite():
    (found,) = told(BadValue(1, nan=1, numel=1, index=(0,), value=NAN, cause="log of -1.0"), roots_bad=[0])
    assert (found.kind, found.severity, found.op, found.line, found.index) == (
        "nonfinite-forward",
        "error",
        "LogBackward0",
        14,
        (0,),
    )
    assert found.message == (
        "LogBackward0 at line 14 (y = torch.log(-w)) gives NaN at [0] in the forward (log of -1.0): loss takes it up, "
        "though every gradient of this pass is finite"
    )
    assert "x.clamp(min=eps)" in found.hint


def test_where_the_forward_is_the_cause_no_other_place_is_blamed():
    found = told(BadValue(1, nan=2, numel=3, index=(0,)), makes=2, roots_bad=[0])
    assert [(one.kind, one.line) for one in found] == [("nonfinite-forward", 14)]
    assert found[0].message.endswith("loss takes it up, and the backward pass only spreads it")


def test_a_nan_that_the_loss_leaves_out_and_zero_times_it():
    found = told(BadValue(1, nan=2, numel=3), makes=2)
    assert [(one.kind, one.severity, one.line) for one in found] == [("nonfinite-forward", "error", 14)]
    assert found[0].related == (Related(FILE, 15, "spreads it in the backward pass"),)
    assert "the loss does not take it up, but in the backward of SqrtBackward0 at line 15" in found[0].message


def test_an_infinite_slope_at_an_infinite_value_that_nothing_takes_up_stays_the_slope_s():
    found = told(BadValue(1, inf=1, numel=3, index=(1,), value=-INF, cause="log of 0.0"), makes=1)
    assert [(one.kind, one.op, one.index) for one in found] == [("nonfinite-origin", "LogBackward0", (1,))]
    assert "(in the forward log of 0.0)" in found[0].message


def test_an_infinite_factor_of_the_next_node_is_the_cause():
    found = told(BadValue(1, inf=1, numel=3, value=-INF, cause="log of 0.0"), makes=2)
    assert [(one.kind, one.op) for one in found] == [("nonfinite-forward", "LogBackward0")]
    assert found[0].message.startswith("LogBackward0 at line 14 (y = torch.log(-w)) gives -inf in 1 of 3 elements in the forward")


def test_an_origin_of_its_own_stays():
    """The bad value lies nearer the loss than where the gradient goes bad."""
    found = told(BadValue(3, nan=1, numel=1), makes=1, roots_bad=[0])
    assert [(one.kind, one.op) for one in found] == [
        ("nonfinite-forward", "SumBackward0"),
        ("nonfinite-origin", "LogBackward0"),
    ]


def test_a_mask_of_minus_infinity_is_no_fault():
    steps = (("MaskedFillBackward0", 14, "s = s.masked_fill(m, -inf)"), *LOG[1:])
    mask = BadValue(1, inf=1, numel=3, value=-INF)
    assert told(mask, steps=steps) == []
    assert [one.kind for one in told(mask, steps=steps, makes=2)] == ["nonfinite-origin"]


def test_what_comes_of_it_is_not_told_beside_it():
    found = told(BadValue(2, nan=1, numel=3), BadValue(1, inf=1, numel=3, value=INF, cause="overflow"), roots_bad=[0])
    assert [(one.kind, one.line) for one in found] == [("nonfinite-forward", 14)]


def test_a_nan_that_nothing_takes_up_is_an_info():
    (found,) = told(BadValue(1, nan=1, numel=3))
    assert (found.severity, found.message[-45:]) == ("info", ": neither the loss nor a gradient takes it up")


def test_a_bad_root_whose_line_is_not_known():
    (found,) = told(roots_bad=[0])
    assert (found.kind, found.op, found.line) == ("nonfinite-forward", "SumBackward0", 16)
    assert found.message.startswith("loss is NaN or infinite already before the pass, though every gradient")


def test_a_zero_that_meets_an_infinite_slope():
    drawing = passes.chain(("Log2Backward0", 11, "y = torch.log2(w)"), ("WhereBackward0", 11, "z = where(m, y, w)"))
    drawing.locals[2, 0] = (0.0, 1.0, 1.0)
    drawing.locals[1, 0] = (INF, 1.0, 1.0)
    (found,) = diagnose(*passes.passed(drawing))
    assert (found.kind, found.op, found.index) == ("nonfinite-origin", "Log2Backward0", (0,))
    assert "a zero arrives there, and zero times its infinite slope is NaN" in found.message


def test_an_infinity_that_the_next_node_makes_nan_of():
    drawing = passes.chain(("MseLossBackward0", 16, "m = mse(w)"), ("SqrtBackward0", 17, "loss = m.sqrt()"))
    drawing.locals[2, 0] = (INF, INF, INF)
    drawing.locals[1, 0] = (0.0, 0.0, 0.0)
    found = diagnose(*passes.passed(drawing))
    assert [(one.kind, one.op) for one in found] == [("nonfinite-origin", "SqrtBackward0")]
    assert found[0].message.endswith("; MseLossBackward0 at line 16 (m = mse(w)) then makes NaN of it")


def test_anomaly_mode_ends_the_pass_where_nan_is_made():
    text = "Function 'SqrtBackward0' returned nan values in its 0th output."
    graph, tape = passes.failed(passes.chain(*LOG), 2, text)
    assert [(one.kind, one.op) for one in diagnose(graph, tape)] == [("nonfinite-origin", "SqrtBackward0")]
    tape.columns.facts.forward = [BadValue(1, nan=1, numel=1, cause="log of -1.0")]
    assert [(one.kind, one.line) for one in diagnose(graph, tape)] == [("nonfinite-forward", 14)]


def test_a_sound_pass_is_none():
    assert diagnose(*graphs.recurrent(3)) == []


def test_data_that_held_it_already():
    (found,) = told(BadValue(1, nan=1, numel=3, cause="its mat1, which has no gradient, held it already"), roots_bad=[0])
    assert found.hint.startswith("it came with the data")


def test_zeros_of_the_same_node_are_not_told_beside_it():
    drawing = passes.chain(("NllLossBackward0", 4, "loss = nll(w)"))
    drawing.locals[1, 0] = (0.0, 0.0, 0.0)
    graph, tape = passes.passed(drawing)
    tape.columns.facts.forward, tape.columns.facts.roots_bad = [BadValue(1, nan=1, numel=1)], [0]
    (found,) = diagnose(graph, tape)
    assert (found.kind, found.hint[:17]) == ("nonfinite-forward", "no target counts:")


def test_a_parameter_that_an_earlier_step_has_spoilt():
    (found,) = told(BadValue(0, nan=1, numel=3, index=(1,), cause="it held it already"), roots_bad=[0])
    assert found.message.startswith("the leaf w holds NaN in 1 of 3 elements at [1] before the forward begins: loss takes it up")
    assert found.hint.startswith("an earlier step wrote it there")


def test_a_product_with_an_infinite_factor():
    drawing = passes.chain(("MmBackward0", 7, "y = x @ w"))
    drawing.locals[1, 0] = (1.0, NAN, 1.0)
    (found,) = diagnose(*passes.passed(drawing))
    assert found.hint.startswith("it multiplies with the other factor, which was infinite or NaN in the forward")
