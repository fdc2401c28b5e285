"""What a check of a custom backward found wrong."""

import graphs

from gradscope.findings.checked import checked
from gradscope.findings.finding import Related
from gradscope.model.checks import RIGHT, UNKNOWN_RESULT, WRONG, CheckResult, CheckRow
from gradscope.model.places import CodePlace

FILE = "/home/ada/ops.py"


def told(*rows, custom=True):
    drawing = graphs.Drawing()
    node = drawing.node("SquareBackward", origin=drawing.origin(FILE, 20, "y = Square.apply(x)"))
    drawing.edge(node, drawing.leaf("x"))
    drawing.root(node)
    graph = drawing.graph()
    if custom:
        graph.columns.backward_code[node] = CodePlace(FILE, 8, "Square.backward", 10)
    return list(checked(graph, CheckResult(node, "how", list(rows))))


def test_a_backward_that_is_not_linear():
    (found,) = told(CheckRow("linear in the incoming gradient", WRONG, 0.5, 1e-6, "element [0]: 1.0 for 2.0"))
    assert (found.kind, found.severity, found.line, found.related) == (
        "custom-function",
        "error",
        20,
        (Related(FILE, 8, "its backward"),),
    )
    assert found.message == (
        "the backward of SquareBackward at line 20 (y = Square.apply(x)) is not linear in the gradient that arrives "
        "(element [0]: 1.0 for 2.0): it is right for no seed but perhaps this one"
    )


def test_a_backward_that_is_not_the_derivative():
    (found,) = told(CheckRow("∂x against finite differences", WRONG, 0.5, 1e-6), CheckRow("∂w", UNKNOWN_RESULT))
    assert found.message.endswith("is not the derivative of its forward: ∂x against finite differences differs")


def test_what_is_right_or_torchs_own_is_not_told():
    assert told(CheckRow("linear in the incoming gradient", RIGHT)) == []
    assert told(CheckRow("linear in the incoming gradient", WRONG), custom=False) == []
