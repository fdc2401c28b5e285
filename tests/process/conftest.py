"""Scripts for real children, and children that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from children import PATIENCE, Live, Scripts, Start

from gradscope.protocol.messages import Configure, Hello
from gradscope.session.launcher import launch


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


@pytest.fixture
def start(scripts: Scripts, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start(script, *arguments, configure=…)`: a live script that has been greeted and configured."""
    monkeypatch.chdir(scripts.folder)
    running: list[Live] = []

    def begin(*arguments: str, configure: Configure | None = None, **options: object) -> Live:
        live = Live(launch(arguments, **options))  # type: ignore[arg-type]
        running.append(live)
        live.wait_for(Hello)
        live.send(configure or Configure())
        return live

    yield begin
    for live in running:
        live.launched.kill()
        live.launched.process.wait(PATIENCE)
        live.launched.close()
