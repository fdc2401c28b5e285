"""After a backward call nothing of gradscope's holds anything of the script's: what dies under plain python dies here too."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from living import living

from gradscope.session import headless
from gradscope.settings import ALL_CALLS, Options

SCRIPT = """
import gc
import weakref
import torch
from torch import nn

class Batch:
    pass

def train():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = torch.optim.Adam(net.parameters())
    x = torch.randn(2, 3, requires_grad=True)
    batch, hidden = Batch(), net[0](x)
    batch.x = x
    loss = net[2](net[1](hidden)).sum()
    kept = [net, net[0], net[0].weight, optimizer, x, hidden, loss, batch, loss.grad_fn]
    loss.backward(gradient=torch.tensor(2.0), retain_graph=True)
    kept += [x.grad, *torch.autograd.grad(loss, [x, hidden])]
    optimizer.step()
    watched = []
    for thing in kept:
        try:
            watched.append((type(thing).__name__, weakref.ref(thing)))
        except TypeError:  # nodes take no weak references
            thing.metadata["died"] = mark = Batch()
            watched.append((type(thing).__name__, weakref.ref(mark)))
    return watched

for _ in range(2):
    watched = train()
    gc.collect()
    print("alive", [name for name, reference in watched if reference() is not None])
"""


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_plain_python_keeps_nothing(script: Path) -> None:
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "alive []\nalive []\n"


@pytest.mark.parametrize(
    "options",
    [{"calls": ALL_CALLS}, {"calls": 1}, {"calls": ALL_CALLS, "origins": False}, {"calls": ALL_CALLS, "breaks": ("norm>0",)}],
    ids=["all calls", "one call", "no origins", "a condition"],
)
def test_headless(script: Path, options: dict[str, object], capfd: pytest.CaptureFixture[str]) -> None:
    options = {"headless": True, "exports": ("a.json",), **options}
    assert headless.run(Options(str(script), **options), lambda report, path: None) == 0  # type: ignore[arg-type]
    assert capfd.readouterr().out == "alive []\nalive []\n"


@pytest.mark.parametrize("edited", [False, True])
def test_after_a_stop_with_more_passes(script: Path, edited: bool) -> None:
    with living(script) as live:
        live.stopped_with_tape()
        live.session.explore(["*3"])
        live.until(lambda view: view.tape is not None and view.tape.number == 2 and view.busy is None)
        live.session.on_next_call(edited)
        live.until(lambda view: view.stop is not None and view.stop.call.number == 2 and view.tape is not None and not view.busy)
        live.session.resume()
        live.ended()
        assert live.text.splitlines() == ["alive []", "alive []"]


def test_memory_stays_flat_over_many_models(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A call's model and gradients weigh 8 MB; kept, twenty of them weigh 160. Nothing waits for the garbage collector."""
    script = tmp_path / "script.py"
    text = """
        import ctypes, gc
        import torch

        def resident():
            ctypes.CDLL(None).malloc_trim(0)  # what is free, and only kept for later
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096 >> 20

        def train():
            net = torch.nn.Linear(1000, 1000)
            net(torch.ones(1, 1000)).sum().backward()

        for _ in range(5):
            train()
        gc.collect()
        gc.disable()
        before = resident()
        for _ in range(20):
            train()
        print(resident() - before)
    """
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    options = Options(str(script), headless=True, exports=("a.json",), calls=ALL_CALLS)
    assert headless.run(options, lambda report, path: None) == 0
    assert int(capfd.readouterr().out) < 40
