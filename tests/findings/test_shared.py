import graphs

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.facts import Shared
from gradscope.model.places import Origin

FILE = "/home/ada/a.py"


def told(*shared):
    drawing = graphs.Drawing()
    top = drawing.node("MmBackward0")
    drawing.edge(top, drawing.leaf("enc.weight"))
    drawing.edge(top, drawing.leaf("dec.weight"))
    drawing.root(top)
    graph = drawing.graph()
    graph.columns.facts.shared = list(shared)
    return diagnose(graph, drawing.tape(graph, [(1.0,)]))


def test_two_leaves_on_one_memory():
    made = Origin(FILE, 5, "<module>", code="dec.weight = nn.Parameter(enc.weight.t().detach())")
    (found,) = told(Shared(0, "dec.weight", made), Shared(1, "enc.weight", made))
    assert (found.kind, found.severity, found.op, found.leaf) == (
        "shared-storage",
        "warning",
        "AccumulateGrad",
        "enc.weight, dec.weight",
    )
    assert found.related == (Related(FILE, 5, "makes the one of the other"),)
    assert found.message.startswith("enc.weight and dec.weight are two leaves on the same memory since line 5 (")


def test_leaves_of_their_own():
    assert told() == []
