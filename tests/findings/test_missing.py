import graphs
import pytest

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.facts import Cut, View
from gradscope.model.places import UNKNOWN, Origin

FILE = "/home/ada/net.py"
CALL = Related(FILE, 30, "the call")


def net(*unreached, module="body", **more):
    """loss = body(x), with a parameter of each of these names that the graph does not hold."""
    drawing = graphs.Drawing()
    end = drawing.leaf("body.weight", owner="SGD[0]")
    for name in unreached:
        drawing.leaf(name, reached=False, **{"owner": "SGD[0]", **more})
    top = drawing.node("MmBackward0", origin=drawing.origin(FILE, 20, "return x @ w", module, "Linear"))
    drawing.edge(top, end)
    drawing.root(top)
    return drawing


def told(drawing, inputs=False, **facts):
    graph = drawing.graph()
    for name, value in facts.items():
        setattr(graph.columns.facts, name, value)
    found = diagnose(graph, drawing.tape(graph, [(1.0,)]), inputs=inputs, call=CALL)
    return [one for one in found if one.kind == "missing-gradient"]


def test_a_module_that_takes_no_part():
    (found,) = told(net("aux.weight"))
    assert (found.severity, found.leaf, found.line) == ("warning", "aux.weight", CALL.line)
    assert found.message == (
        "aux.weight gets no gradient, though SGD[0] steps it: loss uses nothing that aux makes: it did not run, or its result "
        "was not used"
    )


def test_a_head_that_waits_for_its_turn_is_an_info():
    (found,) = told(net("aux.weight"), trained=[1])
    assert (found.severity, found.leaf) == ("info", "aux.weight")
    cut = Cut("detach", Origin(FILE, 12, "forward", code="h = aux(x).detach()"), (1,))
    assert [one.severity for one in told(net("aux.weight"), trained=[1], cuts=[cut])] == ["warning"]


def test_a_module_that_ran_without_it():
    (found,) = told(net("net.body.extra"))
    assert found.message.endswith("net.body ran and did not use it, or its graph was cut")


@pytest.mark.parametrize(("name", "module"), [("w", "body"), ("aux.weight", "")])
def test_where_no_module_can_be_blamed(name, module):
    (found,) = told(net(name, module=module))
    assert found.message.endswith("loss uses nothing of it, so this call's graph does not lead to it")


def test_what_the_optimizer_alone_holds():
    (found,) = told(net("SGD[0].params[2]", owner="SGD[0]"))
    assert found.message.endswith("nothing but SGD[0] is known to hold it, and loss does not use it")
    assert "add_param_group()" in found.hint


def test_what_distributed_training_waits_for():
    both, awaited = told(net("aux.weight", "aux.bias", owner=""), awaited=[1, 2])
    assert [(one.severity, one.leaves) for one in (both, awaited)] == [("warning", ("aux.weight", "aux.bias"))] * 2
    assert (awaited.leaf, awaited.line) == ("aux.weight, aux.bias", 30)
    assert awaited.message == (
        "DistributedDataParallel waits for a gradient of each parameter, and aux.weight, aux.bias get none in this call: "
        "its next forward will raise an error"
    )
    assert [one.leaf for one in told(net("aux.weight", owner=""), awaited=[0])] == ["aux.weight"]


def test_a_view_that_was_made_too_late():
    drawing = net()
    drawing.leaf("emb[2]", reached=False, kind="input")
    view = View(1, "emb", Origin(FILE, 30, "<module>", code="autograd.grad(score, emb[2])"))
    (found,) = told(drawing, inputs=True, views=[view])
    assert found.related == (Related(FILE, 30, "makes this view of emb"), CALL)
    assert found.message == (
        "emb[2] gets no gradient: line 30 makes it anew as a view of emb, and loss was computed from emb, not from this view"
    )
    assert "ask for the gradient of emb" in found.hint


class TestHollowRoots:
    """A root that is a leaf, since requires_grad_() was called on a loss without a graph."""

    def findings(self, *cuts, owner="Adam[0]", unreached=True):
        drawing = graphs.Drawing()
        loss = drawing.leaf("loss", kind="tensor")
        if unreached:
            drawing.leaf("net.weight", reached=False, owner=owner)
        drawing.root(loss)
        graph = drawing.graph()
        graph.columns.facts.cuts = list(cuts)
        return diagnose(graph, drawing.tape(graph, [(1.0,)]), call=CALL)

    def test_the_cut_is_named(self):
        cut = Cut("data", Origin(FILE, 21, "Net.forward", code="return out.data", expression="out.data"), (1,), (0,))
        hollow, cut_off, missing = self.findings(cut)
        assert [one.kind for one in (hollow, cut_off, missing)] == ["no-graph", "cut", "missing-gradient"]
        assert {one.severity for one in (hollow, cut_off, missing)} == {"warning"}
        assert hollow.message == (
            "loss is a leaf itself, so this call brings a gradient to nothing else: line 21 (return out.data) cuts the graph "
            "with .data"
        )
        assert {one.related for one in (hollow, cut_off, missing)} == {(Related(FILE, 21, "out.data"),)}
        assert (missing.leaf, missing.node) == ("net.weight", UNKNOWN)

    def test_without_a_cut_it_is_an_info(self):
        assert [(one.kind, one.severity) for one in self.findings()] == [("no-graph", "info"), ("missing-gradient", "info")]

    def test_a_leaf_that_is_differentiated_on_purpose(self):
        assert self.findings(unreached=False) == []
