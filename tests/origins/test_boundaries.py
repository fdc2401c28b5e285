"""Where a tensor was cut off from its graph is remembered, with the line, and without keeping it."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest
import torch
from origin_ways import install

from gradscope.debuggee import boundaries as boundaries_module
from gradscope.debuggee.boundaries import Boundaries
from gradscope.debuggee.mode_origins import ModeOrigins


@pytest.fixture
def origins(by_mode: ModeOrigins) -> ModeOrigins:
    return by_mode


def told(origins: ModeOrigins, tensor: torch.Tensor) -> tuple[str, str, int]:
    """Kind, statement, and number of the node cut off."""
    found = origins.boundaries.of(tensor)
    assert found is not None
    assert found.certain
    return found.kind, origins.places.origin(found.place).code, found.source


def test_detach_and_data(origins: ModeOrigins) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    a = y.detach()
    b = (x * 3).data
    number = y.grad_fn._sequence_nr()
    assert told(origins, a) == ("detach", "a = y.detach()", number)
    assert told(origins, b)[:2] == ("data", "b = (x * 3).data")
    assert told(origins, a.view(3, 1))[:2] == ("detach", "a = y.detach()")
    assert origins.boundaries.of(y) is None
    assert origins.boundaries.of(torch.ones(3)) is None


def test_what_a_leaf_was_cut_from_is_not_cut_itself(origins: ModeOrigins) -> None:
    weight = torch.ones(3, requires_grad=True)
    copy = weight.detach()
    assert origins.boundaries.of(weight) is None
    assert told(origins, copy) == ("detach", "copy = weight.detach()", -1)
    fresh = weight.data.clone().requires_grad_()
    assert told(origins, fresh)[0] == "data"


def test_no_grad_and_inference_mode_and_what_follows_in_them(origins: ModeOrigins) -> None:
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        first = x * 2
        h = first.sin()
        parts = h.chunk(3)
        unrelated = torch.ones(3) * 2
    with torch.inference_mode():
        i = x + 1
    for one in (first, h, parts[1]):
        assert told(origins, one)[:2] == ("no_grad", "first = x * 2")
    assert told(origins, i)[:2] == ("inference_mode", "i = x + 1")
    assert origins.boundaries.of(unrelated) is None


def test_what_a_node_saved_is_known_again(origins: ModeOrigins) -> None:
    x = torch.ones(3, requires_grad=True)
    w = torch.ones(3, requires_grad=True)
    h = (x * 2).detach()
    out = w * h
    del h
    assert told(origins, out.grad_fn._saved_other)[:2] == ("detach", "h = (x * 2).detach()")


def test_several_cuts_of_one_storage(origins: ModeOrigins) -> None:
    y = torch.ones(3, requires_grad=True) * 2
    a = y.detach()
    b = y.detach()
    assert (told(origins, a)[1], told(origins, b)[1]) == ("a = y.detach()", "b = y.detach()")
    assert told(origins, a.view(3, 1))[1] == "a = y.detach()"
    origins.pause()
    unseen = a.view(3, 1)
    origins.resume()
    other = origins.boundaries.of(unseen)
    assert other is not None
    assert not other.certain


@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_casts(origins: ModeOrigins) -> None:
    y = torch.ones(1, requires_grad=True) * 2
    number = y.grad_fn._sequence_nr()
    for _ in range(3):
        v = y.item()
    w = [float(y), torch.ones(1).item(), y.tolist(), y.detach().numpy()]
    found = [(cast.kind, origins.places.origin(cast.place).code, cast.source) for cast in origins.boundaries.casts()]
    listed = "w = [float(y), torch.ones(1).item(), y.tolist(), y.detach().numpy()]"
    assert found == [("item", "v = y.item()", number), ("float", listed, number), ("tolist", listed, number)]
    assert w[0] == v


def test_a_backward_pass_cuts_nothing(origins: ModeOrigins) -> None:
    x = torch.ones(3, requires_grad=True)
    seen: list[torch.Tensor] = []
    y = x * 2
    y.register_hook(lambda g: seen.append(x * g))
    y.sum().backward()
    assert origins.boundaries.of(seen[0]) is None


def test_nothing_is_kept_alive_and_memory_is_bounded(origins: ModeOrigins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundaries_module, "_MOST", 20)
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    a = y.detach()
    dead = [weakref.ref(one) for one in (y, a)]
    del y, a
    gc.collect()
    assert [one() for one in dead] == [None, None]
    kept = [(x * 2).detach() for _ in range(50)]
    table: Boundaries = origins.boundaries
    assert len(table._cuts) <= 20
    assert table.of(kept[-1]) is not None
    assert table.of(kept[0]) is None


def test_line_events_tell_of_calls_that_cut() -> None:
    table = install("lines")
    y = torch.ones(3, requires_grad=True) * 2
    frame = sys._getframe()
    for function, first in ((torch.Tensor.detach, y), (torch.Tensor.item, y)):
        assert table.boundaries.called(function, first, frame)
    assert not table.boundaries.called(len, y, frame)
    assert not table.boundaries.called([].append, y, frame)
    assert not table.boundaries.called(float, 1.0, frame)
    a = y.detach()
    table.remove()
    found = table.boundaries.of(a)
    assert found is not None
    assert (found.kind, found.source) == ("detach", y.grad_fn._sequence_nr())
    assert table.boundaries.of(y) is None
    assert [cast.kind for cast in table.boundaries.casts()] == ["item"]


def test_line_events_tell_of_calls_whose_results_they_do_not_see() -> None:
    table = install("lines")
    frame = sys._getframe()
    net = torch.nn.Linear(2, 1)
    y = net(torch.ones(1, 2))
    called = table.boundaries.called
    assert called(net, torch.ones(1, 2), frame)
    assert table.boundaries.since() == []
    with torch.no_grad():
        assert called(net, torch.ones(1, 2), frame)
    assert called(torch.tensor, [y.sum(), 1.0], frame)
    assert called(torch.Tensor.argmax, y, frame)
    assert called(torch.tensor, [1.0], frame)
    normal = torch.distributions.Normal(y, torch.ones(1), validate_args=False)
    assert called(torch.distributions.Normal.sample, normal, frame)
    table.remove()
    cuts = table.boundaries.since()
    assert [cut.kind for cut in cuts] == ["no_grad", "copy", "flat", "no_grad"]
    for cut in cuts:
        assert {id(leaf()) for leaf in cut.leaves} == {id(net.weight), id(net.bias)}
