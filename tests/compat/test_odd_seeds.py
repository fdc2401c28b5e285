"""Seeds that torch refuses, or takes though they are strange: the stop says so, and another one can be tried."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from played import Seen, calls_in, gradscope

from gradscope.protocol import messages as m

ONES = torch.ones(3)


def seen_of(seed: Any) -> tuple[Seen, str, list[float] | None]:
    """What the stop shows, the error that the script gets, the gradient that it gets."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    error = ""
    with gradscope(stop_at="first") as link:
        try:
            (x * 2).backward(seed)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    [one] = calls_in(link.reports)
    assert "fault of gradscope" not in "".join(refused.hint for refused in one.refused)
    return one, error, None if x.grad is None else x.grad.to_dense().tolist()


@pytest.mark.parametrize(
    "seed",
    [ONES.double(), ONES.half(), ONES.long(), ONES.to_sparse(), torch.ones(1).expand(3), torch.ones(3, requires_grad=True)],
    ids=["float64", "half", "integer", "sparse", "expanded", "with a graph"],
)
def test_seeds_that_torch_takes(seed: torch.Tensor) -> None:
    one, error, gradient = seen_of(seed)
    assert (error, gradient) == ("", [2.0, 2.0, 2.0])
    assert one.stopped.reason == "call"
    assert [tape.exact for tape in one.tapes] == ["true"] * 3
    assert one.committed is not None
    assert one.committed.exact == "true"


@pytest.mark.parametrize(
    "seed",
    [torch.ones(2), torch.ones(3, dtype=torch.complex64), torch.ones(3, device="meta")],
    ids=["shape", "complex", "device"],
)
def test_seeds_that_torch_refuses(seed: torch.Tensor) -> None:
    """Also where the engine does, not the check before it: there is one stop, with the root and the seed side by side."""
    one, error, gradient = seen_of(seed)
    assert gradient is None
    assert one.stopped.reason == "seed"
    assert error == f"RuntimeError: {one.stopped.detail}"
    assert [refused.what.splitlines()[0] for refused in one.refused] == ["the seed does not fit"] * 2
    assert one.committed is not None
    assert (one.committed.exact, one.committed.reason, one.committed.error) == ("unchecked", "no pass was recorded", error)


@pytest.mark.parametrize("seed", ["ones", [1, 2, 3]], ids=["text", "numbers"])
def test_what_is_no_tensor(seed: object) -> None:
    """Another seed can be tried out all the same."""
    one, error, gradient = seen_of(seed)
    assert error.startswith("TypeError: gradients can be either Tensors or None")
    assert (gradient, one.stopped.reason) == (None, "seed")
    assert [tape.exact for tape in one.tapes] == ["true", "true"]
    assert one.committed is not None
    assert one.committed.reason == "no pass was recorded"


def test_fewer_seeds_than_roots() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with gradscope(stop_at="first") as link, pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        torch.autograd.backward([x * 2, x * 3], [ONES])
    [one] = calls_in(link.reports)
    assert one.tapes[0].failure is not None
    assert [tape.exact for tape in one.tapes[1:]] == ["true", "true"]


def test_an_edited_seed_saves_the_call() -> None:
    """Resumed with a seed that fits, a call that torch's engine would have refused runs."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with gradscope(stop_at="first") as link:
        link.more = [m.Explore(7, [m.SeedText("1,10,100")]), m.Resume(edited=True)]
        (x * 2).backward(torch.ones(3, device="meta"))
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 20.0, 200.0]
    [one] = calls_in(link.reports)
    assert one.committed is not None
    assert (one.committed.exact, one.committed.edited) == ("true", True)
