import math
from dataclasses import replace

import drawn_passes
import graphs
import pytest

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.columns import Failure, Mismatch
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape

FILE = "/home/ada/bug.py"


def pipeline(*locals_, shape=(2,), ops=None, leaf="w", owner="SGD[0]"):
    """A chain of nodes, loss first, at lines 1, 2, … with the given derivatives, down to one leaf."""
    drawing = graphs.Drawing()
    end = drawing.leaf(leaf, shape, owner=owner)
    for place in range(len(locals_), 0, -1):
        op = ops[place - 1] if ops else f"Op{place}Backward0"
        node = drawing.node(op, shape, drawing.origin(FILE, place, f"t{place} = op{place}()"))
        drawing.edge(node, end, locals_[place - 1])
        end = node
    drawing.root(end)
    return drawing


def told(drawing, seed=(1.0, 1.0), inputs=None, **more):
    graph = drawing.graph()
    return diagnose(graph, drawing.tape(graph, [seed], inputs=inputs, **more))


def test_a_sound_pass_has_no_findings():
    assert told(graphs.two_outputs_drawing(), (1.0, 10.0)) == []
    assert diagnose(*graphs.recurrent(20)) == []


class TestNonfinite:
    def test_the_first_node_that_makes_nan_is_named_with_its_element(self):
        (found,) = told(pipeline((1.0, 1.0), (1.0, math.nan), (math.inf, 1.0)))
        assert (found.kind, found.severity, found.op, found.file, found.line) == (
            "nonfinite-origin",
            "error",
            "Op2Backward0",
            FILE,
            2,
        )
        assert found.index == (1,)
        assert math.isnan(found.value)
        assert found.message.startswith(
            "Op2Backward0 at line 2 (t2 = op2()) makes NaN in 1 of 2 elements at [1] out of a finite gradient"
        )

    def test_infinity(self):
        (found,) = told(pipeline((1.0, 1.0), (math.inf, 2.0)))
        assert (found.op, found.index, found.value) == ("Op2Backward0", (0,), math.inf)

    def test_indices_of_matrices(self):
        locals_ = tuple(math.nan if place == 4 else 1.0 for place in range(6))
        (found,) = told(pipeline(locals_, shape=(2, 3)), seed=(1.0,) * 6)
        assert found.index == (1, 1)

    def test_a_bad_seed(self):
        (found,) = told(pipeline((1.0, 1.0)), seed=(1.0, math.nan))
        assert (found.kind, found.op, found.index) == ("nonfinite-origin", "Op1Backward0", (1,))
        assert found.message == "the seed of loss holds NaN in 1 of 2 elements"

    def test_an_overflowing_sum(self):
        drawing = graphs.Drawing()
        leaf = drawing.leaf("w")
        node = drawing.node("MulBackward0")
        for _ in range(2):
            drawing.edge(node, leaf, (1.5e308,))
        drawing.root(node)
        found = [one for one in told(drawing, (1.0,)) if one.kind == "nonfinite-origin"]
        assert [one.message for one in found] == ["the sum of 2 finite contributions is inf in what arrives at the leaf w"]

    def test_a_hook_that_makes_nan(self):
        drawing = pipeline((1.0, 1.0), (1.0, 1.0))
        node = next(place for place, op in enumerate(drawing.ops) if op == "Op2Backward0")
        found = told(drawing, hooks={node: lambda value: (math.nan, 0.0)})
        assert [one.kind for one in found] == ["nonfinite-origin", "hook-changed"]
        assert found[0].message == "a hook makes NaN in 1 of 2 elements in what arrives at Op2Backward0 at line 2 (t2 = op2())"


