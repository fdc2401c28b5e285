"""A pass that does not fit into memory when all of it is held: the stop says so, and the script's own call runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from played import calls_in, gradscope

from gradscope.debuggee import explore


def test_the_call_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(explore, "run_engine", full)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with gradscope(stop_at="first") as link:
        (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0]
    [one] = calls_in(link.reports)
    assert [refused.what for refused in one.refused] == [explore.NO_MEMORY] * 3
    assert one.refused[0].why == "CUDA out of memory. Tried to allocate 2.00 GiB"
    assert one.tapes == []
    assert one.committed is not None
    assert (one.committed.exact, one.committed.error) == ("unchecked", "")
