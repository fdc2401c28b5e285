"""A script ends with the same numbers, output and exit code, bit for bit, as without gradscope."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from living import living

from gradscope.session.view import State

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
ROOT = HERE.parent.parent
PATIENCE = 280


def run(*command: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=SCRIPTS, env=environment, timeout=PATIENCE, check=False
    )
    return done.returncode, done.stdout, done.stderr


@cache
def plain(script: str) -> tuple[int, str]:
    code, out, error = run(script)
    assert code in (0, 7), error
    return code, out


def test_the_scripts_tell_runs_apart() -> None:
    """They print digests that two runs agree on, one for each way to train."""
    code, out = plain("training.py")
    assert code == 7
    assert len([line for line in out.splitlines() if len(line.split()) == 4]) == 16


@pytest.mark.parametrize("mode", ["pass", "explore", "abort", "record"])
def test_training_at_the_choke_point(mode: str) -> None:
    code, out, error = run(str(HERE / "driver.py"), mode, "training.py")
    assert (code, out.splitlines()) == (plain("training.py")[0], plain("training.py")[1].splitlines()), error
    assert "'false'" not in error
    assert {"pass": "passed", "explore": "true", "abort": "cancelled", "record": "true"}[mode] in error


@pytest.mark.parametrize("script", ["training.py", "threads.py"])
def test_under_the_whole_program(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops at every call, explores twice with other seeds, resumes."""
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    stops = 0
    with living(SCRIPTS / script) as live:
        while (
            view := live.until(lambda view: view.exit is not None or (view.state is State.STOPPED and view.busy is None))
        ).exit is None:
            stops += 1
            if view.tape is not None and view.tape.columns.kind == "explored":
                for text in ("*-2", "randn"):
                    live.session.explore([text] * len(view.graph.roots))
                    live.stopped()
            live.session.on_next_call()
        live.ended()
        printed = [line for line in live.text.splitlines() if not line.startswith("hook ")]
        code = live.session.view().exit
    expected = [line for line in plain(script)[1].splitlines() if not line.startswith("hook ")]
    assert [line.strip() for line in printed if line.strip()][-len(expected) :] == expected
    assert stops >= 3
    assert code is not None
    assert code.code == plain(script)[0]
