"""`*2` scales the seed of the pass that is shown, and that pass's seed is what an edited resume uses, however big the root is."""

from __future__ import annotations

from children import Scripts, Start

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape
from gradscope.protocol.messages import Captured, Committed, Explore, Recorded, Resume, SeedText

BIG = """
    import torch
    x = torch.ones(100, requires_grad=True)
    (x * 3).backward(gradient=torch.full((100,), 0.5))
    print("grad", set(x.grad.tolist()))
"""


def test_passes_keep_their_seeds(scripts: Scripts, start: Start) -> None:
    scripts.write(BIG)
    live = start("script.py")
    graph = BackwardGraph(live.wait_for(Captured).graph)

    def greatest(recorded: Recorded) -> float | None:
        tape = Tape(recorded.tape, graph)
        return tape.summary(tape.leaf_total(0)).max

    assert greatest(live.wait_for(Recorded)) == 1.5
    live.send(Explore(1, [SeedText("*2")]))
    assert greatest(live.wait_for(Recorded)) == 3.0
    live.send(Explore(2, [SeedText("*5")], base=1))
    assert greatest(live.wait_for(Recorded)) == 7.5
    live.send(Explore(3, [SeedText("*10")], base=2))
    assert greatest(live.wait_for(Recorded)) == 30.0
    live.send(Explore(4, [SeedText("*2")]))  # of the last pass
    assert greatest(live.wait_for(Recorded)) == 60.0

    live.send(Resume(edited=True, tape=3))
    committed = live.wait_for(Committed)
    assert (committed.exact, committed.edited) == ("true", True)
    assert live.end() == 0
    assert b"grad {7.5}" in live.printed