class TestZero:
    def test_a_node_that_stops_the_gradient(self):
        (found,) = told(pipeline((1.0, 1.0), (0.0, 0.0), (3.0, 3.0), ops=["MulBackward0", "RoundBackward0", "MulBackward0"]))
        assert (found.kind, found.severity, found.op, found.line, found.leaf) == (
            "zero-gradient",
            "warning",
            "RoundBackward0",
            2,
            "w",
        )
        told_so = "RoundBackward0 at line 2 (t2 = op2()) gets a gradient (2 elements that are not zero) and sends only zeros on"
        assert found.message == f"{told_so}; the gradient of w is zero"
        assert "straight-through" in found.hint

    @pytest.mark.parametrize(
        ("op", "shape", "hint"),
        [
            ("SoftmaxBackward0", (3, 1), "over a dimension of size 1 it is constant"),
            ("SoftmaxBackward0", (3,), "it is saturated"),
            ("EmbeddingBackward0", (3, 4), "every index that gets a gradient is padding_idx"),
            ("MmBackward0", (3, 4), "what it multiplies with is zero"),
        ],
    )
    def test_what_to_try_where_the_gradient_ends(self, op, shape, hint):
        drawing = drawn_passes.chain((op, 5, "y = f(w)"), shape=shape)
        drawing.locals[1, 0] = (0.0,) * math.prod(shape)
        graph = drawing.graph()
        (found,) = diagnose(graph, drawing.tape(graph, [(1.0,) * math.prod(shape)]))
        assert (found.kind, found.op) == ("zero-gradient", op)
        assert found.hint.startswith(hint)

    def test_contributions_that_cancel(self):
        drawing = graphs.Drawing()
        leaf = drawing.leaf("w")
        code = drawing.node("AddmmBackward0", origin=drawing.origin(FILE, 13, "code = enc(x)"))
        top = drawing.node("AddBackward0")
        drawing.edge(code, leaf)
        flat = drawing.node("RoundBackward0")
        drawing.edge(flat, code, (0.0,))
        drawing.edge(top, code, (1.0,))
        drawing.edge(top, flat)
        drawing.edge(top, code, (-1.0,))
        drawing.root(top)
        (found,) = told(drawing, (2.0,))
        assert (found.kind, found.op, found.line) == ("zero-gradient", "AddmmBackward0", 13)
        assert found.message.startswith("the 3 contributions to AddmmBackward0 at line 13 (code = enc(x)) cancel exactly")

    def test_contributions_that_cancel_at_a_leaf_may_be_right(self):
        drawing = graphs.Drawing()
        leaf = drawing.leaf("bias")
        top = drawing.node("SubBackward0")
        drawing.edge(top, leaf)
        drawing.edge(top, leaf, (-1.0,))
        drawing.root(top)
        (found,) = told(drawing, (2.0,))
        assert (found.kind, found.severity, found.leaf) == ("zero-gradient", "info", "bias")

    def test_zeros_on_one_way_alone_are_no_finding(self):
        drawing = graphs.Drawing()
        leaf = drawing.leaf("w")
        relu, top = drawing.node("ReluBackward0"), drawing.node("AddBackward0")
        drawing.edge(relu, leaf, (0.0,))
        drawing.edge(top, relu)
        drawing.edge(top, leaf)
        drawing.root(top)
        assert told(drawing, (1.0,)) == []

    def test_a_seed_of_zeros(self):
        (found,) = told(pipeline((1.0, 1.0)), seed=(0.0, 0.0))
        assert (found.kind, found.message) == (
            "zero-gradient",
            "the seed of loss is all zero, so every gradient of this pass is",
        )

    @pytest.mark.parametrize(
        ("written", "edited", "severity"),
        [
            ("v", False, "warning"),
            ("0.1 * v", False, "warning"),
            ("v", True, "info"),
            ("", False, "info"),
            ("torch.zeros(2)", False, "info"),
            ("torch.tensor([0.0, 0.0])", False, "info"),
        ],
    )
    def test_a_seed_of_zeros_that_is_meant_is_an_info(self, written, edited, severity):
        drawing = pipeline((1.0, 1.0))
        graph = drawing.graph()
        columns = drawing.tape(graph, [(0.0, 0.0)]).columns
        columns.seeds, columns.edited = [replace(columns.seeds[0], expression=written)], edited
        call = Related(FILE, 9, "the call")
        assert [(one.severity, one.related) for one in diagnose(graph, Tape(columns, graph), call=call)] == [(severity, (call,))]

    def test_a_clamp_that_stops_most_elements(self):
        (found,) = told(pipeline((1.0, 0.0), ops=["ClampBackward1"]))
        assert (found.kind, found.severity, found.op, found.line) == ("zero-gradient", "info", "ClampBackward1", 1)
        assert "1 of 2 elements" in found.message

    def test_a_saturated_sigmoid(self):
        (found,) = told(pipeline((1.0, 0.0), ops=["SigmoidBackward0"]))
        assert (found.kind, found.severity, found.op) == ("zero-gradient", "info", "SigmoidBackward0")
        assert found.message.endswith("stops the gradient of 1 of 2 elements: they lie where it is flat")

    def test_a_relu_may_stop_some(self):
        assert told(pipeline((1.0, 0.0), ops=["ReluBackward0"])) == []


