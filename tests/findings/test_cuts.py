import graphs
import pytest

from gradscope.findings import diagnose
from gradscope.findings.cut_kinds import kind_of
from gradscope.findings.finding import Related
from gradscope.model.facts import Cut
from gradscope.model.places import CodePlace, Origin

FILE = "/home/ada/gan.py"
CALL = Related(FILE, 30, "the call")


def origin(line, code, file=FILE, **more):
    return Origin(file, line, "<module>", code=code, **more)


def trained(**leaves):
    """loss = mean(head(x)), with more leaves that the graph does not hold: by name, what else is known of each."""
    drawing = graphs.Drawing()
    head = drawing.leaf("head.weight", owner="SGD[0]")
    for name, more in leaves.items():
        drawing.leaf(name.replace("__", "."), reached=False, **more)
    product = drawing.node("MmBackward0", origin=drawing.origin(FILE, 20, "y = x @ w"))
    drawing.edge(product, head)
    mean = drawing.node("MeanBackward0", (), drawing.origin(FILE, 21, "loss = y.mean()"))
    drawing.edge(mean, product)
    drawing.root(mean)
    return drawing


def told(drawing, *cuts, kinds=("cut",), call=CALL):
    graph = drawing.graph()
    graph.columns.facts.cuts = list(cuts)
    found = diagnose(graph, drawing.tape(graph, [(1.0,)]), call=call)
    return [one for one in found if one.kind in kinds]


def test_a_cut_names_the_leaves_behind_it_and_its_line():
    drawing = trained(enc__weight={"owner": "SGD[0]"}, enc__bias={"owner": "SGD[0]"})
    made = origin(17, "z = enc(x).detach()", expression="enc(x).detach()")
    (found,) = told(drawing, Cut("detach", made, leaves=(1, 2), roots=(0,)))
    assert (found.severity, found.leaf, found.file, found.line) == ("warning", "enc.weight, enc.bias", FILE, 30)
    assert found.related == (Related(FILE, 17, "enc(x).detach()"),)
    assert found.message == "enc.weight, enc.bias get no gradient: line 17 (z = enc(x).detach()) cuts the graph with detach()"


def test_each_leaf_behind_it_is_missing_with_the_same_place():
    drawing = trained(enc__weight={"owner": "SGD[0]"})
    (found,) = told(drawing, Cut("detach", origin(17, "z = enc(x).detach()"), (1,), (0,)), kinds=("missing-gradient",))
    assert found.message == (
        "enc.weight gets no gradient, though SGD[0] steps it: the graph is cut at line 17 (z = enc(x).detach())"
    )
    assert found.related == (Related(FILE, 17, "z = enc(x).detach()"),)


def test_a_network_of_another_optimizer_is_detached_on_purpose():
    drawing = trained(G__weight={"owner": "opt_G.Adam[0]"})
    found = told(drawing, Cut("detach", origin(17, "fake = G(z).detach()"), (1,), (0,)), kinds=("cut", "missing-gradient"))
    assert {one.severity for one in found} == {"info"}


def test_a_cut_of_leaves_that_are_reached_is_none():
    assert told(trained(), Cut("item", origin(31, "print(loss.item())"), (0,))) == []
    assert told(trained(), Cut("detach", origin(17, "target = net(x).detach()"), (0,), (0,))) == []


def test_frozen_leaves_want_none():
    drawing = trained(enc__weight={"requires_grad": False})
    assert told(drawing, Cut("no_grad", origin(17, "f = enc(x)"), (1,), (0,))) == []


def test_what_the_root_came_of_weighs_more_than_what_was_printed():
    drawing = trained(enc__weight={"owner": "SGD[0]"})
    printed = Cut("item", origin(12, "print(other.item())"), (1,))
    (found,) = told(drawing, printed, Cut("data", origin(17, "z = enc(x).data"), (1,), (0,)))
    assert found.related[0].line == 17


def test_of_several_that_may_be_meant_none_is_claimed():
    drawing = trained(enc__weight={"owner": "SGD[0]"})
    places = [Cut("detach", origin(line, "a = b.detach()"), (1,)) for line in (12, 13)]
    found = told(drawing, *places)
    assert [(one.severity, one.related[0].line) for one in found] == [("info", 12), ("info", 13)]
    assert found[0].message == (
        "enc.weight gets no gradient, maybe because line 12 (a = b.detach()) cuts the graph with detach()"
    )


def test_plain_numbers_may_have_been_for_printing_only():
    drawing = trained(enc__weight={"owner": "SGD[0]"})
    (found,) = told(drawing, Cut("item", origin(12, "print(a.item())"), (1,)))
    assert (found.severity, "maybe" in found.message) == ("info", True)


def test_a_cut_in_another_file_is_named_with_it():
    drawing = trained(enc__weight={"owner": "SGD[0]"})
    (found,) = told(drawing, Cut("data", origin(5, "return out.data", "/home/ada/net.py"), (1,), (0,)))
    assert "net.py:5 (return out.data) cuts the graph with .data" in found.message


