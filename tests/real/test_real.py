"""Code that nobody here wrote: stopped at, recorded exact, stepped to the end, resumed with bit-identical weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from living import PATIENCE, living

from gradscope.session.view import State

pytestmark = pytest.mark.real

SCRIPTS = Path(__file__).with_name("scripts")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("name", ["gpt2", "bert", "trainer", "adjoint", "gcn"])
def test_a_training_run_is_the_same_bit_for_bit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script, plain, ours = SCRIPTS / f"{name}.py", tmp_path / "plain", tmp_path / "ours"
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, str(script), str(plain)], check=True, timeout=PATIENCE, capture_output=True)
    with living(script, str(ours)) as live:
        view = live.stopped_with_tape()
        assert view.graph is not None
        assert view.tape is not None
        assert (view.tape.exact, view.tape.columns.exact_reason, view.tape.failure) == ("true", "", None)
        assert all(view.tape.step_of(leaf.node) for leaf in view.graph.reached)
        live.session.run_to_break_or_end(1)
        while live.session.view().playhead:
            live.session.step(-1)
        live.session.explore(["*2"])
        view = live.until(lambda view: view.busy is None and view.edited)
        assert view.tape is not None
        assert view.tape.exact == "true"
        for number in (2, 3):
            live.session.on_next_call()
            view = live.until(lambda view, n=number: view.stops == n and view.busy is None and view.tape is not None)
        live.session.resume()
        view = live.ended()
        assert (view.state, view.exit and view.exit.code) == (State.ENDED, 0), live.text
        report = live.session.report()
        found = [*report.findings, *(finding for stop in report.stops for finding in stop.findings)]
        assert [finding.message for finding in found if finding.severity != "info"] == []
        commits = [stop.committed for stop in report.stops]
        assert [(commit.exact, commit.reason) for commit in commits if commit] == [("true", "")] * 3
        assert live.errors == []
    assert ours.read_bytes() == plain.read_bytes()
