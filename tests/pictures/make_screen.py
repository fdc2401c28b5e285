"""Draws tests/pictures/screen.svg, the picture in the README: `python tests/pictures/make_screen.py`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from gradscope.settings import Options
from gradscope.tui.app import GradscopeApp

ROOT = Path(__file__).parents[2]
PICTURE = Path(__file__).with_name("screen.svg")
SCRIPT = "examples/two_outputs.py"
SIZE = (120, 36)
KEYS = "nnnn"
PATIENCE = 60.0


async def draw() -> str:
    """The example after four steps, as SVG."""
    os.chdir(ROOT)
    app = GradscopeApp(Options(SCRIPT))
    async with app.run_test(size=SIZE) as pilot:
        await asyncio.wait_for(_recorded(app), PATIENCE)
        await pilot.press(*KEYS)
        await pilot.pause()
        return app.export_screenshot(title=f"gradscope {SCRIPT}")


async def _recorded(app: GradscopeApp) -> None:
    while app.view is None or app.view.tape is None:
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    PICTURE.write_text(asyncio.run(draw()), encoding="utf-8")
