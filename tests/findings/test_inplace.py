import drawn_passes as passes
import pytest
from drawn_passes import FILE, at

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.columns import Failure
from gradscope.model.facts import Write
from gradscope.model.places import UNKNOWN, CodePlace
from gradscope.model.tape import Tape

TEXT = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor [3]], "
    "which is output 0 of SigmoidBackward0, is at version 1; expected version 0 instead. Hint: enable anomaly detection"
)
GATE = (("SigmoidBackward0", 11, "gate = score.sigmoid()"), ("CopySlices", 12, "gate[1] = 1.0"))


def told(*writes, drawing=None, text=TEXT, node=1, facts=None):
    graph, tape = passes.failed(drawing or passes.chain(*GATE), node, text)
    tape.columns.facts.writes = list(writes)
    for name, value in (facts or {}).items():
        setattr(graph.columns.facts, name, value)
    return [one for one in diagnose(graph, tape) if one.kind == "inplace-modified"]


def test_it_names_the_tensor_who_saved_it_and_who_wrote():
    (found,) = told(Write(1, "result", "gate", origin=at(12, "gate[1] = 1.0"), function="Tensor.__setitem__"))
    assert (found.severity, found.op, found.file, found.line) == ("error", "SigmoidBackward0", FILE, 11)
    assert found.related == (Related(FILE, 12, "writes into gate"),)
    assert found.message == (
        "line 12 (gate[1] = 1.0) changes gate in place, but SigmoidBackward0 at line 11 (gate = score.sigmoid()) "
        "saved it for its backward"
    )
    assert "gate.clone()" in found.hint


def test_an_activation_in_place_is_told_by_its_name():
    module = at(19, "h = self.lin(self.act(gate))", module="act", module_type="ReLU")
    (found,) = told(Write(1, "result", "gate", origin=module, function="Tensor.relu_"))
    assert "changes gate in place with relu_, but" in found.message
    assert found.hint == "use the version that makes a new tensor (inplace=False for ReLU), or give it gate.clone()"


def test_the_result_goes_by_the_name_that_its_line_gave_it():
    (found,) = told(Write(1, "result", origin=at(12, "f(gate)")))
    assert "changes gate in place" in found.message


def test_the_step_of_an_optimizer_under_a_retained_graph():
    drawing = passes.chain(("MmBackward0", 17, "h = h @ w"), ("MeanBackward0", 18, "loss = h.mean()"))
    drawing.leaf("b")
    step = at(21, "opt.step()")
    writes = [Write(1, "self", leaf=leaf, origin=step, function="SGD.step") for leaf in (0, 1)]
    (found,) = told(*writes, drawing=drawing, facts={"bridge": 1, "old_nodes": 2})
    assert (found.leaf, found.line) == ("w, b", 17)
    assert found.related == (Related(FILE, 21, "writes into w"), Related(FILE, 17, "carries the earlier graph into this one"))
    assert found.message == (
        "MmBackward0 at line 17 (h = h @ w) needs w, b as they were before line 21 (opt.step()) changed them: "
        "that node belongs to the retained graph of an earlier call"
    )
    assert "detach() what is carried over at line 17 (h = h @ w)" in found.hint


def test_a_step_between_the_forward_and_the_call():
    write = Write(1, "self", leaf=0, origin=at(21, "opt.step()"), function="SGD.step")
    (found,) = told(write)
    assert found.message.endswith("the forward ran before that step, this call comes after it")


def test_a_custom_function_that_does_not_say_what_it_writes():
    drawing = passes.chain(("ExpBackward0", 24, "h = a.exp()"), ("AddIntoBackward", 25, "AddInto.apply(h, b)"))
    graph, tape = passes.failed(drawing, 1, TEXT)
    graph.columns.backward_code[2] = CodePlace(FILE, 18, "AddInto.backward")
    tape.columns.facts.writes = [Write(1, "result", "h", origin=at(14, "a[1:2] += b", function="AddInto.forward"))]
    found = next(one for one in diagnose(graph, tape) if one.kind == "inplace-modified")
    assert found.message.endswith("AddInto.forward writes into its input without saying so")
    assert "ctx.mark_dirty" in found.hint


def test_with_the_text_alone_it_says_what_is_not_known():
    (found,) = told()
    assert (found.op, found.line, found.related) == ("SigmoidBackward0", 11, ())
    assert found.message == (
        "SigmoidBackward0 at line 11 (gate = score.sigmoid()) saved a tensor of shape [3], made by SigmoidBackward0, that has "
        "been written into since (saved at version 0, now at 1); which line wrote it is not known"
    )


def test_without_a_node_too():
    graph, tape = passes.passed(passes.chain(*GATE))
    tape.columns.failure = Failure(UNKNOWN, "RuntimeError", TEXT, "")
    found = next(one for one in diagnose(graph, Tape(tape.columns, graph)) if one.kind == "inplace-modified")
    assert found.message.startswith("a node of this graph saved a tensor of shape [3]")


def test_a_write_that_torch_does_not_notice():
    graph, tape = passes.passed(passes.chain(GATE[0]))
    tape.columns.facts.writes = [Write(1, "result", "out", origin=at(13, "out.data.zero_()"), silent=True)]
    (found,) = diagnose(graph, tape)
    assert (found.kind, found.severity, found.op, found.line) == ("silent-mutation", "warning", "SigmoidBackward0", 11)
    assert found.related == (Related(FILE, 13, "writes into out"),)
    assert found.message == (
        "line 13 (out.data.zero_()) changes out behind autograd's back, after SigmoidBackward0 at line 11 "
        "(gate = score.sigmoid()) saved it: its gradient is computed from the new values, and is wrong without an error"
    )


@pytest.mark.parametrize("text", ["shapes do not fit", "Trying to backward through the graph a second time"])
def test_other_failures_are_none(text):
    assert told(text=text) == []


def test_a_write_whose_line_is_not_known():
    (found,) = told(Write(1, "result", "gate"))
    assert found.message == (
        "gate was changed in place after SigmoidBackward0 at line 11 (gate = score.sigmoid()) saved it for its backward; "
        "which line did it is not known"
    )
