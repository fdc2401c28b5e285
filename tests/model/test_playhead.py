import math
from functools import cache

import graphs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscope.model import playhead
from gradscope.model.columns import Failure
from gradscope.model.tensors import NO_TENSOR

MUL, SIN, ADD, X = 0, 1, 2, 3


def test_the_pictured_moment():
    """Step 2 of the pictured screen: x.grad has 1 of 3 contributions."""
    graph, tape = graphs.two_outputs()
    slot = playhead.slot(graph, tape, 2, X)
    assert [one.source for one in slot.done] == [SIN]
    assert [(graph.source[edge], graph.role(edge)) for edge in slot.pending] == [(MUL, "self"), (MUL, "other")]
    assert tape.tensors.values(slot.so_far) == (math.cos(1), 10 * math.cos(2))
    assert (slot.complete, slot.total) == (False, 3)
    assert playhead.count_so_far(graph, tape, 2, X) == (1, 3)
    assert [playhead.state(graph, tape, 2, node) for node in (ADD, SIN, MUL, X)] == ["run", "run", "partial", "partial"]


def test_at_the_start_only_the_seed_is_there():
    graph, tape = graphs.two_outputs()
    assert playhead.slot(graph, tape, 0, ADD).complete
    assert [playhead.state(graph, tape, 0, node) for node in (ADD, SIN, MUL, X)] == ["partial", "pending", "pending", "pending"]
    assert playhead.leaf_so_far(graph, tape, 0, 0) == NO_TENSOR
    assert playhead.shown(graph, tape, 0, ADD) == NO_TENSOR


def test_what_rows_show():
    graph, tape = graphs.two_outputs()
    assert playhead.shown(graph, tape, 2, SIN) == tape.arrived(SIN)
    assert playhead.shown(graph, tape, 2, MUL) == NO_TENSOR
    assert tape.norm(playhead.shown(graph, tape, 2, X)) == pytest.approx(4.196, abs=1e-3)


def test_undefined_contributions_count_and_add_nothing():
    drawing = graphs.Drawing()
    leaf = drawing.leaf("w")
    node = drawing.node("FooBackward0")
    for local in ((2.0,), None, (3.0,)):
        drawing.edge(node, leaf, local)
    drawing.root(node)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,)])
    slot = playhead.slot(graph, tape, 1, leaf)
    assert [one.tensor == NO_TENSOR for one in slot.done] == [False, True, False]
    assert tape.tensors.values(slot.so_far) == (5.0,)
    assert slot.total == 3


def test_a_hook_shows_once_the_leaf_has_run():
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 1.0)], hooks={X: lambda value: (7.0, 7.0)})
    assert tape.tensors.values(playhead.leaf_so_far(graph, tape, 3, 0)) == pytest.approx((2 + math.cos(1), 4 + math.cos(2)))
    assert tape.tensors.values(playhead.leaf_so_far(graph, tape, 4, 0)) == (7.0, 7.0)


def test_after_a_failure_what_never_came_is_not_complete():
    graph, tape = graphs.two_outputs()
    columns = tape.columns
    columns.step_node = columns.step_node[:8]
    keep = sum(1 for step in tape.contribution_step if step <= 2)
    for name in ("step", "edge", "tensor", "so_far"):
        setattr(columns, f"contribution_{name}", getattr(columns, f"contribution_{name}")[: 4 * keep])
    columns.failure = Failure(MUL, "RuntimeError", "no", "")
    broken = type(tape)(columns, graph)
    slot = playhead.slot(graph, broken, 2, X)
    assert (len(slot.done), list(slot.pending), slot.complete) == (1, [], False)
    assert (broken.ran, broken.steps, broken.failed_step, broken.node_at(3)) == (2, 3, 3, MUL)
    assert (playhead.state(graph, broken, 2, MUL), playhead.state(graph, broken, 3, MUL)) == ("partial", "run")
    assert (broken.finished(MUL), broken.finished(SIN), broken.sent_by(3)) == (False, True, [])
    assert broken.tensors.values(broken.arrived(MUL)) == (1.0, 10.0)


def reference(drawing, graph, tape, seeds):
    """What arrives at each slot by a step, from the drawing's own numbers: no column of contributions is read."""
    running = {tape.node_at(step) for step in range(1, tape.steps + 1)}

    def parts(node, input_nr, step):
        """Contributions by then; None is an undefined one."""
        for root, seed in zip(drawing.roots, seeds, strict=True):
            if (root.node, root.input_nr) == (node, input_nr):
                yield seed
        for source, slot, target, number in drawing.edges:
            if (target, number) == (node, input_nr) and source in running and tape.step_of(source) <= step:
                local, came = drawing.locals[source, slot], value(source)
                yield None if local is None or came is None else came * local[0]

    @cache
    def value(node):
        """What a node passes on: what came to the first of its slots that got anything."""
        for input_nr in (0, 1):
            came = list(parts(node, input_nr, tape.steps))
            if came:
                return total(came)
        return None

    return lambda node, input_nr, step: total(list(parts(node, input_nr, step)))


def total(parts):
    defined = [part for part in parts if part is not None]
    return sum(defined) if defined else None


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), nodes=st.integers(1, 14), subset=st.booleans())
def test_partial_sums_against_an_independent_reference(seed, nodes, subset):
    drawing = graphs.random_drawing(seed, nodes=nodes)
    graph = drawing.graph()
    seeds = [float(1 + root) if (seed + root) % 5 else None for root in range(len(drawing.roots))]
    inputs = [drawing.leaves[0].node, drawing.leaves[1].node] if subset else None
    tape = drawing.tape(graph, [None if value is None else (value,) for value in seeds], inputs=inputs)
    expected = reference(drawing, graph, tape, seeds)
    for step in range(tape.steps + 1):
        for node in range(len(graph)):
            if not tape.step_of(node):
                assert playhead.state(graph, tape, step, node) == "never"
                continue
            for input_nr in (0, 1):
                slot = playhead.slot(graph, tape, step, node, input_nr)
                so_far = None if slot.so_far == NO_TENSOR else tape.tensors.values(slot.so_far)[0]
                assert so_far == expected(node, input_nr, step)
                assert slot.total == len(tape.to(node, input_nr))
                assert slot.complete == (len(slot.done) == slot.total)
                if tape.step_of(node) <= step + 1:
                    assert slot.complete
                    assert so_far == expected(node, input_nr, tape.steps)


def test_what_was_delivered_is_a_sequence():
    graph, tape = graphs.two_outputs()
    done = playhead.slot(graph, tape, 4, X).done
    assert [one.index for one in done[1:]] == [one.index for one in tape.to(X)][1:]
    assert done[-1] == tape.to(X)[-1]
