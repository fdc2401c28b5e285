"""Recorded without a screen: calls of several threads, calls under modes, calls of which there is no record."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import threading

import torch
from torch.autograd import functional
from torch.utils._python_dispatch import TorchDispatchMode

w = torch.ones(4, requires_grad=True)
barrier = threading.Barrier(3)


def train(factor):
    loss = (w * factor).sum()
    loss.register_hook(lambda gradient: print(end="") if barrier.wait(60) < 0 else None)
    loss.backward()


threads = [threading.Thread(target=train, args=(factor,), name=f"trainer-{factor}") for factor in (1, 10, 100)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("threads", w.grad.tolist())

functional.jacobian(lambda x: x**2, torch.ones(3), vectorize=True)


class Count(TorchDispatchMode):
    names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


with Count():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: gradient * 3)
    y.exp().sum().backward()
print("mul", Count.names.count("mul"), "exp", Count.names.count("exp"), "amin" in Count.names, "ones", Count.names.count("ones"))

torch.set_default_device("meta")
z = torch.ones(3, device="cpu", requires_grad=True)
(z * 2).sum().backward()
torch.set_default_device(None)
print("device", z.grad.tolist())
"""
OUT = """threads [111.0, 111.0, 111.0, 111.0]
mul 4 exp 1 False ones 1
device [2.0, 2.0, 2.0]
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "script.py").write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    options = ["--headless", "--calls", "all", "--export", "a.json"]
    command = [sys.executable, "-W", "ignore", "-m", "gradscope", *options, "script.py"]
    root = Path(__file__).parents[2]
    environment = {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, OUT), done.stderr
    return json.loads((folder / "a.json").read_text(encoding="utf-8"))["calls"]  # type: ignore[no-any-return]


def test_calls_of_three_threads_at_the_same_time_are_recorded_each_as_its_own(calls: list[dict[str, Any]]) -> None:
    """All three are inside the engine at once: none may wait for another."""
    three = calls[:3]
    assert sorted(call["thread"] for call in three) == ["trainer-1", "trainer-10", "trainer-100"]
    for call in three:
        assert len(call["steps"]) == len(call["nodes"]) == 3
        factor = float(call["thread"].removeprefix("trainer-"))
        delivered = [one["values"] for step in call["steps"] for one in step["contributions"]]
        assert delivered[-1] == [factor] * 4
        assert call["exact"] in (True, "unchecked")
        if call["exact"] == "unchecked":
            assert "thread" in call["exact_reason"]


def test_a_call_of_many_passes_at_once_says_why_it_was_not_recorded(calls: list[dict[str, Any]]) -> None:
    [call] = [call for call in calls if not call["steps"]]
    assert (call["kind"], call["exact"]) == ("grad", "unchecked")
    assert call["exact_reason"].startswith("not recorded: is_grads_batched gives every gradient a hidden dimension")


def test_calls_under_modes_are_exact(calls: list[dict[str, Any]]) -> None:
    assert [call["exact"] for call in calls[4:]] == [True, True]
