import graphs
import pytest

from gradscope.findings import diagnose
from gradscope.model.facts import Broadcast

FILE = "/home/ada/fit.py"


def told(first, second, result, code="loss = F.mse_loss(p, y)", function="torch.nn.functional.mse_loss", twice=False):
    drawing = graphs.Drawing()
    loss = drawing.node("MseLossBackward0", (), drawing.origin(FILE, 21, code, function=function))
    drawing.edge(loss, drawing.leaf("w"))
    drawing.root(loss)
    graph = drawing.graph()
    graph.columns.facts.broadcasts = [Broadcast(loss, (first, second), result)] * (2 if twice else 1)
    return diagnose(graph, drawing.tape(graph, [(1.0,)]))


def test_a_column_against_a_row():
    (found,) = told((50, 1), (50,), (50, 50), twice=True)
    assert (found.kind, found.severity, found.op, found.line) == ("broadcast", "warning", "MseLossBackward0", 21)
    assert found.message == (
        "MseLossBackward0 at line 21 (loss = F.mse_loss(p, y)) sets shape (50, 1) against (50,): both are expanded to (50, 50), "
        "so each of 50 elements meets each of the others (2500 pairs)"
    )
    assert "squeeze(-1)" in found.hint


@pytest.mark.parametrize(
    ("code", "severity"),
    [("d = p - y", "warning"), ("d = x[:, None] - x", "info"), ("d = x.unsqueeze(1) - y", "info")],
)
def test_pairs_that_are_wanted(code, severity):
    assert [one.severity for one in told((4, 1), (4,), (4, 4), code, "Tensor.sub")] == [severity]


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ((1, 1), (1,), (1, 1)),
        ((8, 4), (4,), (8, 4)),
        ((8, 1), (4,), (8, 4)),
        ((8, 4, 1), (), (8, 4, 1)),
        ((1, 5), (5,), (1, 5)),
    ],
)
def test_ordinary_broadcasts(first, second, result):
    assert told(first, second, result) == []
