"""Graphs as deep as long recurrences make them, in a child with the stack that the program gives the script."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

SETUP = """
import resource
import torch
from gradscope.debuggee.capture import capture
from gradscope.debuggee.explore import explore
from gradscope.debuggee.exactness import same_bits
torch.set_num_threads(1)
"""

CHAIN = """
x = torch.tensor([0.5, 1.5], requires_grad=True)
y = x
for _ in range(300_000):
    y = y * 1.000001
captured = capture([y])
tape, held = explore(captured, [torch.ones(2)])
leaf = held.tensor(memoryview(tape.leaf_after).cast("i")[0])
y.backward(torch.ones(2))
print(len(captured), tape.exact, same_bits(leaf, x.grad))
"""

RNN = """
weight, bias = (torch.randn(32, 32) * 0.2).requires_grad_(), torch.zeros(32, requires_grad=True)
h = torch.randn(1, 32)
for _ in range(20_000):
    h = torch.tanh(h @ weight + bias)
y = h.sum()
captured = capture([y])
tape, held = explore(captured, [torch.ones(())])
after = memoryview(tape.leaf_after).cast("i")
totals = [held.tensor(number) for number in after]
y.backward()
same = all(same_bits(total, leaf.variable.grad) for total, leaf in zip(totals, captured.leaves))
print(len(captured), tape.exact, same)
"""


@pytest.mark.parametrize(("body", "nodes"), [(CHAIN, 300_001), (RNN, 60_003)], ids=["chain", "rnn"])
def test_deep_graphs(body: str, nodes: int) -> None:
    """Captured, recorded, compared with torch, and freed."""
    command = f"ulimit -s 1048576 && exec {shlex.join([sys.executable, '-c', SETUP + body])}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, done.stdout.split()) == (0, [str(nodes), "true", "True"]), done.stderr
