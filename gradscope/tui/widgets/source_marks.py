"""What stands beside the lines of a person's code: a sign for whether the pass has come by, and what it brought."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradscope.model.source_lines import SourceLines
from gradscope.model.tape import Tape
from gradscope.tui import numbers
from gradscope.tui.glyphs import PENDING, RUN, SEED

_CALLS = re.compile(r"\.backward\s*\(|\bautograd\s*\.\s*grad\s*\(")


@dataclass(frozen=True, slots=True)
class Mark:
    """One line's state."""

    sign: str
    text: str = ""


def mark(tape: Tape, file: str, line: int, step: int, here: bool = False) -> Mark | None:
    """What to write beside a line after a step; `here` where the playhead stands on it. None for lines that made no node."""
    graph = tape.graph
    state = SourceLines.of(graph, tape).mark(file, line, step)
    if state is None or graph.is_accumulate(state.node):
        return None
    if not state.done:
        return Mark(PENDING, "not in this pass" if state.state == "never" else "")
    if here and state.occurrences > 1:
        return Mark(RUN, f"{ordinal(state.occurrence)} of {state.occurrences}")
    norm = "none arrives" if math.isnan(state.norm) and state.tensor < 0 else numbers.norm(state.norm)
    name = graph.gradient_name(state.node)
    return Mark(RUN, f"‖{name}‖ {norm}" if name else norm)


def warm(tape: Tape) -> None:
    """Work out which node comes from which line: a pass over all nodes, once."""
    lines = SourceLines.of(tape.graph, tape)
    for file in lines.files:
        lines.lines(file)


def marked_lines(tape: Tape, file: str) -> list[int]:
    return SourceLines.of(tape.graph, tape).lines(file)


def node_of(tape: Tape, file: str, line: int, step: int) -> int | None:
    """The node that a click on a line means: the one that ran last, else the first that will."""
    state = SourceLines.of(tape.graph, tape).mark(file, line, step)
    return state.node if state is not None and state.nodes else None


def calls(lines: Sequence[str]) -> Mapping[int, Mark]:
    """The lines that look like backward calls, while the script has not been stopped."""
    return {
        number: Mark(SEED, "backward call")
        for number, text in enumerate(lines, 1)
        if _CALLS.search(text) and not text.lstrip().startswith("#")
    }


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
