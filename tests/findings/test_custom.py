import drawn_passes as passes
import graphs
import pytest
from drawn_passes import FILE, at

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.columns import Hook
from gradscope.model.facts import Mutated
from gradscope.model.places import CodePlace

BODY = CodePlace(FILE, 17, "Half.backward", 19)


def drawn(local=(1.0,)):
    """loss = exp(b) + Half.apply(a)"""
    drawing = graphs.Drawing()
    a, b = drawing.leaf("a"), drawing.leaf("b")
    exp = drawing.node("ExpBackward0", origin=drawing.origin(FILE, 22, "y = b.exp()"))
    half = drawing.node("HalfBackward", origin=drawing.origin(FILE, 23, "z = Half.apply(a)"))
    top = drawing.node("AddBackward0", origin=drawing.origin(FILE, 24, "loss = y + z"))
    for source, target in ((exp, b), (top, exp), (top, half)):
        drawing.edge(source, target)
    drawing.edge(half, a, local)
    drawing.root(top)
    return drawing, half


def of_custom(graph, tape, node):
    graph.columns.backward_code[node] = BODY
    return [one for one in diagnose(graph, tape) if one.kind == "custom-function"]


@pytest.mark.parametrize(("origin", "line"), [(at(18, "return g.mul_(0.5)"), 18), (None, 17)])
def test_a_backward_that_writes_into_what_it_was_given(origin, line):
    drawing, half = drawn()
    graph, tape = passes.passed(drawing, (1.0,))
    tape.columns.facts.mutated = [Mutated(half, 0, origin)]
    (found,) = of_custom(graph, tape, half)
    assert (found.severity, found.op, found.line) == ("warning", "HalfBackward", 23)
    assert found.related == (Related(FILE, line, "writes into the gradient"),)
    assert found.message.startswith(
        "the backward of HalfBackward at line 23 (z = Half.apply(a)) writes into the gradient that it was given"
    )


def broken(text):
    drawing = passes.chain(("HalfBackward", 23, "z = Half.apply(a)"))
    graph, tape = passes.failed(drawing, 1, text)
    return of_custom(graph, tape, 1)


def test_too_few_gradients():
    (found,) = broken("function HalfBackward returned an incorrect number of gradients (expected 2, got 1)")
    assert (found.severity, found.line, found.related) == ("error", 23, (Related(FILE, 17, "its backward"),))
    assert found.message == (
        "the backward of HalfBackward at line 23 (z = Half.apply(a)) returns 1 gradient where its forward took 2 inputs"
    )


def test_a_gradient_of_another_shape():
    (found,) = broken(
        "Function HalfBackward returned an invalid gradient at index 0 - got [3] but expected shape compatible with [4]"
    )
    assert found.message.endswith("returns a gradient of shape [3] for its input 0, which has shape [4]")


def test_what_it_raises_itself_is_told_as_it_is():
    (found,) = broken("no")
    assert found.message == "HalfBackward raised RuntimeError: no (bug.py:17)"


def test_none_for_an_input_that_requires_a_gradient():
    drawing, half = drawn(None)
    graph, tape = passes.passed(drawing, (1.0,))
    (found,) = of_custom(graph, tape, half)
    assert (found.severity, found.op) == ("info", "HalfBackward")
    assert found.message.endswith("gives None for input 0, which requires a gradient")


def test_a_sound_one_is_none():
    drawing, half = drawn()
    assert of_custom(*passes.passed(drawing, (1.0,)), half) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hook 'clip' has changed the size of value", "has changed the size of the gradient"),
        ("hook 'clip' has returned an incorrect object (got float, but expected None or Tensor)", "has returned an incorrect"),
    ],
)
def test_a_hook_whose_result_torch_refuses(text, said):
    graph, tape = passes.failed(passes.chain(("ExpBackward0", 22, "y = w.exp()")), 1, text)
    graph.columns.hooks = [Hook(1, 0, "tensor", "look"), Hook(1, 0, "tensor", "Net.clip", CodePlace(FILE, 9, "Net.clip", 10))]
    (found,) = [one for one in diagnose(graph, tape) if one.kind == "hook-changed"]
    assert (found.severity, found.op, found.line, found.related) == ("error", "ExpBackward0", 22, (Related(FILE, 9, "the hook"),))
    assert found.message.startswith(f"the hook clip (bug.py:9) {said}")
    assert "at ExpBackward0 at line 22 (y = w.exp()), and torch refuses that" in found.message


def test_fewer_seeds_than_roots():
    graph, tape = passes.failed(passes.chain(("SinBackward0", 4, "a = w.sin()")), 1, "got 2 tensors and 1 gradients")
    (found,) = [one for one in diagnose(graph, tape, call=Related(FILE, 5, "the call")) if one.kind == "seed-mismatch"]
    assert (found.severity, found.line) == ("error", 5)
    assert found.message == "the call has 2 roots and 1 seed: each root wants its own"
