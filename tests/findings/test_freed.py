import drawn_passes as passes
import pytest
from drawn_passes import FILE

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.facts import EarlierCall, Freed
from gradscope.model.places import UNKNOWN

TEXT = "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed)."
FIRST = EarlierCall(1, "backward", FILE, 22, "loss.backward()")


def told(freed=(), earlier=(), node=1, bridge=UNKNOWN, text=TEXT):
    drawing = passes.chain(("TanhBackward0", 14, "code = torch.tanh(x @ w)"), ("MulBackward0", 18, "h = h * code"))
    graph, tape = passes.failed(drawing, node, text)
    tape.columns.facts.freed = list(freed)
    graph.columns.facts.earlier, graph.columns.facts.bridge = list(earlier), bridge
    return [one for one in diagnose(graph, tape) if one.kind == "freed-graph"]


def test_it_names_the_node_the_call_that_freed_it_and_what_ties_the_graphs():
    (found,) = told([Freed(1, 1)], [FIRST], bridge=2)
    assert (found.severity, found.op, found.file, found.line) == ("error", "TanhBackward0", FILE, 14)
    assert found.related == (
        Related(FILE, 22, "backward call 1: frees what it runs through"),
        Related(FILE, 18, "ties this graph to the earlier one"),
    )
    assert found.message == (
        "TanhBackward0 at line 14 (code = torch.tanh(x @ w)) was already run backward by backward call 1 (line 22, "
        "loss.backward()), and its saved tensors are gone; line 18 (h = h * code) carries them into this graph"
    )
    assert found.hint.startswith("where h is carried from one iteration to the next, detach() it there")


def test_a_bridge_on_the_same_line_is_not_told_twice():
    (found,) = told([Freed(1, 1)], [FIRST], bridge=1)
    assert found.related == (Related(FILE, 22, "backward call 1: frees what it runs through"),)
    assert found.message.endswith("and its saved tensors are gone")


def test_where_nobody_saw_it_the_last_call_that_frees_is_guessed():
    kept = EarlierCall(2, "backward", FILE, 23, retain_graph=True)
    (found,) = told([Freed(1, 0, certain=False)], [FIRST, kept])
    assert "was already run backward, it may be by backward call 1 (line 22, loss.backward())" in found.message


@pytest.mark.parametrize("node", [1, UNKNOWN])
def test_with_the_text_alone(node):
    (found,) = told(node=node)
    assert "was already run backward by an earlier call, and its saved tensors are gone" in found.message
    assert (found.node, found.related) == (node, ())


def test_other_failures_are_none():
    assert told([Freed(1, 1)], [FIRST], text="shapes do not fit") == []