def with_terms(constant, line=25):
    """loss = y.mean() + weight * penalty, whose second term has a graph or not."""
    drawing = trained()
    mean = drawing.roots.pop().node
    total = drawing.node("AddBackward0", (), drawing.origin(FILE, line, "loss = a + 10 * penalty"))
    drawing.edge(total, mean)
    if not constant:
        second = drawing.node("MulBackward0", ())
        drawing.edge(second, mean)
        drawing.edge(total, second)
    drawing.root(total)
    return drawing


GRAD = origin(23, "g, = torch.autograd.grad(y.sum(), x)")


class TestLostTerms:
    def test_a_penalty_of_constants(self):
        (found,) = told(with_terms(constant=True), Cut("no_create_graph", GRAD, (0,), (0,)))
        assert (found.severity, found.related[0].line, found.leaf) == ("warning", 23, "")
        assert found.message == (
            "a term of loss is a constant that trains nothing: line 23 (g, = torch.autograd.grad(y.sum(), x)) differentiates "
            "without create_graph=True, so the gradients that it gives are constants"
        )
        assert "create_graph=True" in found.hint

    def test_it_may_be_that_term(self):
        (found,) = told(with_terms(constant=True), Cut("no_create_graph", GRAD, (0,)))
        assert (found.severity, "may be a constant" in found.message) == ("info", True)

    def test_leaves_that_were_differentiated_for_by_themselves(self):
        drawing = trained(x={"kind": "tensor"})
        assert told(drawing, Cut("no_create_graph", GRAD, (1,))) == []

    def test_gradients_that_are_used_otherwise(self):
        """An adversarial input, a meta-learner's step: constants are what is wanted."""
        assert told(with_terms(constant=False), Cut("no_create_graph", GRAD, (0,), (0,))) == []
        assert told(trained(), Cut("no_create_graph", GRAD, (0,), (0,))) == []

    def test_a_baseline_is_detached_on_purpose(self):
        assert told(with_terms(constant=True), Cut("detach", origin(23, "b = y.detach()"), (0,), (0,))) == []

    def test_numbers_that_were_added(self):
        (found,) = told(with_terms(constant=True), Cut("copy", origin(23, "p = torch.tensor([y.sum()])"), (0,), (0,)))
        assert (found.severity, "makes a new tensor of the values alone" in found.message) == ("info", True)

    @pytest.mark.parametrize("code", ["penalty = sum(p.norm().item() for p in ps)", "penalty += y.item()", "a + 10 * y.item()"])
    def test_plain_numbers_that_the_sum_names(self, code):
        line = 25 if code.startswith("a") else 23
        (found,) = told(with_terms(constant=True), Cut("item", origin(line, code), (0,)))
        assert (found.severity, found.related[0].line) == ("info", line)
        assert found.message.startswith("a term of loss is a constant that trains nothing: ")

    @pytest.mark.parametrize("code", ["print(y.item())", "penalties.append(y.item())", "weight = y.item()", "pen = y.item()"])
    def test_plain_numbers_of_which_it_says_nothing(self, code):
        assert told(with_terms(constant=True), Cut("item", origin(23, code), (0,))) == []


@pytest.mark.parametrize(
    ("kind", "does", "hint"),
    [
        ("data", ".data", "detach()"),
        ("no_grad", "no_grad", "requires_grad_(False)"),
        ("inference_mode", "inference mode", "inference_mode"),
        ("copy", "values alone", "torch.stack"),
        ("parameter", "new leaf", "assign the very Parameter"),
        ("flat", "no derivative", "softmax"),
        ("checkpoint", "none of whose inputs", "use_reentrant=False"),
        ("numpy", "NumPy", "torch's own functions"),
        ("item", "plain Python numbers", "torch.stack"),
        ("float", "plain Python numbers", "torch.stack"),
        ("something new", "cuts the graph", "graph"),
    ],
)
def test_each_kind_has_words_and_a_cure(kind, does, hint):
    words = kind_of(Cut(kind, origin(1, "a = b")))
    assert does in words.does
    assert hint in words.hint


def test_a_sample_of_a_distribution():
    frames = (CodePlace("/lib/torch/distributions/normal.py", 70, "Normal.sample"),)
    made = origin(17, "z = q.sample()", torch_function="torch.normal", frames=frames)
    assert "rsample()" in kind_of(Cut("no_grad", made)).hint
    assert "rsample()" not in kind_of(Cut("no_grad", origin(17, "z = model.sample(4)"))).hint


def test_a_copy_of_a_network():
    words = kind_of(Cut("parameter", origin(9, "model = copy.deepcopy(net)")))
    assert "copies with deepcopy" in words.does
    assert "copy's parameters" in words.hint
