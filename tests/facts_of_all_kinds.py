"""Facts with something in every place, for tests of what carries them."""

from __future__ import annotations

from gradscope.model import facts as f
from gradscope.model.places import CodePlace, Origin

HERE = Origin("a.py", 3, "f", "net.fc", "Linear", "torch.sin", "y = x.sin()", "x.sin()", "y", (CodePlace("b.py", 4, "g", 9),))
THERE = Origin("a.py", 5, "f")


def call_facts() -> f.CallFacts:
    return f.CallFacts(
        cuts=[f.Cut("detach", HERE, (0, 2), (0,), False), f.Cut("item", THERE)],
        earlier=[f.EarlierCall(1, "backward", "a.py", 7, "loss.backward()", True, 42, 10), f.EarlierCall(2, "grad", "a.py", 8)],
        old_nodes=3,
        bridge=1,
        histories=[f.LeafHistory(0, (1, 2), 3, HERE, THERE, "SGD", True, True), f.LeafHistory(1)],
        broadcasts=[f.Broadcast(1, ((50, 1), (50,)), (50, 50))],
        shared=[f.Shared(0, "dec.weight", HERE), f.Shared(1, "x")],
        grad_mode_off=THERE,
        optimizers=["Adam", "SGD"],
        names={0: "loss", 2: "hidden"},
        flat_roots={1: "flat"},
        views=[f.View(1, "emb", HERE)],
        trained=[2],
        awaited=[0, 1],
        stale_hooks=[f.StaleHook(1, "hidden", HERE), f.StaleHook(0, "")],
        create_graph=True,
    )


def pass_facts() -> f.PassFacts:
    return f.PassFacts(
        writes=[f.Write(1, "result", "gate", 0, 0, 1, HERE, "Tensor.relu_", True), f.Write(0, "self")],
        freed=[f.Freed(1, 2, False)],
        forward=[f.BadValue(1, 1, 2, 6, (0, 1), -1.0, "log of -1.0", False), f.BadValue(0)],
        mutated=[f.Mutated(1, 0, THERE, (0,), True)],
        roots_bad=[0],
    )
