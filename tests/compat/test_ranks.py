"""Distributed training: two ranks that both run under gradscope, each row the same as without it on both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import Row
from rows import rows_of

RANKS = Path(__file__).parent / "ranks.py"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each rank says of the rows."""
    meeting = tmp_path_factory.mktemp("ranks") / "meeting"
    paths = os.pathsep.join(map(str, (RANKS.parents[2], *sys.path)))
    environment = {
        **os.environ,
        "PYTHONPATH": paths,
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, str(RANKS), rank, str(meeting)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in ("0", "1")
    ]
    try:
        return [rank.communicate(timeout=240)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


@pytest.mark.parametrize("row", rows_of("rows_ranks"), ids=lambda row: row.name)
def test_row(row: Row, told: list[str]) -> None:
    for rank in told:
        assert f"passed {row.name}\n" in rank, rank