class TestMissing:
    def test_a_parameter_that_is_not_reached(self):
        drawing = pipeline((1.0, 1.0))
        drawing.leaf("head.weight", reached=False, owner="SGD[0]")
        (found,) = told(drawing)
        assert (found.kind, found.severity, found.leaf, found.node) == ("missing-gradient", "warning", "head.weight", UNKNOWN)
        assert "though SGD[0] steps it" in found.message

    def test_below_a_reentrant_checkpoint_no_leaf_is_called_missing_that_nobody_asked_for(self):
        drawing = pipeline((1.0, 1.0), ops=["CheckpointFunctionBackward"])
        drawing.leaf("head.weight", reached=False, owner="SGD[0]")
        assert told(drawing) == []

    @pytest.mark.parametrize("owner", ["", "Adam[0]"])
    def test_one_of_another_optimizer_or_of_none_is_an_info(self, owner):
        drawing = pipeline((1.0, 1.0))
        drawing.leaf("other.weight", reached=False, owner=owner)
        assert [found.severity for found in told(drawing)] == ["info"]

    @pytest.mark.parametrize(("owner", "severity"), [("opt_D.Adam[1]", "warning"), ("opt_G.Adam[0]", "info")])
    def test_optimizers_of_one_kind_are_told_apart(self, owner, severity):
        drawing = pipeline((1.0, 1.0), owner="opt_D.Adam[0]")
        drawing.leaf("other.weight", reached=False, owner=owner)
        assert [(found.severity, found.leaf) for found in told(drawing)] == [(severity, "other.weight")]

    def test_frozen_parameters_want_none(self):
        drawing = pipeline((1.0, 1.0))
        drawing.leaf("frozen.weight", reached=False, owner="SGD[0]", requires_grad=False)
        assert told(drawing) == []

    def test_only_undefined_contributions(self):
        (found,) = told(pipeline((1.0, 1.0), None))
        assert (found.kind, found.severity, found.op, found.leaf) == ("missing-gradient", "warning", "AccumulateGrad", "w")
        assert "Op2Backward0 sent no gradient for it" in found.hint

    def test_a_call_for_some_inputs_wants_no_others(self):
        drawing = graphs.Drawing()
        wanted, other = drawing.leaf("a", owner="SGD[0]"), drawing.leaf("b", owner="SGD[0]")
        drawing.leaf("c", reached=False, owner="SGD[0]", target=False)
        top = drawing.node("MulBackward0")
        drawing.edge(top, wanted)
        drawing.edge(top, other)
        drawing.root(top)
        assert told(drawing, (1.0,), inputs=[wanted]) == []
        graph = drawing.graph()
        assert diagnose(graph, drawing.tape(graph, [(1.0,)]), inputs=True) == []

    def test_an_input_that_the_graph_does_not_hold(self):
        drawing = pipeline((1.0, 1.0))
        drawing.leaf("view", reached=False, kind="input")
        graph = drawing.graph()
        call = Related(FILE, 9, "the call")
        (found,) = diagnose(graph, drawing.tape(graph, [(1.0, 1.0)]), inputs=True, call=call)
        assert (found.kind, found.severity, found.leaf, found.related) == ("missing-gradient", "warning", "view", (call,))

    @pytest.mark.parametrize(("asked", "expected"), [(True, [("missing-gradient", "warning", "enc.weight")]), (False, [])])
    def test_parameters_that_the_call_asks_for(self, asked, expected):
        drawing = pipeline((1.0, 1.0))
        drawing.leaf("enc.weight", reached=False, target=asked)
        graph = drawing.graph()
        found = diagnose(graph, drawing.tape(graph, [(1.0, 1.0)]), inputs=True)
        assert [(one.kind, one.severity, one.leaf) for one in found] == expected

    def test_leaves_reached_before_a_failure(self):
        drawing = graphs.Drawing()
        early, late = drawing.leaf("head.weight"), drawing.leaf("body.weight")
        body, top = drawing.node("TanhBackward0"), drawing.node("AddBackward0")
        for source, target in ((body, late), (top, body), (top, early)):
            drawing.edge(source, target)
        drawing.root(top)
        graph = drawing.graph()
        columns = drawing.tape(graph, [(1.0,)]).columns
        steps = 2  # AddBackward0, head.weight
        columns.step_node = columns.step_node[: 4 * steps]
        kept = sum(1 for step in Tape(columns, graph).contribution_step if step <= steps)
        for name in ("step", "edge", "tensor", "so_far"):
            setattr(columns, f"contribution_{name}", getattr(columns, f"contribution_{name}")[: 4 * kept])
        columns.failure = Failure(body, "RuntimeError", "freed", "")
        found = diagnose(graph, Tape(columns, graph))
        assert [(one.kind, one.leaf) for one in found] == [("partial-gradients", "head.weight")]
        assert found[0].message.startswith("head.weight got its gradient before the pass failed with RuntimeError")

    @pytest.mark.parametrize("grad", [None, (2.0, 2.0)])
    def test_a_leaf_whose_own_hook_failed_has_got_nothing(self, grad):
        drawing = pipeline((1.0, 1.0))
        graph = drawing.graph()
        columns = drawing.tape(graph, [(1.0, 1.0)], before={"w": grad} if grad else None).columns
        columns.failure = Failure(graph.leaves[0].node, "ValueError", "hook", "")
        assert diagnose(graph, Tape(columns, graph)) == []
        columns.failure = Failure(UNKNOWN, "ValueError", "hook", "")
        (found,) = diagnose(graph, Tape(columns, graph))
        assert found.message.startswith("w was reached, and may have got its gradient, before the pass failed with ValueError")
        columns.kind, columns.leaf_after = "committed", columns.leaf_before
        assert diagnose(graph, Tape(columns, graph)) == []


