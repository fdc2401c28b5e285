import drawn_passes as passes
from drawn_passes import FILE

from gradscope.findings import diagnose
from gradscope.findings.finding import Related
from gradscope.model.places import UNKNOWN

METADATA = """Recomputed values for the following tensors have different metadata than during the forward pass.
tensor at position 0:
saved metadata: {'shape': torch.Size([6, 4]), 'dtype': torch.float32, 'device': device(type='cpu')}
recomputed metadata: {'shape': torch.Size([5, 4]), 'dtype': torch.float32, 'device': device(type='cpu')}

Tip: to see a more detailed error message, either pass `debug=True` ..."""
NUMBERS = """torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.
Number of tensors saved during forward: 8
Number of tensors saved during recomputation: 7"""


def told(text, kind="CheckpointError", node=2):
    drawing = passes.chain(("SliceBackward0", 18, "picked = x[: self.keep]"), ("PowBackward0", 20, "return picked.pow(2)"))
    graph, tape = passes.failed(drawing, node, text, kind)
    return [one for one in diagnose(graph, tape) if one.kind == "recompute-mismatch"]


def test_another_shape_with_the_lines_that_run_again():
    (found,) = told(METADATA)
    assert (found.severity, found.op, found.line) == ("error", "PowBackward0", 20)
    assert found.related == (Related(FILE, 18, "runs again in the checkpoint"),)
    assert found.message == (
        "the checkpoint that PowBackward0 at line 20 (return picked.pow(2)) belongs to ran its forward again, and a tensor that "
        "had shape [6, 4] in the first run has shape [5, 4] in the second"
    )


def test_another_dtype():
    saved, recomputed, rest = METADATA.replace("[5, 4]", "[6, 4]").partition("recomputed")
    (found,) = told(saved + recomputed + rest.replace("float32", "bfloat16"))
    assert found.message.endswith("a tensor that had dtype float32 in the first run has dtype bfloat16 in the second")


def test_another_number_of_tensors():
    (found,) = told(NUMBERS)
    assert found.message.endswith("and the second run saves 7 tensors where the first saved 8")


def test_without_a_node():
    (found,) = told(NUMBERS, node=UNKNOWN)
    assert found.message.startswith("a checkpoint ran its forward again, and the second run saves 7 tensors")


def test_other_failures_are_none():
    assert told("shapes do not fit", "RuntimeError") == []
