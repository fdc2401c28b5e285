from dataclasses import replace

import drawn_passes as passes
import pytest
from drawn_passes import FILE

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.facts import EarlierCall
from gradscope.model.places import UNKNOWN

CALL = Related(FILE, 30, "loss.backward(retain_graph=True)")
FIRST = EarlierCall(1, "backward", FILE, 30, retain_graph=True, nodes=2, old_nodes=0)
SECOND = replace(FIRST, number=2, nodes=3, old_nodes=1)


def told(*earlier, old_nodes=2, bridge=1):
    drawing = passes.chain(
        ("TanhBackward0", 27, "h = cell(x, h)"), ("MulBackward0", 28, "y = h * 2"), ("SumBackward0", 29, "loss = y")
    )
    graph, tape = passes.passed(drawing)
    facts = graph.columns.facts
    facts.earlier, facts.old_nodes, facts.bridge = list(earlier), old_nodes, bridge
    return [one for one in diagnose(graph, tape, call=CALL) if one.kind == "growing-graph"]


def test_it_is_told_with_the_sizes_and_the_line_that_carries_the_old_part():
    (found,) = told(FIRST, SECOND)
    assert (found.severity, found.op, found.line) == ("warning", "TanhBackward0", 27)
    assert found.related == (Related(FILE, 27, "carries the old graph into the new one"),)
    assert found.message == (
        "the graph of this line's calls grows from call to call (2, 3, 4 nodes), and 2 of its 4 nodes are older than the call "
        "before: line 27 (h = cell(x, h)) carries the old part into the new one"
    )
    assert found.hint == "h.detach() before the next forward, and no retain_graph"


def test_without_a_bridge_the_call_is_named():
    (found,) = told(FIRST, SECOND, bridge=UNKNOWN)
    assert (found.file, found.line) == (FILE, 30)


@pytest.mark.parametrize(
    "earlier",
    [
        (SECOND,),
        (replace(FIRST, line=99), SECOND),
        (replace(FIRST, nodes=3), SECOND),
        (FIRST, replace(SECOND, old_nodes=0)),
        (FIRST, replace(SECOND, nodes=UNKNOWN)),
    ],
)
def test_growth_that_is_not_sure_is_none(earlier):
    assert told(*earlier) == []


def test_a_part_that_all_calls_share_is_no_growth():
    assert told(FIRST, replace(SECOND, old_nodes=2)) == []


def test_derivatives_of_derivatives_are_meant():
    grads = [replace(call, kind="grad") for call in (FIRST, SECOND)]
    assert told(*grads) == []
