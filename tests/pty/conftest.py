"""Programs that end with their test, and scripts to run under them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from driver import Program


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """`start(code, *options)`: gradscope on a script with this code, in a folder of its own."""
    running: list[Program] = []

    def run(code: str, *options: str, **more: object) -> Program:
        (tmp_path / "script.py").write_text(dedent(code))
        program = Program([*options, "script.py"], cwd=str(tmp_path), **more)  # type: ignore[arg-type]
        running.append(program)
        return program

    yield run
    for program in running:
        program.close()
