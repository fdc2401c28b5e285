"""Prints how long the screen makes a person wait. Run it: `python tests/bench/bench_screen.py [paint] [keys]`.

`paint`: from the shell to the first paint, and to the first stop, of the real program in a terminal of its own.
`keys`: from a key to the repaint, over hand-made passes of 60 thousand and a million rows. Both need an idle machine.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "pty")]

import graphs  # noqa: E402
from driver import Program  # noqa: E402
from textual.geometry import Size  # noqa: E402
from views import view_of  # noqa: E402

from gradscope.model.rows import Folds, Rows  # noqa: E402
from gradscope.protocol.messages import Call  # noqa: E402
from gradscope.session.stepping import Walk  # noqa: E402
from gradscope.tui.app import GradscopeApp  # noqa: E402

RUNS = 5
PRESSES = 100
SIZE = (120, 36)
LENGTHS = (60_000, 1_000_000)
EXAMPLE = str(TESTS.parent / "examples" / "two_outputs.py")


def paint() -> None:
    """Milliseconds after `exec`: something stands on the screen; the script has stopped."""
    painted, stopped = [], []
    for _ in range(RUNS):
        program = Program([EXAMPLE], cwd=str(TESTS))
        try:
            program.wait("two_outputs.py")
            painted.append(time.monotonic() - program.started)
            program.wait("step 0/")
            stopped.append(time.monotonic() - program.started)
        finally:
            program.close()
    print(f"shell to first paint {_spread(painted)}   to the first stop {_spread(stopped)}")


async def keys(steps: int) -> None:
    """Milliseconds from a key's message to the end of the repaint that shows it."""
    graph, tape = graphs.chain(steps)
    walk = Walk(graph, tape, SIZE[1])
    walk.folds = Folds()
    walk.rows = Rows.build(graph, tape, walk.folds)
    call = Call(1, "backward", "/home/ada/chain.py", 6, "<module>", "y.backward()")
    app = GradscopeApp()
    async with app.run_test(size=Size(*SIZE)) as pilot:
        app.show(view_of(walk, [tape], call))
        await pilot.pause()
        for name, act in (("n", lambda: walk.step(1)), ("j", lambda: walk.move(1)), ("c", lambda: walk.to_step(tape.steps))):
            took = []
            for _ in range(PRESSES):
                if name == "c":
                    walk.to_step(1)
                    app.show(view_of(walk, [tape], call))
                    await pilot.pause()
                started = time.perf_counter()
                act()
                app.show(view_of(walk, [tape], call))
                app.screen._on_timer_update()
                took.append(time.perf_counter() - started)
                await pilot.pause()
            print(f"{len(walk.rows):9,} rows  {name}  {_spread(took)}")


def _spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    middle, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, round(len(ordered) * 0.95))]
    return f"p50 {middle * 1e3:7.1f} ms  p95 {late * 1e3:7.1f} ms"


def main() -> None:
    wanted = sys.argv[1:] or ["paint", "keys"]
    if "paint" in wanted:
        paint()
    if "keys" in wanted:
        for steps in LENGTHS:
            asyncio.run(keys(steps))


if __name__ == "__main__":
    main()
