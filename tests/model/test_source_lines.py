import math

import graphs

from gradscope.model.source_lines import SourceLines
from gradscope.model.tensors import NO_TENSOR


def test_the_pictured_lines():
    graph, tape = graphs.two_outputs()
    lines = SourceLines.of(graph, tape)
    marks = lines.marks(graphs.FILE, 2)
    assert {line: mark.state for line, mark in marks.items()} == {9: "pending", 10: "pending", 11: "run", 12: "run"}
    assert marks[11].norm == math.hypot(1, 10)
    assert (marks[11].node, marks[11].nodes, marks[11].done) == (1, 1, 1)
    assert marks[10].tensor == NO_TENSOR
    assert math.isnan(marks[10].norm)
    assert lines.nodes(graphs.FILE, 9) == [3]
    assert SourceLines.of(graph, tape) is lines


def test_a_line_that_made_several_nodes():
    graph, tape = graphs.gpt_like()
    lines = SourceLines.of(graph, tape)
    assert lines.files == [graphs.MODEL_FILE, graphs.TRAIN_FILE]
    assert lines.lines(graphs.TRAIN_FILE) == [41]
    adds = [step for step in range(1, tape.steps + 1) if graph.makes(tape.node_at(step)).startswith("x = x + self.attn")]
    mark = lines.mark(graphs.MODEL_FILE, 63, adds[0])
    assert (mark.state, mark.occurrence, mark.occurrences) == ("partial", 6, 6)
    assert lines.mark(graphs.MODEL_FILE, 63, tape.steps).state == "run"
    assert lines.mark(graphs.MODEL_FILE, 63, 0).state == "pending"
    assert lines.mark(graphs.MODEL_FILE, 1, 0) is None
    assert lines.marks("/elsewhere.py", 0) == {}


def test_a_line_that_the_pass_skips():
    drawing = graphs.Drawing()
    wanted, other = drawing.leaf("a"), drawing.leaf("b")
    line = drawing.origin("/home/ada/skip.py", 3, "y = b.exp()")
    side, top = drawing.node("ExpBackward0", origin=line), drawing.node("TopBackward0")
    for source, target in ((side, other), (top, wanted), (top, side)):
        drawing.edge(source, target)
    drawing.root(top)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,)], inputs=[wanted])
    mark = SourceLines.of(graph, tape).mark("/home/ada/skip.py", 3, 2)
    assert (mark.state, mark.node, mark.nodes) == ("never", side, 0)
