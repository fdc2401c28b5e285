"""Which line wrote last into the memory of a tensor."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from gradscope.debuggee import writes as writes_module
from gradscope.debuggee.mode_origins import ModeOrigins
from gradscope.debuggee.writes import LastWrite

pytestmark = pytest.mark.parametrize("origins", ["mode"], indirect=True)


def told(origins: ModeOrigins, write: LastWrite | None) -> tuple[str, str]:
    assert write is not None
    return origins.places.origin(write.place).code, write.function


def number(tensor: torch.Tensor) -> int:
    node: Any = tensor.grad_fn
    return int(node._sequence_nr())


def test_methods_operators_and_assignments(origins: ModeOrigins) -> None:
    a = torch.ones(3, requires_grad=True)
    writes = origins.writes
    y = a.sigmoid()
    assert writes.to(y, number(y)) is None
    z = y.sin()
    since = number(z)
    y.mul_(2)
    assert told(origins, writes.to(y, since)) == ("y.mul_(2)", "Tensor.mul_")
    y += 1
    assert told(origins, writes.to(y, since)) == ("y += 1", "Tensor.add_")
    y[0] = 5
    assert told(origins, writes.to(y, since)) == ("y[0] = 5", "Tensor.__setitem__")
    torch.nn.functional.relu(y, inplace=True)
    assert told(origins, writes.to(y, since)) == ("torch.nn.functional.relu(y, inplace=True)", "torch.nn.functional.relu_")
    assert writes.to(y, since + 50) is None


def test_an_operation_in_place_does_not_write_into_what_it_saves_itself(origins: ModeOrigins) -> None:
    a = torch.ones(3, requires_grad=True)
    y = (a * 2).relu_()
    assert origins.writes.to(y, number(y)) is None
    assert told(origins, origins.writes.to(y, number(y) - 1)) == ("y = (a * 2).relu_()", "Tensor.relu_")


def test_through_data_and_detach_and_under_no_grad(origins: ModeOrigins) -> None:
    w = torch.ones(3, requires_grad=True)
    out = w.sigmoid()
    version = out._version
    out.data.zero_()
    found = origins.writes.to(out.grad_fn._saved_result, number(out))
    assert told(origins, found) == ("out.data.zero_()", "Tensor.zero_")
    assert out._version == version
    out.detach().add_(1)
    assert told(origins, origins.writes.to(out, number(out))) == ("out.detach().add_(1)", "Tensor.add_")
    with torch.no_grad():
        w -= 1
    assert told(origins, origins.writes.to(w, number(out))) == ("w -= 1", "Tensor.sub_")
    w.data = torch.zeros(3)
    assert told(origins, origins.writes.to(w, number(out))) == ("w.data = torch.zeros(3)", "Tensor.data")


def test_only_what_overlaps(origins: ModeOrigins) -> None:
    buffer = torch.zeros(4, 3)
    w = torch.ones(3, requires_grad=True)
    out = w * buffer[0]
    since = number(out)
    saved = out.grad_fn._saved_other
    buffer[2] = 1
    assert origins.writes.to(saved, since) is None
    elsewhere = origins.writes.to(saved, since, anywhere=True)
    assert elsewhere is not None
    assert (told(origins, elsewhere), elsewhere.overlaps) == (("buffer[2] = 1", "Tensor.__setitem__"), False)
    buffer[:, 1] = 3
    assert told(origins, origins.writes.to(saved, since)) == ("buffer[:, 1] = 3", "Tensor.__setitem__")
    buffer[torch.tensor([3])] = 4
    assert told(origins, origins.writes.to(saved, since))[0] == "buffer[torch.tensor([3])] = 4"


def test_out_and_lists(origins: ModeOrigins) -> None:
    a, b = torch.zeros(3), torch.zeros(3)
    torch.add(torch.ones(3), 1, out=a)
    assert told(origins, origins.writes.to(a, -1)) == ("torch.add(torch.ones(3), 1, out=a)", "torch.add")
    torch._foreach_add_([a, b], 1)
    assert told(origins, origins.writes.to(b, -1)) == ("torch._foreach_add_([a, b], 1)", "torch._foreach_add_")


def test_inside_a_custom_forward(origins: ModeOrigins) -> None:
    class Edit(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            x.mul_(2)
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g

    a = torch.ones(3, requires_grad=True)
    y = a.exp()
    Edit.apply(y)
    assert told(origins, origins.writes.to(y, number(y))) == ("x.mul_(2)", "Tensor.mul_")


def test_what_writes_nothing(origins: ModeOrigins) -> None:
    y = torch.ones(3)
    y.requires_grad_()
    torch.nn.functional.relu(y)
    torch.nn.functional.dropout(y, 0.5, True, False)
    assert origins.writes.to(y, -1) is None


def test_writes_that_others_tell(origins: ModeOrigins) -> None:
    w = torch.ones(3, requires_grad=True)
    out = w.exp()
    origins.writes.note(w, 0, "SGD.step")
    found = origins.writes.to(w, number(out))
    assert found is not None
    assert (found.function, found.number) == ("SGD.step", number(out) + 1)


def test_nothing_is_kept_alive_and_memory_is_bounded(origins: ModeOrigins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes_module, "_MOST", 20)
    a = torch.ones(3).zero_()
    dead = weakref.ref(a)
    del a
    gc.collect()
    assert dead() is None
    kept = [torch.ones(3).zero_() for _ in range(50)]
    assert len(origins.writes._known) <= 20
    for _ in range(50):
        kept[-1].add_(1)
    address = int(kept[-1].untyped_storage()._cdata)
    assert len(origins.writes._known[address][1]) == 8
    assert origins.writes.to(kept[0], -1) is None
