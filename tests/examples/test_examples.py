"""Each example runs, prints the numbers its comments work out, and is what its comment says it is."""

from __future__ import annotations

import ast
import contextlib
import io
import random
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.fixture(autouse=True)
def _torch_as_it_was() -> Iterator[None]:
    dtype, state, shuffled = torch.get_default_dtype(), torch.get_rng_state(), random.getstate()
    yield
    torch.set_default_dtype(dtype)
    torch.set_rng_state(state)
    random.setstate(shuffled)


def run(name: str) -> tuple[dict[str, Any], str]:
    """Run an example in this process: its namespace and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        namespace = runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return namespace, printed.getvalue()


def test_all_are_there() -> None:
    assert NAMES == [
        "accumulate.py",
        "chain_rule.py",
        "conv.py",
        "frozen_layer.py",
        "lstm.py",
        "many_inputs.py",
        "nan_in_where.py",
        "quasi_likelihood.py",
        "seed_is_a_weighting.py",
        "selective_grad.py",
        "simple_net.py",
        "transformer.py",
        "two_outputs.py",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_opens_with_what_to_look_at_and_fits_a_page(name: str) -> None:
    source = (EXAMPLES / name).read_text(encoding="utf-8")
    opening = ast.get_docstring(ast.parse(source))
    assert opening is not None
    assert "Look at: " in opening
    assert len(source.splitlines()) <= 80


def test_two_outputs() -> None:
    space, printed = run("two_outputs.py")
    assert printed == "J      = [7.0, 6.0]\nx.grad = [34.0, 21.0]\n"
    (ones,) = torch.autograd.grad(
        torch.stack([space["x"][0] ** 2 + space["x"][1], space["x"][0] * space["x"][1]]), space["x"], torch.ones(2)
    )
    assert ones.tolist() == [7.0, 3.0]


def test_seed_is_a_weighting() -> None:
    _, printed = run("seed_is_a_weighting.py")
    assert printed.count("[22.0, 23.0]") == 2
    assert "[[3.0, 0.0], [2.0, 1.0], [3.0, 6.0]]" in printed


def test_quasi_likelihood_agrees_with_irls_and_with_finite_differences() -> None:
    space, printed = run("quasi_likelihood.py")
    b, X, y, phi = space["b"].detach(), space["X"], space["y"], space["phi"]
    assert torch.allclose(b, space["irls"], rtol=0, atol=1e-9)
    assert printed.splitlines()[-2].split("b = ")[1] == str([round(value, 6) for value in b.tolist()])

    def quasi_likelihood(at: torch.Tensor) -> torch.Tensor:
        """Q = Σ ∫ (y - t) / (phi t) dt from any start up to mu: y log mu - mu, over phi."""
        mu = torch.exp(X @ at)
        return ((y * torch.log(mu) - mu) / phi).sum()

    at = b + 0.1
    mu = torch.exp(X @ at)
    gradient = -X.T @ (y - mu) / phi
    for number in range(3):
        step = torch.zeros(3)
        step[number] = 1e-6
        slope = -(quasi_likelihood(at + step) - quasi_likelihood(at - step)) / 2e-6
        assert abs(slope.item() - gradient[number].item()) < 1e-4
        assert quasi_likelihood(b) > quasi_likelihood(b + 100 * step)


def test_simple_net_learns() -> None:
    space, _ = run("simple_net.py")
    assert len(space["losses"]) == 60
    assert space["losses"][-1] < space["losses"][0] / 4


def test_many_inputs() -> None:
    _, printed = run("many_inputs.py")
    assert printed.splitlines() == [
        "out    = 8.0",
        "a.grad = [1.0, 2.0]",
        "b.grad = [3.0]",
        "c.grad = [4.0, 5.0, 6.0]",
        "scale  = 8.0",
    ]


def test_selective_grad_fills_no_grad() -> None:
    space, printed = run("selective_grad.py")
    assert "grad w      = [16.0, -8.0]\ngrad x      = [8.0, 24.0]\ngrad hidden = 8.0\n" in printed
    assert [space[name].grad for name in "xwc"] == [None, None, None]


def test_chain_rule() -> None:
    space, printed = run("chain_rule.py")
    assert printed.splitlines()[1] == "x.grad        = -0.778801"
    assert space["x"].grad.item() == pytest.approx(space["dg_du"] * space["dh_dx"], rel=1e-12)


def test_lstm_calls_its_cell_once_for_each_step() -> None:
    space, _ = run("lstm.py")
    reader = space["reader"]
    arrived: list[torch.Tensor] = []
    reader.cell.weight_hh.register_hook(arrived.append)
    original = reader.cell.forward
    calls: list[int] = []
    reader.cell.forward = lambda *args: calls.append(1) or original(*args)
    torch.nn.functional.mse_loss(reader(space["sequence"]), space["target"]).backward()
    assert (len(calls), len(arrived)) == (8, 1)


def test_transformer_is_tied_and_causal() -> None:
    space, printed = run("transformer.py")
    model, text = space["model"], space["text"]
    assert len(printed.splitlines()) == 2
    assert model.tokens.weight is model.head.weight
    changed = text[:, :-1].clone()
    changed[:, -1] = (changed[:, -1] + 1) % 32
    with torch.no_grad():
        assert torch.equal(model(changed)[:, :-1], model(text[:, :-1])[:, :-1])


def test_conv() -> None:
    space, _ = run("conv.py")
    assert torch.allclose(space["logits"].grad.sum(1), torch.zeros(6), atol=1e-6)


def test_accumulate_is_the_gradient_of_the_whole_batch() -> None:
    _, printed = run("accumulate.py")
    last, whole = (line.split(": ")[1] for line in printed.splitlines()[-2:])
    assert last == whole


def test_nan_in_where() -> None:
    _, printed = run("nan_in_where.py")
    assert "x.grad:          [nan, 0.25]" in printed
    assert "x.grad, cured:   [0.0, 0.25]" in printed


def test_frozen_layer_does_not_move() -> None:
    space, printed = run("frozen_layer.py")
    assert printed.endswith("encoder moved: False\n")
    assert space["model"].encoder.weight.grad is None
    assert space["model"].head.weight.grad is not None


def test_one_as_a_person_runs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "two_outputs.py")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "J      = [7.0, 6.0]\nx.grad = [34.0, 21.0]\n"
