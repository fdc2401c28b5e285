"""The row at which the playhead stands is in sight: at each size, of short tapes and long ones, with the hint and without it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from graphs import FILE, Drawing
from playing import Play

from gradscope.tui.glyphs import PLAYHEAD
from gradscope.tui.widgets.tape import HINT


def played(nodes: int) -> Play:
    """A live stop whose pass runs so many nodes in a row, the last a leaf."""
    drawing = Drawing()
    line = drawing.origin(FILE, 4, "y = y.sin()")
    row = [drawing.node("SinBackward0", (1,), line, sequence=nodes - place) for place in range(nodes - 1)]
    row.append(drawing.leaf("x", (1,), kind="tensor"))
    for source, target in pairwise(row):
        drawing.edge(source, target)
    drawing.root(row[0], "y")
    play = Play(drawing=drawing)
    play.stop(seed=(1.0,))
    return play


def here(rows: list[str]) -> int:
    """The step of the row that has the playhead; -1 where no row in sight has it, 0 for the seed's."""
    row = next((row for row in rows[1:] if PLAYHEAD in row), None)
    if row is None:
        return -1
    number = row.split()[1].rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


SIZES = [(80, 24), (99, 50), (80, 16), (100, 24), (120, 36), (200, 60)]


@pytest.mark.parametrize("nodes", [3, 9, 14])
async def test_it_is_while_one_steps_to_the_end(walked, sight, nodes: int) -> None:
    async with walked(played(nodes).session, (80, 24)) as pilot:
        await pilot.pause()
        seen = [here(sight(pilot).pane("tape"))]
        hinted = [HINT in sight(pilot).text]
        for _ in range(nodes):
            await pilot.press("n")
            await pilot.pause()
            seen.append(here(sight(pilot).pane("tape")))
            hinted.append(HINT in sight(pilot).text)
    assert seen == list(range(nodes + 1))
    assert hinted == [step < 10 for step in range(nodes + 1)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("nodes", [9, 40])
async def test_it_is_at_the_end(walked, sight, size: tuple[int, int], nodes: int) -> None:
    async with walked(played(nodes).session, size) as pilot:
        await pilot.pause()
        for keys in ("c", "gGt", "z", "z"):
            await pilot.press(*keys)
            await pilot.pause()
            assert here(sight(pilot).pane("tape")) == nodes


async def test_the_zoomed_tape_has_the_whole_screen(walked, sight) -> None:
    async with walked(played(40).session, (80, 24)) as pilot:
        await pilot.press("1", "z", "c")
        await pilot.pause()
        rows = sight(pilot).pane("tape")
    assert [row.split()[0] for row in rows[2:-2]] == [*map(str, range(22, 40))]
