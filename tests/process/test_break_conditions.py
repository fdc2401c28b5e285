"""`--break` over a whole run: the stop stands after the first call whose gradients meet a condition, recorded while it ran."""

from __future__ import annotations

import math

import pytest
from children import Live, Scripts, Start
from test_stops import totals

from gradscope.protocol.messages import (
    Captured,
    Committed,
    Configure,
    Explore,
    Recorded,
    Refused,
    Resume,
    SeedText,
    SetBreaks,
    Stopped,
)

LOOP = """
import torch
w = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.25)
for step in range(6):
    optimizer.zero_grad()
    loss = (w * (float("nan") if step == 3 else 1.0)).sum()
    loss.backward()
    if step != 3:
        optimizer.step()
print("w", w.tolist())
"""


def stopped(live: Live) -> tuple[str, str, int]:
    told = live.wait_for(Stopped)
    return told.reason, told.detail, told.call.number


def test_the_stop_stands_after_the_call(scripts: Scripts, start: Start) -> None:
    scripts.write(LOOP)
    live = start("script.py", configure=Configure(stop_at="never", breaks=["nan"]))
    assert stopped(live) == ("breakpoint", "nan", 4)
    graph = live.wait_for(Captured).graph
    assert [leaf.name for leaf in graph.leaves] == ["w"]
    recorded = live.wait_for(Recorded)
    assert recorded.tape.kind == "committed"
    assert recorded.tape.facts.roots_bad == [0]
    (total,) = totals(live, recorded).values()
    assert all(map(math.isnan, total))
    assert live.wait_for(Committed).exact == "true"
    live.send(Explore(1, [SeedText("2")]))
    refused = live.wait_for(Refused)
    assert "R" in refused.hint
    assert "--stop-at 4" in refused.hint
    live.send(Resume(stop_at="break"))
    assert live.end() == 0
    assert b"w [-0.25, -0.25]" in live.printed
    assert len(live.of(Stopped)) == 1


@pytest.mark.parametrize(("condition", "line"), [("finding:nonfinite-forward", 7), ("zero", 6), ("inf", 0)])
def test_conditions(scripts: Scripts, start: Start, condition: str, line: int) -> None:
    scripts.write(
        """
        import torch
        w = torch.tensor([1.0], requires_grad=True)
        (w * 2).sum().backward()
        loss = torch.where(w > 2, w.log(), w - 1)
        loss.sum().backward()
        (w.log() - 1).log().mul(2).sum().backward()
        (w * 0).sum().backward()
        """
    )
    live = start("script.py", configure=Configure(stop_at="never", breaks=[condition]))
    if line:
        reason, detail, _ = stopped(live)
        assert (reason, detail) == ("breakpoint", condition)
        assert live.of(Stopped)[0].call.line == line
        live.wait_for(Recorded)
        live.send(SetBreaks([]))
        live.send(Resume(stop_at="break"))
    assert live.end() == 0
    assert live.of(Refused) == []


def test_a_call_that_fails_meets_one(scripts: Scripts, start: Start) -> None:
    scripts.write(
        """
        import torch
        w = torch.tensor([1.0], requires_grad=True)
        w.sin().sum().backward()
        y = w.exp()
        z = (y * 2).sum()
        y.add_(1)
        try:
            z.backward()
        except RuntimeError:
            print("caught")
        """
    )
    live = start("script.py", configure=Configure(stop_at="never", breaks=["finding:inplace-modified"]))
    assert stopped(live) == ("breakpoint", "finding:inplace-modified", 2)
    failure = live.wait_for(Recorded).tape.failure
    assert failure is not None
    assert "modified by an inplace operation" in failure.message
    live.wait_for(Committed)
    live.send(Resume(stop_at="break"))
    assert live.end() == 0
    assert b"caught" in live.printed


def test_headless_keeps_the_calls_that_meet_one(scripts: Scripts, start: Start) -> None:
    scripts.write(LOOP)
    live = start("script.py", configure=Configure(record=-1, stop_at="first", breaks=["nan"]))
    assert live.end() == 0
    assert [(report.reason, report.call.number) for report in live.of(Stopped)] == [("recorded", 4)]
    assert live.of(Recorded)[0].tape.kind == "committed"
    assert live.of(Committed)[0].exact == "true"
    assert b"w [-0.25, -0.25]" in live.printed
