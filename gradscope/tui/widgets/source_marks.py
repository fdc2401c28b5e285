"""What stands beside the lines of a person's code: which of a line's nodes have run, and the norm that arrived."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gradscope.model.columns import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.tui import numbers
from gradscope.tui.glyphs import PENDING, RUN, SEED

_CALLS = re.compile(r"\.backward\s*\(|\bautograd\s*\.\s*grad\s*\(|(?<![\w.])grad\s*\(")


@dataclass(frozen=True, slots=True)
class Mark:
    """One line's state."""

    sign: str
    text: str = ""


class Marks:
    """The lines that nodes of one pass come from."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    @cached_property
    def _steps(self) -> dict[tuple[str, int], array[int]]:
        """(file, line) -> the steps of its nodes, in order."""
        graph, tape = self._tape.graph, self._tape
        places = [(origin.file, origin.line) for origin in graph.columns.origins]
        by_origin: dict[int, array[int]] = {}
        for step, node in enumerate(tape.step_node, 1):
            origin = graph.origin_index(node)
            if origin != UNKNOWN:
                by_origin.setdefault(origin, array("i")).append(step)
        merged: dict[tuple[str, int], array[int]] = {}
        for origin, steps in by_origin.items():
            place = places[origin]
            merged[place] = array("i", sorted([*merged[place], *steps])) if place in merged else steps
        return merged

    def lines(self, file: str) -> list[int]:
        """The lines of a file that made nodes."""
        return [line for where, line in self._steps if where == file]

    def node(self, file: str, line: int, playhead: int) -> int | None:
        """The line's node that ran last; where none has, the one that runs first."""
        steps = self._steps.get((file, line))
        if not steps:
            return None
        return self._tape.node_at(steps[max(0, bisect_right(steps, playhead) - 1)])

    def mark(self, file: str, line: int, playhead: int, here: bool = False) -> Mark | None:
        """What to write beside a line; `here` where the playhead stands on it. None for a line without nodes."""
        steps = self._steps.get((file, line))
        if not steps:
            return None
        run = bisect_right(steps, playhead)
        if not run:
            return Mark(PENDING)
        graph, tape = self._tape.graph, self._tape
        node = tape.node_at(steps[run - 1])
        times = graph.occurrences(node)
        if here and times > 1:
            return Mark(RUN, f"{ordinal(graph.occurrence(node))} of {times}")
        named = next((s for s in reversed(steps[max(0, run - 16) : run]) if graph.gradient_name(tape.node_at(s))), steps[run - 1])
        tensor, name = tape.arrived_at(named), graph.gradient_name(tape.node_at(named))
        norm = numbers.norm(tape.norm(tensor)) if tensor != NO_TENSOR else "none arrives"
        return Mark(RUN, f"‖{name}‖ {norm}" if name else norm)


def calls(lines: list[str]) -> Mapping[int, Mark]:
    """The lines that look like backward calls, for a script that has not been stopped yet."""
    return {
        number: Mark(SEED, "backward call")
        for number, text in enumerate(lines, 1)
        if _CALLS.search(text) and not text.lstrip().startswith("#")
    }


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }".replace(" ", "")