class TestGains:
    def test_exploding_with_its_line(self):
        graph, tape = rounds(60, 1.8)
        (found,) = diagnose(graph, tape)
        assert (found.kind, found.severity, found.line, found.leaf) == ("exploding", "warning", 16, "W")
        assert found.related == (Related(FILE, 16, "line 16 multiplies it by 1.8 at each of its 60 runs, 2e+15 in all"),)

    def test_nodes_of_one_line_are_weighed_together(self):
        """A root mean square divides by what the square multiplied with: no explosion."""
        drawing = graphs.Drawing()
        leaf = drawing.leaf("w")
        code = "loss = h.pow(2).mean().sqrt()"
        square = drawing.node("PowBackward0", origin=drawing.origin(FILE, 17, code, function="Tensor.pow"))
        root = drawing.node("SqrtBackward0", origin=drawing.origin(FILE, 17, code, function="Tensor.sqrt"))
        last = drawing.node("MulBackward0", origin=drawing.origin(FILE, 16, "h = w * c"))
        drawing.edge(last, leaf, (1e9,))
        drawing.edge(square, last, (1e12,))
        drawing.edge(root, square, (1e-12,))
        drawing.root(root)
        (found,) = told(drawing, (1.0,))
        assert (found.kind, found.line) == ("exploding", 16)

    def test_vanishing_with_its_line(self):
        graph, tape = rounds(60, 0.5, late=True)
        (found,) = diagnose(graph, tape)
        assert (found.kind, found.line, found.leaf) == ("vanishing", 16, "h0")

    def test_the_layers_of_one_line_are_told_with_what_each_does(self):
        drawing = graphs.Drawing()
        below, head = drawing.leaf("net.0.weight"), drawing.leaf("head")
        for place, factor in enumerate((1e-2, 1e-5, 1e-3)):
            origin = drawing.origin(FILE, 6, "y = net(x)", f"net.{place}", "Sigmoid")
            node = drawing.node("SigmoidBackward0", origin=origin)
            drawing.edge(node, below, (factor,))
            below = node
        top = drawing.node("AddBackward0", origin=drawing.origin(FILE, 7, "loss = y + head"))
        drawing.edge(top, below)
        drawing.edge(top, head)
        drawing.root(top)
        (found,) = [one for one in told(drawing, (1.0,)) if one.kind == "vanishing"]
        cause = "the layers of line 6 multiply it by 1e-10 in all, most of it net.1 by 1e-05, net.2 by 0.001, net.0 by 0.01"
        assert found.message == f"the gradient of net.0.weight has norm 1.0e-10, that of head 1.0e+00: {cause}"

    def test_what_layers_send_to_their_own_weights_hides_nothing(self):
        drawing = graphs.Drawing()
        below = drawing.leaf("net.0.weight")
        for place in range(1, 7):
            origin = drawing.origin(FILE, 6, "y = net(x)", f"net.{place}", "Linear")
            node = drawing.node("AddmmBackward0", origin=origin)
            turned = drawing.node("TBackward0", origin=origin)
            drawing.edge(turned, drawing.leaf(f"net.{place}.weight"))
            drawing.edge(node, below, (0.03,))
            drawing.edge(node, turned, (30.0,))
            below = node
        drawing.root(below)
        (found,) = [one for one in told(drawing, (1.0,)) if one.kind == "vanishing"]
        assert (found.leaf, found.line) == ("net.0.weight", 6)
        assert "the layers of line 6 multiply it by 7e-07 in all" in found.message

    def test_a_leaf_beside_a_larger_one_of_its_module_is_no_sign(self):
        """As the bias of keys in attention: no shift of all keys changes a softmax."""
        drawing = graphs.Drawing()
        bias, weight, head = drawing.leaf("net.key.bias"), drawing.leaf("net.key.weight"), drawing.leaf("head")
        node = drawing.node("AddmmBackward0", origin=drawing.origin(FILE, 6, "y = net(x)", "net.key", "Linear"))
        drawing.edge(node, bias, (1e-10,))
        drawing.edge(node, weight, (1e-2,))
        top = drawing.node("AddBackward0", origin=drawing.origin(FILE, 7, "loss = y + head"))
        drawing.edge(top, node)
        drawing.edge(top, head)
        drawing.root(top)
        assert told(drawing, (1.0,)) == []

    def test_ordinary_growth_is_none(self):
        assert diagnose(*rounds(20, 1.5)) == []
        assert diagnose(*rounds(20, 0.6, late=True)) == []


