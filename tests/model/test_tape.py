import math

import graphs
import pytest

from gradscope.model.places import UNKNOWN
from gradscope.model.tensors import NO_TENSOR

MUL, SIN, ADD, X = 0, 1, 2, 3


def values(tape, tensor):
    return tape.tensors.values(tensor)


def test_steps_in_engine_order():
    _, tape = graphs.two_outputs()
    assert tape.steps == 4
    assert [tape.node_at(step) for step in (1, 2, 3, 4)] == [ADD, SIN, MUL, X]
    assert [tape.step_of(node) for node in (ADD, SIN, MUL, X)] == [1, 2, 3, 4]
    with pytest.raises(IndexError, match="count from 1"):
        tape.node_at(0)


def test_every_contribution_to_x():
    _, tape = graphs.two_outputs(seed=(1.0, 10.0))
    sin, first, second = tape.to(X)
    assert (sin.step, sin.source, sin.root) == (2, SIN, UNKNOWN)
    assert [first.step, second.step] == [3, 3]
    assert values(tape, sin.tensor) == (math.cos(1), 10 * math.cos(2))
    assert values(tape, first.tensor) == values(tape, second.tensor) == (1.0, 20.0)
    assert values(tape, second.so_far) == pytest.approx((2 + math.cos(1), 40 + 10 * math.cos(2)))
    assert values(tape, tape.leaf_total(0)) == values(tape, second.so_far)


def test_the_seed_is_a_contribution_to_the_root():
    _, tape = graphs.two_outputs(seed=(1.0, 10.0))
    (seed,) = tape.to(ADD)
    assert (seed.step, seed.edge, seed.source, seed.root) == (0, UNKNOWN, UNKNOWN, 0)
    assert values(tape, seed.tensor) == (1.0, 10.0)
    assert [one.index for one in tape.sent_by(0)] == [seed.index]


def test_what_a_step_sends_is_in_slot_order():
    graph, tape = graphs.two_outputs()
    assert [graph.target[one.edge] for one in tape.sent_by(1)] == [MUL, SIN]
    assert [graph.slot[one.edge] for one in tape.sent_by(3)] == [0, 1]
    assert tape.sent_by(4) == []


def test_arrivals():
    _, tape = graphs.two_outputs()
    assert values(tape, tape.arrived(SIN)) == (1.0, 10.0)
    assert tape.arrived(SIN, 1) == NO_TENSOR
    assert tape.arrivals(SIN) == [(0, tape.arrived(SIN))]
    assert list(tape.arrived_by_step) == [NO_TENSOR, *(tape.arrived_at(step) for step in (1, 2, 3, 4))]


def test_gain_and_norm():
    _, tape = graphs.two_outputs()
    assert tape.gain(2) == pytest.approx(math.hypot(math.cos(1), 10 * math.cos(2)) / math.hypot(1, 10))
    assert math.isnan(tape.gain(4))
    assert math.isnan(tape.norm(NO_TENSOR))


def test_grad_before_and_after():
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 1.0)], before={"x": (5.0, 5.0)})
    assert values(tape, tape.leaf_before(0)) == (5.0, 5.0)
    assert values(tape, tape.leaf_after(0)) == pytest.approx((5 + 2 + math.cos(1), 5 + 4 + math.cos(2)))
    assert tape.leaf_before(7) == NO_TENSOR


def one_node(local, seed=(1.0, 1.0)):
    """loss = f(w) with a given derivative."""
    drawing = graphs.Drawing()
    leaf = drawing.leaf("w", (2,))
    node = drawing.node("FooBackward0", (2,))
    drawing.edge(node, leaf, local)
    drawing.root(node)
    graph = drawing.graph()
    return drawing.tape(graph, [seed])


@pytest.mark.parametrize(
    ("local", "node", "leaf"),
    [
        ((1.0, 1.0), "", ""),
        ((math.nan, 1.0), "", "N"),
        ((math.inf, 1.0), "", "I"),
        ((math.inf, math.nan), "", "NI"),
        ((0.0, 0.0), "↓", "0"),
        ((0.04, 0.04), "↓", ""),
        ((30.0, 30.0), "↑", ""),
        (None, "", "⟂"),
    ],
)
def test_flags(local, node, leaf):
    tape = one_node(local)
    assert (tape.flags(1), tape.flags(2)) == (node, leaf)


def test_gain_prefers_what_goes_on_beyond_the_leaves():
    drawing = graphs.Drawing()
    x, weight = drawing.leaf("x"), drawing.leaf("w")
    inner, outer = drawing.node("FooBackward0"), drawing.node("MmBackward0")
    drawing.edge(outer, inner, (0.5,))
    drawing.edge(outer, weight, (40.0,))
    drawing.edge(inner, x)
    drawing.root(outer)
    tape = drawing.tape(drawing.graph(), [(1.0,)])
    assert tape.gain(1) == 0.5
    assert tape.flags(1) == ""


def test_nodes_that_a_pass_for_some_inputs_skips():
    drawing = graphs.Drawing()
    wanted, other = drawing.leaf("a"), drawing.leaf("b")
    left, right, top = (drawing.node(f"{name}Backward0") for name in ("Left", "Right", "Top"))
    for source, target in ((left, wanted), (right, other), (top, left), (top, right)):
        drawing.edge(source, target)
    drawing.root(top)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,)], inputs=[wanted])
    assert [tape.node_at(step) for step in range(1, tape.steps + 1)] == [top, left, wanted]
    assert tape.step_of(right) == tape.step_of(other) == 0
    assert tape.arrivals(right) == tape.to(right) == []
    assert tape.leaf_total(1) == NO_TENSOR
