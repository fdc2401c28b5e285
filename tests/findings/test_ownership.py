import graphs
import pytest

from gradscope.findings import diagnose
from gradscope.findings.steps import orphans, step_without_gradient
from gradscope.model.facts import EarlierCall, StepFacts, SteppedParameter
from gradscope.model.places import Origin

FILE = "/home/ada/train.py"
STEP = Origin(FILE, 20, "<module>", code="opt.step()")


def unowned(*leaves, inputs=False):
    drawing = graphs.Drawing()
    top = drawing.node("MmBackward0")
    for name, owner, *kind in leaves:
        drawing.edge(top, drawing.leaf(name, owner=owner, kind=kind[0] if kind else "parameter"))
    drawing.root(top)
    graph = drawing.graph()
    return diagnose(graph, drawing.tape(graph, [(1.0,)]), inputs=inputs)


class TestUnowned:
    def test_layers_in_a_plain_list(self):
        leaves = [(f"net.blocks[{place}].weight", "") for place in range(2)]
        (found,) = unowned(("net.head.weight", "SGD[0]"), *leaves)
        assert (found.kind, found.severity) == ("unowned-leaf", "warning")
        assert found.leaf == "net.blocks[0].weight, net.blocks[1].weight"
        assert found.message == (
            "net.blocks[0].weight, net.blocks[1].weight get a gradient and are in no optimizer, though SGD steps "
            "net.head.weight: they stay as they are"
        )
        assert "nn.ModuleList" in found.hint

    def test_a_layer_that_came_after_the_optimizer(self):
        (found,) = unowned(("net.body.weight", "Adam[0]"), ("net.fc.weight", ""))
        assert (found.severity, found.leaf, "once all layers are there" in found.hint) == ("warning", "net.fc.weight", True)

    def test_another_network_is_passed_through(self):
        (found,) = unowned(("prompt.weight", "Adam[0]"), ("net.fc.weight", ""))
        assert found.severity == "info"

    @pytest.mark.parametrize(
        "leaves",
        [
            [("net.fc.weight", "")],
            [("net.fc.weight", "SGD[0]"), ("net.body.weight", "SGD[1]")],
            [("net.fc.weight", "SGD[0]"), ("x", "", "tensor")],
        ],
    )
    def test_no_optimizer_or_all_in_one_or_no_parameter(self, leaves):
        assert unowned(*leaves) == []

    def test_a_copy_of_the_network_is_trained_past_the_optimizer(self):
        drawing = graphs.Drawing()
        top = drawing.node("MmBackward0")
        drawing.edge(top, drawing.leaf("model.fc.weight"))
        drawing.root(top)
        drawing.leaf("net.fc.weight", reached=False, owner="SGD[0]")
        graph = drawing.graph()
        (found,) = (one for one in diagnose(graph, drawing.tape(graph, [(1.0,)])) if one.kind == "unowned-leaf")
        assert (found.severity, found.leaf) == ("info", "model.fc.weight")
        assert found.message == (
            "model.fc.weight gets a gradient and is in no optimizer, and SGD steps net.fc.weight, which this call does not "
            "reach: it stays as it is"
        )
        assert found.hint.startswith("make the optimizer of the very parameters that the loss uses")

    def test_a_call_that_names_what_it_wants(self):
        assert unowned(("net.body.weight", "Adam[0]"), ("net.fc.weight", ""), inputs=True) == []


def step(*gradients, held=True, ever=False, **more):
    parameters = tuple(SteppedParameter(f"w{place}", one, ever, held) for place, one in enumerate(gradients))
    return StepFacts("Adam", STEP, 3, parameters, **more)


BACKWARD = EarlierCall(2, "backward", FILE, 15, "loss.backward()")
GRAD = EarlierCall(2, "grad", FILE, 15, "gs = autograd.grad(loss, ws)")


class TestSteps:
    def test_gradients_that_were_cleared_too_early(self):
        cleared = Origin(FILE, 18, "<module>", code="opt.zero_grad()")
        (found,) = step_without_gradient(step("none", "none", calls=(BACKWARD,), calls_before=2, zeroed=cleared))
        assert (found.kind, found.severity, found.line, found.related[0].line) == ("step-without-gradient", "warning", 20, 18)
        assert (found.leaf, found.call) == ("w0, w1", 2)
        assert found.message == (
            "line 20 (opt.step()) finds no gradient at all 2 of its parameters (w0, w1), so Adam changes nothing: line 18 "
            "(opt.zero_grad()) cleared the gradients after backward() and before step()"
        )
        (found,) = step_without_gradient(step("zero", calls=(BACKWARD,), zeroed=cleared))
        assert "finds only zeros at w0, so Adam steps without any" in found.message

    def test_grad_fills_no_dot_grad(self):
        (found,) = step_without_gradient(step("none", calls=(GRAD,)))
        assert (found.severity, found.related[0].line) == ("warning", 15)
        assert "calls autograd.grad, which returns gradients and leaves .grad as it is" in found.message

    def test_a_loss_that_leads_elsewhere(self):
        (found,) = step_without_gradient(step("none", "none", calls=(BACKWARD,)))
        assert found.message.endswith("line 15 (loss.backward()) does not lead to any of them")

    def test_before_any_backward_it_is_an_info(self):
        (found,) = step_without_gradient(step("none"))
        assert (found.severity, found.message.endswith("no backward call came before it")) == ("info", True)

    @pytest.mark.parametrize("gradients", [["some"], ["none", "some"], ["zero"], []])
    def test_steps_with_something_to_do(self, gradients):
        assert list(step_without_gradient(step(*gradients, calls=(BACKWARD,)))) == []


class TestOrphans:
    def test_parameters_that_only_the_optimizer_holds(self):
        (found,) = orphans(step("none", "none", held=False, calls_before=2))
        assert (found.kind, found.severity, found.leaf, found.line) == ("orphan-parameter", "warning", "w0, w1", 20)
        assert found.message == (
            "line 20 (opt.step()) steps w0, w1, which no module and no variable holds any more and which get no gradient: "
            "they were replaced after Adam was made"
        )

    @pytest.mark.parametrize(("gradient", "held", "ever"), [("none", True, False), ("some", False, True), ("none", False, True)])
    def test_parameters_that_are_held_or_have_had_a_gradient(self, gradient, held, ever):
        assert list(orphans(step(gradient, held=held, ever=ever))) == []
