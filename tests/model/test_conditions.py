import math
from dataclasses import dataclass

import graphs
import pytest

from gradscope.model import conditions

STEPS = {"Add": 1, "Sin": 2, "Mul": 3, "x": 4}


@dataclass
class Told:
    kind: str
    node: int


@pytest.fixture
def pass_():
    return graphs.two_outputs()


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("nan", []),
        ("inf", []),
        ("zero", []),
        ("undefined", []),
        ("op:SinBackward0", ["Sin"]),
        ("op:sinbackward", ["Sin"]),
        ("op:Sin", ["Sin"]),
        ("op:*u*", ["Mul", "x"]),
        ("op:AccumulateGrad", ["x"]),
        ("op:Cos", []),
        ("leaf:x", ["x"]),
        ("leaf:y", []),
        ("two_outputs.py:11", ["Sin"]),
        ("ada/two_outputs.py:10", ["Mul"]),
        ("/home/ada/two_outputs.py:12", ["Add"]),
        ("outputs.py:11", []),
        ("two_outputs.py:1", []),
        ("norm>10.1", ["Mul", "x"][1:]),
        ("norm>10", ["Add", "Sin", "Mul", "x"]),
        ("norm < 10", []),
        ("gain>1", ["Mul"]),
        ("gain<1", ["Sin"]),
        ("finding:zero-gradient", ["Mul"]),
        ("finding:vanishing", []),
        ("step:3", ["Mul"]),
        ("step:30", []),
        ("shape:[2]", ["Add", "Sin", "Mul", "x"]),
        ("shape:2", ["Add", "Sin", "Mul", "x"]),
        ("shape:[2,3]", []),
        ("shape:[]", []),
    ],
)
def test_which_steps_meet_a_condition(pass_, text, steps):
    graph, tape = pass_
    findings = [Told("zero-gradient", 0), Told("vanishing", -1)]
    condition = conditions.parse(f" {text} ")
    met = [STEPS[name] for name in steps]
    assert condition.text == text
    assert condition.steps(graph, tape, findings) == met
    assert [step for step in range(6) if condition.meets(graph, tape, findings, step)] == met


@pytest.mark.parametrize(
    ("text", "met"),
    [("finding:vanishing", True), ("finding:zero-gradient", True), ("finding:cut", False), ("norm>10", True), ("norm<1", False)],
)
def test_a_pass_meets_a_condition_by_a_finding_without_a_step_too(pass_, text, met):
    graph, tape = pass_
    assert conditions.parse(text).met(graph, tape, [Told("zero-gradient", 0), Told("vanishing", -1)]) is met


@pytest.mark.parametrize(
    ("text", "local", "steps"),
    [
        ("nan", (math.nan,), [1, 2]),
        ("inf", (math.inf,), [1, 2]),
        ("zero", (0.0,), [1, 2]),
        ("undefined", None, [1, 2]),
        ("norm>1e3", (2000.0,), [2]),
        ("norm>1e3", (math.inf,), [2]),
        ("gain>1e3", (2000.0,), [1]),
    ],
)
def test_the_step_that_sends_it_comes_first(text, local, steps):
    drawing = graphs.Drawing()
    leaf, node = drawing.leaf("layers.0.weight"), drawing.node("FooBackward0")
    drawing.edge(node, leaf, local)
    drawing.root(node)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,)])
    assert conditions.parse(text).steps(graph, tape) == steps


@pytest.mark.parametrize("text", ["leaf:layers[0].weight", "leaf:0.weight", "leaf:weight", "leaf:*.weight", "leaf:layers.*.w*"])
def test_leaves_by_the_end_of_their_path(text):
    drawing = graphs.Drawing()
    leaf, other = drawing.leaf("layers.0.weight"), drawing.leaf("layers.0.bias")
    node = drawing.node("FooBackward0")
    drawing.edge(node, leaf)
    drawing.edge(node, other)
    drawing.root(node)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,)])
    assert conditions.parse(text).steps(graph, tape) == [tape.step_of(leaf)]


def test_modules_by_the_beginning_of_their_path():
    graph, tape = graphs.gpt_like()
    modules = {graph.origin(tape.node_at(step)).module for step in conditions.parse("module:h.5.attn").steps(graph, tape)}
    assert modules == {"h.5.attn", "h.5.attn.c_attn", "h.5.attn.c_proj"}
    assert len(conditions.parse("module:h.*.ln_1").steps(graph, tape)) == 6
    assert conditions.parse("module:h.5.at").steps(graph, tape) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("nonsense", "it is not one of the kinds"),
        ("op:", "nothing stands after op:"),
        ("norm>big", "'big' is no number"),
        ("step:0", "steps are numbered from 1"),
        ("shape:[a]", "a shape is written like"),
        ("train.py:", "it is not one of the kinds"),
    ],
)
def test_what_cannot_be_read_is_said_with_all_kinds(text, why):
    with pytest.raises(ValueError, match="cannot read the condition") as error:
        conditions.parse(text)
    assert why in str(error.value)
    assert "op:NAME" in str(error.value)
