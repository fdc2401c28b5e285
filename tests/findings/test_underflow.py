from array import array

import drawn_passes as passes
import pytest
from drawn_passes import FILE

from gradscope.findings import diagnose
from gradscope.model.tape import Tape


def halved(drawing, node, sent, dtype="float16", seed=(1e-9, 1e-9, 1e-2)):
    """The pass, with what a node sends, and what comes below it, in half precision."""
    graph = drawing.graph()
    drawing.locals[node, 0] = lambda arrived: sent
    columns = drawing.tape(graph, [seed]).columns
    tape, tensors = Tape(columns, graph), columns.tensors
    lower = {
        tape.contribution_tensor[index] for step in range(tape.step_of(node), tape.steps + 1) for index in tape.sent_range(step)
    }
    tensors.dtypes.append(dtype)
    numbers = memoryview(tensors.dtype).cast("i").tolist()
    tensors.dtype = array(
        "i", [len(tensors.dtypes) - 1 if place in lower else one for place, one in enumerate(numbers)]
    ).tobytes()
    return diagnose(graph, Tape(columns, graph))


def cast(op="ToCopyBackward0"):
    return passes.chain((op, 17, "loss = out.float().mean()"))


def test_a_cast_that_flushes_elements_to_zero():
    (found,) = halved(cast(), 1, (0.0, 0.0, 1e-2))
    assert (found.kind, found.severity, found.op, found.file, found.line) == ("underflow", "warning", "ToCopyBackward0", FILE, 17)
    assert found.message == (
        "ToCopyBackward0 at line 17 (loss = out.float().mean()) casts to float16, whose smallest number is 6e-08: "
        "2 of 3 elements of the gradient that were not zero become zero there"
    )
    assert "GradScaler" in found.hint


def test_where_all_become_zero_that_is_no_zero_gradient_beside_it():
    assert [found.kind for found in halved(cast(), 1, (0.0, 0.0, 0.0), seed=(1e-9,) * 3)] == ["underflow"]


def test_a_small_share_is_an_info():
    assert [found.severity for found in halved(cast(), 1, (0.0, 1e-2, 1e-2))] == ["info"]


@pytest.mark.parametrize(
    ("sent", "dtype", "seed"),
    [
        ((1e-9, 1e-9, 1e-2), "float16", (1e-9, 1e-9, 1e-2)),
        ((0.0, 0.0, 1e-2), "float32", (1e-9, 1e-9, 1e-2)),
        ((0.0, 0.0, 1.0), "float16", (0.0, 0.0, 1.0)),
    ],
)
def test_nothing_lost_or_another_dtype_is_none(sent, dtype, seed):
    assert halved(cast(), 1, sent, dtype, seed) == []


def test_a_product_counts_only_where_no_factor_is_zero():
    product = cast("MulBackward0")
    assert [found.kind for found in halved(product, 1, (0.0, 0.0, 1e-2))] == ["underflow"]
    masked = cast("MulBackward0")
    masked.locals[1, 0] = (0.0, 0.0, 1.0)
    assert halved(masked, 1, (0.0, 0.0, 1e-2)) == []
