"""Where nothing is wrong nothing is said: no warning and no error on healthy scripts, over whole training loops."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradscope.findings.finding import Finding
from gradscope.model.report import Report
from gradscope.session.headless import all_findings, run
from gradscope.settings import ALL_CALLS, Options

ROOT = Path(__file__).parents[2]
HEALTHY = Path(__file__).parent / "scripts" / "healthy.py"
STEPS = 50
ENDS_BADLY = {"nan_in_where.py", "frozen_layer.py"}
"""examples of what is to be found"""
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py") if path.name not in ENDS_BADLY)
LOOPS = [
    *("gpt", "transformer", "lstm", "cnn", "regression", "gan", "actor_critic", "by_hand", "mixed_precision", "penalty"),
]


def alarms(script: Path, *arguments: str) -> tuple[list[Finding], int]:
    """The warnings and errors of a run with every backward call recorded, and how many calls there were."""
    reports: list[Report[Finding]] = []
    options = Options(
        str(script), arguments=arguments, headless=True, calls=ALL_CALLS, exports=("kept.txt",), python=sys.executable
    )
    assert run(options, lambda report, path: reports.append(report)) == 0
    [report] = reports
    return [finding for finding in all_findings(report) if finding.severity != "info"], len(report.stops)


@pytest.mark.parametrize("name", EXAMPLES)
def test_on_an_example(name: str) -> None:
    found, calls = alarms(ROOT / "examples" / name)
    assert found == []
    assert calls


@pytest.mark.parametrize("loop", LOOPS)
def test_on_a_training_loop(loop: str) -> None:
    found, calls = alarms(HEALTHY, loop, str(STEPS))
    assert found == []
    assert calls >= STEPS
