"""Where a node was made: in which run of its line, of how many, and the library code between the person's line and torch."""

from __future__ import annotations

from textual.content import Content

from gradscope.model.places import CodePlace
from gradscope.tui.colours import MUTED
from gradscope.tui.glyphs import FOLDED, UNFOLDED
from gradscope.tui.widgets.jumps import leads
from gradscope.tui.widgets.source_marks import ordinal
from gradscope.tui.widgets.step_tab import StepPage

FRAMES = "frames"
"""the goal of the line that stands for the library frames"""

PACKAGES = ("site-packages/", "dist-packages/")


def write(page: StepPage, node: int, unfolded: bool) -> None:
    """`line 14, 37th of 60`, and below it the innermost library frame, or all where they are unfolded."""
    origin, times = page.graph.origin(node), page.graph.occurrences(node)
    frames = () if origin is None else origin.frames
    if origin is None or (times < 2 and not frames):
        return
    page.ledger.line()
    nth = f", {ordinal(page.graph.occurrence(node))} of {times}" if times > 1 else ""
    page.ledger.line((f"line {origin.line}{nth}", MUTED), (f"   {origin.module}" if origin.module else "", MUTED))
    if not frames:
        return
    if len(frames) == 1:
        page.ledger.line((f"  in {place(frames[0])}", MUTED))
    elif not unfolded:
        more = f"  +{len(frames) - 1}"
        page.ledger.line(leads(Content.styled(f"{FOLDED} in {place(frames[-1])}{more}", MUTED), FRAMES))
    else:
        page.ledger.line(leads(Content.styled(f"{UNFOLDED} in {place(frames[0])}", MUTED), FRAMES))
        for frame in frames[1:]:
            page.ledger.line((f"     {place(frame)}", MUTED))


def place(frame: CodePlace) -> str:
    """`torch/nn/modules/linear.py:125 forward`: a file of a package without where packages lie."""
    file = next((file.partition(folder)[2] for folder in PACKAGES if folder in (file := frame.file)), frame.file)
    return f"{file}:{frame.line} {frame.function}"
