"""What-ifs never get into the script's own call, and a tensor of theirs that was let go of comes back with them."""

from __future__ import annotations

from children import Scripts, Start

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Change
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.protocol.messages import (
    Captured,
    Committed,
    Explore,
    Fetch,
    Recorded,
    Refused,
    Resume,
    SeedText,
    TensorSlice,
)

SCRIPT = """
    import torch
    x = torch.ones(100, requires_grad=True)
    h = x * 3
    g = "a name of the script's"
    half = 0.5
    (h * 2).backward(gradient=torch.full((100,), 0.5))
    print("grad", set(x.grad.tolist()))
"""


def test_resuming_leaves_what_ifs_behind(scripts: Scripts, start: Start) -> None:
    scripts.write(SCRIPT)
    live = start("script.py")
    graph = BackwardGraph(live.wait_for(Captured).graph)
    tapes: dict[int, Tape] = {}

    def recorded() -> Tape:
        tape = Tape(live.wait_for(Recorded).tape, graph)
        tapes[tape.number] = tape
        return tape

    def total(tape: Tape) -> float | None:
        return tape.summary(tape.leaf_total(0)).max

    assert total(recorded()) == 3.0
    inner = graph.target[next(iter(graph.out_edges(graph.roots[0].node)))]
    change = Change(inner, 0, UNKNOWN, "g * half + 1")
    live.send(Explore(1, [], base=1, changes=[change], same_seeds=True))
    tape = recorded()
    assert (total(tape), tape.edited, tape.exact) == (4.5, False, "true")
    assert [(one.text, tape.summary(one.before).max) for one in tape.columns.changes] == [("g * half + 1", 1.0)]

    live.send(Explore(2, [SeedText("*4")], base=1, changes=[change]))
    tape = recorded()
    assert (total(tape), tape.edited) == (9.0, True)
    live.send(
        Explore(3, [], base=3, changes=[*tape.columns.changes, Change(inner, 0, UNKNOWN, "torch.ones(7)")], same_seeds=True)
    )
    refused = live.wait_for(Refused)
    assert (refused.request, refused.why) == (3, "the shapes differ")

    for request in range(4, 14):  # so many that the tensors of the first ones are let go of
        live.send(Explore(request, [SeedText(f"*{request}")], base=1))
        recorded()
    for number in (2, 3):  # they come back by running their passes again, what-ifs and all
        live.send(Fetch(100 + number, number, tapes[number].leaf_total(0), [(0, 2, 1)]))
        assert live.wait_for(TensorSlice).values == [{2: 4.5, 3: 9.0}[number]] * 2

    live.send(Resume(edited=True, tape=3))
    committed = live.wait_for(Committed)
    assert (committed.exact, committed.edited) == ("true", True)
    assert live.end() == 0
    assert b"grad {12.0}" in live.printed  # six times 2, the edited seed, without the what-if
