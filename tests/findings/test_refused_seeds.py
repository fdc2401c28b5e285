from gradscope.findings.finding import Related
from gradscope.findings.refused_seeds import refused_seed
from gradscope.model.columns import Root
from gradscope.model.facts import SeedGiven

CALL = Related("/home/ada/a.py", 9, "J.backward()")
SCALAR = "grad can be implicitly created only for scalar outputs"


def told(detail, seeds, *roots):
    roots = [Root(0, 0, f"{name}", shape, dtype, "cpu") for name, shape, dtype in roots]
    (found,) = refused_seed(roots, seeds, detail, CALL)
    assert (found.severity, found.line) == ("error", 9)
    return found


def test_a_vector_needs_a_seed():
    found = told(SCALAR, [None], ("J", (5,), "float32"))
    assert found.kind == "nonscalar-root"
    assert found.message == (
        "J has 5 elements (shape (5,), float32), and a call without a seed differentiates one number: the seed says how much "
        "each element counts"
    )
    assert all(word in found.hint for word in ("J.mean()", "J.sum()", "torch.ones_like(J)", "one-hot"))


def test_the_root_without_one_is_named():
    assert told(SCALAR, [None, None], ("a", (), "float32"), ("b", (2,), "float32")).message.startswith("b has 2 elements")
    assert told(SCALAR, [SeedGiven((3,), "float32"), None], ("a", (3,), "float32"), ("b", (2,), "float32")).message.startswith(
        "b"
    )


def test_a_complex_scalar():
    found = told("grad can be implicitly created only for real scalar outputs", [None], ("z", (), "complex64"))
    assert (found.kind, found.message.startswith("z is complex (complex64)")) == ("nonscalar-root", True)


def test_a_seed_of_another_shape():
    found = told("Mismatch in shape", [SeedGiven((1,), "float32", "torch.ones(1)")], ("loss", (), "float32"))
    assert found.kind == "seed-mismatch"
    assert found.message == "torch.ones(1) has shape (1,) (float32), but its root loss has shape () (float32)"
    assert "torch.tensor(1.0) is one" in found.hint
    found = told("Mismatch in shape", [SeedGiven((3, 1), "float32", "v")], ("J", (3,), "float32"))
    assert found.hint == "torch.ones_like(J) has the right shape, and so has v.reshape(J.shape)"
    assert told("Mismatch in shape", [SeedGiven((3,), "float32")], ("J", (4,), "float32")).message.startswith(
        "the seed has shape (3,)"
    )


def test_a_complex_seed_of_a_real_root():
    found = told("Mismatch in dtype", [SeedGiven((2,), "complex64", "v")], ("J", (2,), "float32"))
    assert found.message == "v is complex64, but its root J is float32: where one is complex, so must be the other"


def test_what_is_not_understood_is_told_in_torchs_words():
    assert told("something else", [], ("J", (2,), "float32")).message == "something else"