def rounds(count, factor, late=False):
    """h = h @ W again and again; with `late` W is used at the end only."""
    drawing = graphs.Drawing()
    line = drawing.origin(FILE, 16, "h = h @ W")
    weight, h = drawing.leaf("W"), drawing.leaf("h0")
    for place in range(count):
        node = drawing.node("MmBackward0", origin=line)
        drawing.edge(node, h, (factor,))
        if not late or place == count - 1:
            drawing.edge(node, weight)
        h = node
    drawing.root(h)
    graph = drawing.graph()
    return graph, drawing.tape(graph, [(1.0,)])


class TestRecord:
    def test_what_is_not_exact_is_an_error(self):
        found = told(pipeline((1.0, 1.0)), mismatches=[Mismatch(1, 0, "sum differs by 1 ulp"), Mismatch(UNKNOWN, 0, "x")])
        assert [(one.kind, one.severity, one.node) for one in found] == [
            ("not-exact", "error", 1),
            ("not-exact", "error", UNKNOWN),
        ]

    def test_a_hook_is_told_with_its_place(self):
        drawing = pipeline((1.0, 1.0), (1.0, 1.0))
        graph = drawing.graph()
        node = graph.columns.op and next(n for n in range(len(graph)) if graph.op(n) == "Op2Backward0")
        graph.columns.foreign[node] = "hook clip (/home/ada/bug.py:3)"
        tape = drawing.tape(graph, [(1.0, 1.0)], hooks={node: lambda value: (0.5, 0.5)})
        (found,) = diagnose(graph, tape)
        assert (found.kind, found.severity, found.op, found.line) == ("hook-changed", "info", "Op2Backward0", 2)
        assert found.related == (Related(FILE, 3, "the hook"),)
        assert found.message.endswith("norm 1.41 before it, 0.707 after")

    def test_a_hook_that_hides_nan(self):
        drawing = pipeline((1.0, 1.0), (1.0, math.nan))
        graph = drawing.graph()
        tape = drawing.tape(graph, [(1.0, 1.0)], hooks={graph.leaves[0].node: lambda value: (1.0, 0.0)})
        graph.columns.foreign[graph.leaves[0].node] = "hook patch (/home/ada/bug.py:18)"
        origin, hidden = diagnose(graph, tape)
        assert (origin.kind, origin.op) == ("nonfinite-origin", "Op2Backward0")
        assert (hidden.kind, hidden.severity, hidden.leaf) == ("hook-changed", "warning", "w")
        assert hidden.message.startswith("a hook hides NaN in 1 of 2 elements in the gradient that arrives at the leaf w")
        assert hidden.related == (Related(FILE, 18, "the hook"),)


def test_the_worst_comes_first():
    drawing = pipeline((1.0, math.nan))
    drawing.leaf("a", reached=False)
    drawing.leaf("b", reached=False, owner="SGD[0]")
    assert [found.severity for found in told(drawing)] == ["error", "warning", "info"]
