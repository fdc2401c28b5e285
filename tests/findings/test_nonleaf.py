from gradscope.findings.finding import Related
from gradscope.findings.nonleaf import nonleaf_grad
from gradscope.model.facts import GradRead
from gradscope.model.places import Origin

FILE = "/home/ada/a.py"
READ = Origin(FILE, 17, "<module>", code="print(hidden.grad)")
MADE = Origin(FILE, 14, "<module>", code="hidden = torch.tanh(y)")


def test_an_inner_tensor():
    (found,) = nonleaf_grad(GradRead("hidden", READ, MADE, "TanhBackward0", calls_before=1, call=1, node=3, norm=0.1672))
    assert (found.kind, found.severity, found.leaf, found.line) == ("nonleaf-grad", "warning", "hidden", 17)
    assert (found.node, found.op, found.value, found.call) == (3, "TanhBackward0", 0.1672, 1)
    assert found.related == (Related(FILE, 14, "makes hidden"),)
    assert found.message == (
        "hidden.grad is None: hidden is no leaf but made at line 14 (hidden = torch.tanh(y)), and a tensor made of others keeps "
        "no gradient; a gradient of norm 0.167 passed there in backward call 1"
    )
    assert found.hint.startswith("hidden.retain_grad() before backward() keeps it")


def test_a_cast_of_a_leaf():
    (found,) = nonleaf_grad(GradRead("noise", READ, MADE, "ToCopyBackward0", 1, leaf="leaf 0"))
    assert found.message.endswith("; it went on to the leaf that it was made of, which has no name")
    (found,) = nonleaf_grad(GradRead("noise", READ, MADE, "ToCopyBackward0", 1, leaf="x", leaf_origin=Origin(FILE, 12, "f")))
    assert found.message.endswith("; it went on to the leaf x")
    assert found.related[1] == Related(FILE, 12, "makes x, the leaf")


def test_before_any_call_it_is_an_info():
    (found,) = nonleaf_grad(GradRead("", None))
    assert (found.severity, found.message.endswith("no backward call has run yet")) == ("info", True)


def test_a_leaf_computed_with_at_once():
    made = Origin(FILE, 3, "<module>", code="w = torch.randn(3, requires_grad=True) * 0.1")
    (found,) = nonleaf_grad(GradRead("w", READ, made, "MulBackward0", calls_before=1))
    assert found.hint == (
        "compute first and make the result the leaf: w = (...).requires_grad_(), with no requires_grad inside; or "
        "w.retain_grad() before backward() keeps it"
    )
