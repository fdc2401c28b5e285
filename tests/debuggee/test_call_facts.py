"""What the debuggee knows of a backward call, from live torch."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from gradscope.debuggee import optimizer_events
from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.history import History
from gradscope.debuggee.intercept import Interception
from gradscope.debuggee.moments import Moment
from gradscope.debuggee.origins import install_mode
from gradscope.debuggee.subject import of_call
from gradscope.model.columns import GraphColumns
from gradscope.model.facts import CallFacts


class Watched:
    """Looks at every backward call but those named in `passes`, as a run does."""

    def __init__(self) -> None:
        self.origins = install_mode(torch)
        self.history = History(torch, self.origins)
        self.seen: dict[int, GraphColumns] = {}
        self.passes: set[int] = set()
        self.interception = Interception(self._on_call)
        self.interception.install()
        self.back = optimizer_events.watch(self)

    def _on_call(self, call: BackwardCall) -> Any:
        event = self.history.begins(call)
        if call.number not in self.passes:
            self.origins.pause()
            subject = of_call(call, self.origins, self.history)
            self.seen[call.number] = subject.columns
            subject.release()
            self.origins.resume()
        return self.history.ending(event, call, None)

    def step_begins(self, optimizer: Any, closure: bool, moment: Moment | None) -> None:
        self.history.timeline.stepped(optimizer, moment)

    def step_ended(self, optimizer: Any, frame: Any) -> None:
        pass

    def zero_grad_begins(self, owner: Any, moment: Moment | None, cleared: bool) -> None:
        self.history.timeline.zeroed(owner, moment, cleared)

    def facts(self, call: int) -> CallFacts:
        return self.seen[call].facts

    def leaf(self, call: int, place: int) -> str:
        return self.seen[call].leaves[place].name

    def close(self) -> None:
        self.back()
        self.interception.uninstall()
        self.origins.remove()


@pytest.fixture
def watched() -> Iterator[Watched]:
    watching = Watched()
    yield watching
    watching.close()


def here() -> int:
    return sys._getframe(1).f_lineno


def test_earlier_calls_and_what_ties_the_graphs(watched: Watched) -> None:
    w = torch.ones(2, requires_grad=True)
    h = torch.zeros(2)
    for _ in range(3):
        h = torch.tanh(h + w)
        h.sum().backward(retain_graph=True)
        line = here() - 1
    first, second, third = (watched.facts(call) for call in (1, 2, 3))
    assert [len(first.earlier), first.old_nodes, first.bridge] == [0, 0, -1]
    assert [(one.number, one.line, one.code, one.retain_graph, one.nodes, one.old_nodes) for one in third.earlier] == [
        (1, line, "h.sum().backward(retain_graph=True)", True, 4, 0),
        (2, line, "h.sum().backward(retain_graph=True)", True, 6, 2),
    ]
    assert third.old_nodes == 4
    columns = watched.seen[3]
    assert columns.ops[memoryview(columns.op).cast("i")[third.bridge]] == "TanhBackward0"
    assert second.earlier == third.earlier[:1]


def test_what_left_a_gradient(watched: Watched) -> None:
    net = nn.Linear(2, 1, bias=False)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        net(torch.ones(3, 2)).sum().backward()
    opt.step()
    step = here() - 1
    net(torch.ones(3, 2)).sum().backward()
    opt.zero_grad(set_to_none=False)
    zero = here() - 1
    net(torch.ones(3, 2)).sum().backward()
    net(torch.ones(3, 2)).sum().backward()
    assert [watched.facts(call).histories for call in (1, 4)] == [[], []]
    [second], [third], [fifth] = (watched.facts(call).histories for call in (2, 3, 5))
    assert (watched.leaf(2, second.leaf), second.filled_by, second.stepped, second.zeroed) == ("net.weight", (1,), None, None)
    assert (third.filled_by, third.unseen, third.stepped_by, third.own_step) == ((1, 2), 0, "SGD", True)
    assert third.stepped is not None
    assert third.stepped.line == step
    assert fifth.zeroed is not None
    assert (fifth.filled_by, fifth.stepped, fifth.zeroed.line) == ((4,), None, zero)


def test_leaves_that_other_calls_have_led_to(watched: Watched) -> None:
    heads = nn.ModuleList(nn.Linear(2, 1, bias=False) for _ in range(3))
    for turn in (0, 1, 0):
        heads.zero_grad()
        heads[turn](torch.ones(3, 2)).sum().backward()
    trained = [[watched.leaf(call, place) for place in watched.facts(call).trained] for call in (1, 2, 3)]
    assert trained == [[], ["heads.0.weight"], ["heads.1.weight"]]


def test_the_step_of_another_optimizer(watched: Watched) -> None:
    generator, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    other = torch.optim.Adam(critic.parameters())
    torch.optim.SGD(generator.parameters(), 0.1)
    critic(generator(torch.ones(1, 2))).sum().backward()
    other.step()
    critic(generator(torch.ones(1, 2))).sum().backward()
    own = {watched.leaf(2, one.leaf): (one.stepped_by, one.own_step) for one in watched.facts(2).histories}
    assert own == {
        "generator.weight": ("Adam", False),
        "generator.bias": ("Adam", False),
        "critic.weight": ("Adam", True),
        "critic.bias": ("Adam", True),
    }


def test_calls_that_went_by_are_counted(watched: Watched) -> None:
    watched.passes = {1, 2}
    w = torch.ones(2, requires_grad=True)
    for _ in range(3):
        (w * 2).sum().backward()
    [history] = watched.facts(3).histories
    assert (history.filled_by, history.unseen) == ((), 2)
    assert [one.nodes for one in watched.facts(3).earlier] == [-1, -1]


def test_an_update_by_hand_is_seen(watched: Watched) -> None:
    w = torch.ones(2, requires_grad=True)
    for update in (0.0, 0.1):
        (w * 2).sum().backward()
        if update:
            with torch.no_grad():
                w -= update * w.grad
    (w * 2).sum().backward()
    [second], [third] = (watched.facts(call).histories for call in (2, 3))
    assert (second.written, third.written, third.stepped) == (False, True, None)


def test_clearing_by_hand_is_seen_at_the_next_call(watched: Watched) -> None:
    w = torch.ones(2, requires_grad=True)
    (w * 2).sum().backward()
    w.grad.zero_()
    (w * 2).sum().backward()
    w.grad = None
    (w * 2).sum().backward()
    assert [watched.facts(call).histories for call in (1, 2, 3)] == [[], [], []]


def test_a_grad_call_fills_nothing(watched: Watched) -> None:
    w = torch.ones(2, requires_grad=True)
    torch.autograd.grad((w * 2).sum(), w)
    w.grad = torch.ones(2)
    (w * 2).sum().backward()
    [history] = watched.facts(2).histories
    assert (history.filled_by, history.unseen) == ((), 0)
    assert [(one.kind, one.number) for one in watched.facts(2).earlier] == [("grad", 1)]


def test_cuts_with_the_leaves_behind_them(watched: Watched) -> None:
    enc, dec = nn.Linear(2, 2), nn.Linear(2, 1)
    h = enc(torch.ones(1, 2)).detach()
    line = here() - 1
    dec(h).sum().backward()
    facts = watched.facts(1)
    assert [
        (cut.kind, cut.origin.line, sorted(watched.leaf(1, leaf) for leaf in cut.leaves), cut.roots) for cut in facts.cuts
    ] == [("detach", line, ["enc.bias", "enc.weight"], ())]


def test_a_root_that_was_cut_off(watched: Watched) -> None:
    w = torch.ones(2, requires_grad=True)
    loss = (w * 2).sum().detach()
    line = here() - 1
    with pytest.raises(RuntimeError):
        loss.backward()
    [cut] = watched.facts(1).cuts
    assert (cut.kind, cut.origin.line, cut.roots, cut.certain) == ("detach", line, (0,), True)
    assert watched.facts(1).flat_roots == {0: "leaf"}


def test_cuts_are_those_of_one_round(watched: Watched) -> None:
    w, v = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    (v * (w * 2).data).sum().backward()
    for _ in range(2):
        (v * (w * 2).detach()).sum().backward()
    kinds = [[cut.kind for cut in watched.facts(call).cuts] for call in (1, 2, 3)]
    assert kinds == [["data"], ["data", "detach"], ["detach"]]


def test_an_integer_root_is_flat(watched: Watched) -> None:
    with pytest.raises(RuntimeError):
        torch.tensor(3).backward()
    assert watched.facts(1).flat_roots == {0: "flat"}


def test_where_gradients_were_switched_off(watched: Watched) -> None:
    w = torch.ones(2, requires_grad=True)
    torch.set_grad_enabled(False)
    line = here() - 1
    try:
        with pytest.raises(RuntimeError):
            (w * 2).sum().backward()
    finally:
        torch.set_grad_enabled(True)
    off = watched.facts(1).grad_mode_off
    assert off is not None
    assert off.line == line
    (w * 2).sum().backward()
    assert watched.facts(2).grad_mode_off is None


def test_a_broadcast_that_grows(watched: Watched) -> None:
    w = torch.ones(3, 1, requires_grad=True)
    (w - torch.ones(3)).sum().backward()
    facts, columns = watched.facts(1), watched.seen[1]
    [one] = facts.broadcasts
    assert (one.shapes, one.result) == (((3, 1), (3,)), (3, 3))
    assert columns.ops[memoryview(columns.op).cast("i")[one.node]] == "SubBackward0"


def test_leaves_on_one_memory(watched: Watched) -> None:
    enc, dec = nn.Linear(3, 2, bias=False), nn.Linear(2, 3, bias=False)
    dec.weight = nn.Parameter(enc.weight.t().detach())
    line = here() - 1
    dec(enc(torch.ones(1, 3))).sum().backward()
    [pair] = watched.facts(1).shared
    assert {watched.leaf(1, pair.leaf), pair.other} == {"enc.weight", "dec.weight"}
    assert pair.origin is not None
    assert pair.origin.line == line


def test_parts_of_one_memory_that_do_not_meet_are_not_shared(watched: Watched) -> None:
    flat = torch.ones(6)
    a, b = nn.Parameter(flat[:3]), nn.Parameter(flat[3:])
    odd, even = nn.Parameter(flat[::2]), nn.Parameter(flat[1::2])
    (a.sum() + b.sum()).backward()
    (odd.sum() + even.sum()).backward()
    net = nn.Linear(2, 2)
    tied = nn.Linear(2, 2)
    tied.weight = net.weight
    tied(net(torch.ones(1, 2))).sum().backward()
    assert [watched.facts(call).shared for call in (1, 2, 3)] == [[], [], []]


def test_a_view_made_later_is_no_part_of_the_graph(watched: Watched) -> None:
    w = torch.ones(3, requires_grad=True)
    rows = w * 2
    torch.autograd.grad(rows.sum(), rows[1], allow_unused=True)
    line = here() - 1
    [view] = watched.facts(1).views
    assert (view.base, watched.leaf(1, view.leaf), view.origin and view.origin.line) == ("rows", "rows[1]", line)


def test_names_of_what_is_alive(watched: Watched) -> None:
    w = torch.ones(3, requires_grad=True)
    hidden = w * 2
    loss = hidden.sum()
    loss.backward()
    columns = watched.seen[1]
    ops = memoryview(columns.op).cast("i")
    assert {columns.ops[ops[node]]: name for node, name in watched.facts(1).names.items()} == {
        "MulBackward0": "hidden",
        "SumBackward0": "loss",
    }


def test_optimizers_that_live(watched: Watched) -> None:
    w = nn.Parameter(torch.ones(3))
    opt = torch.optim.Adam([w])
    w.sum().backward()
    assert "Adam" in watched.facts(1).optimizers
    del opt


def test_what_freed_a_node(watched: Watched) -> None:
    w = torch.ones(2, requires_grad=True)
    shared = w.exp()
    number = shared.grad_fn._sequence_nr()
    shared.sum().backward()
    with pytest.raises(RuntimeError):
        shared.sum().backward()
    assert watched.history.timeline.freed_by(number, before=2) == (1, True)
    assert [event.failed for event in watched.history.timeline.calls] == [False, True]


def test_nothing_is_kept_alive(watched: Watched) -> None:
    net = nn.Linear(2, 1)
    hidden = net(torch.ones(3, 2))
    other = hidden.detach()
    (hidden * other).sum().backward()
    gone = [weakref.ref(one) for one in (net, net.weight, hidden, other)]
    del net, hidden, other
    gc.collect()
    assert [reference() for reference in gone] == [None] * 4
    assert watched.history.leaves._known == {}
