import graphs

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.columns import Hook
from gradscope.model.facts import StaleHook
from gradscope.model.places import CodePlace, Origin

FILE = "/home/ada/train.py"
CALL = Related(FILE, 30, "loss.backward()")


def told(kind, **facts):
    drawing = graphs.Drawing()
    top = drawing.node("MulBackward0", origin=drawing.origin(FILE, 7, "y = x * 2"))
    drawing.edge(top, drawing.leaf("x", kind="tensor"))
    drawing.root(top)
    graph = drawing.graph()
    graph.columns.hooks.append(Hook(top, 0, "tensor", "show", CodePlace(FILE, 8, "show")))
    for name, value in facts.items():
        setattr(graph.columns.facts, name, value)
    return [one for one in diagnose(graph, drawing.tape(graph, [(1.0,)]), call=CALL) if one.kind == kind]


def test_a_hook_that_stayed_with_the_value_before_a_write():
    (found,) = told("stale-hook", stale_hooks=[StaleHook(0, "y", Origin(FILE, 9, "<module>", code="y.add_(1)"))])
    assert (found.severity, found.op, found.line, found.leaf) == ("info", "MulBackward0", 7, "y")
    assert found.related == (Related(FILE, 8, "the hook"), Related(FILE, 9, "writes into y"))
    assert found.message == (
        "show (/home/ada/train.py:8) gets the gradient at MulBackward0 at line 7 (y = x * 2), not that of y as it is now: "
        "line 9 (y.add_(1)) wrote into y after register_hook(), and the hook stayed with the value before"
    )
    assert "register the hook after the last write into y" in found.hint
    assert told("stale-hook") == []


def test_gradients_whose_graph_leads_back_to_the_leaf():
    (found,) = told("reference-cycle", create_graph=True)
    assert (found.severity, found.line, found.leaf) == ("info", 30, "x")
    assert found.message == (
        "backward(create_graph=True) leaves a gradient with a graph in .grad of x: that graph leads back to it, so neither is "
        "freed until x.grad is set to None"
    )
    assert told("reference-cycle") == []
