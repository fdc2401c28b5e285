import graphs
import pytest
from drawn_passes import FILE

from gradscope.findings import diagnose
from gradscope.findings.finding import Related


def two_terms(main, aux, root="AddBackward0"):
    """loss = main(h) + 0.1 * aux(h), h = relu(w)"""
    drawing = graphs.Drawing()
    leaf = drawing.leaf("trunk.weight")
    h = drawing.node("ReluBackward0", (2,), drawing.origin(FILE, 13, "h = relu(trunk(x))"))
    drawing.edge(h, leaf)
    first = drawing.node("NllLossBackward0", (), drawing.origin(FILE, 14, "main = nll(h)"))
    drawing.edge(first, h, lambda arrived: (main, 0.0))
    second = drawing.node("MseLossBackward0", (), drawing.origin(FILE, 15, "aux = mse(h)"))
    drawing.edge(second, h, lambda arrived: (0.0, aux))
    weighed = drawing.node("MulBackward0", (), drawing.origin(FILE, 18, "loss = main + 0.1 * aux"))
    drawing.edge(weighed, second, (0.1,))
    top = drawing.node(root, (), drawing.origin(FILE, 18, "loss = main + 0.1 * aux"))
    drawing.edge(top, first)
    drawing.edge(top, weighed)
    drawing.root(top)
    graph = drawing.graph()
    return [one for one in diagnose(graph, drawing.tape(graph, [(1.0,)])) if one.kind == "dominant-term"]


def test_the_term_that_outweighs_the_other_where_they_meet():
    (found,) = two_terms(1.0, 580.0)
    assert (found.severity, found.op, found.line) == ("info", "ReluBackward0", 13)
    assert found.message == (
        "the term aux (line 15) outweighs main (line 14) where they meet, in ReluBackward0 at line 13 "
        "(h = relu(trunk(x))): 580 against 1"
    )
    assert found.related == (Related(FILE, 15, "a term"), Related(FILE, 14, "a term"))


@pytest.mark.parametrize(("main", "aux", "root"), [(1.0, 20.0, "AddBackward0"), (1.0, 580.0, "MulBackward0")])
def test_terms_of_like_size_and_factors_are_none(main, aux, root):
    assert two_terms(main, aux, root) == []
