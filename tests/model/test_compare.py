import math

import graphs
import pytest

from gradscope.model import compare


@pytest.fixture
def passes():
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    return drawing.tape(graph, [(1.0, 10.0)], number=2), drawing.tape(graph, [(1.0, 1.0)])


def test_what_arrives_in_both(passes):
    delta = compare.arrived(*passes, 1)
    assert (delta.norm, delta.before) == (math.hypot(1, 10), math.hypot(1, 1))
    assert delta.values == (0.0, 9.0)
    assert delta.ratio == delta.norm / delta.before
    assert delta.change == pytest.approx(8.6357, abs=1e-4)
    assert not delta.same


def test_leaves_and_edges(passes):
    assert compare.leaf(*passes, 0).values == pytest.approx((0.0, 9 * (4 + math.cos(2))))
    assert compare.edge(*passes, 2).values == pytest.approx((0.0, 9 * math.cos(2)))
    assert compare.changed_leaves(*passes) == [0]
    assert compare.changed_steps(*passes) == [1, 2, 3, 4]


def test_the_same_pass_does_not_differ(passes):
    tape, _ = passes
    assert compare.arrived(tape, tape, 1).same
    assert compare.changed_leaves(tape, tape) == compare.changed_steps(tape, tape) == []


def test_nothing_to_compare_with(passes):
    delta = compare.arrived(*passes, 1, input_nr=3)
    assert math.isnan(delta.norm)
    assert delta.values is None
    assert delta.same


@pytest.mark.parametrize(("norm", "before", "ratio"), [(1.0, 0.0, math.inf), (0.0, 2.0, 0.0)])
def test_ratios(norm, before, ratio):
    assert compare.Delta(norm, before, None).ratio == ratio
    assert math.isnan(compare.Delta(0.0, 0.0, None).ratio)
