"""Where each step key leads. Pure: playhead in, playhead out."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.modules import Outline
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape


def next_line(graph: BackwardGraph, tape: Tape, step: int, backward: bool = False) -> int:
    """To the next step that another line of the script made, else to the end; back to the previous such step, else to the start.

    Steps whose line is unknown (leaves, nodes of torch's own) belong to the line before them and are passed over.
    """
    starts, ends = _lines(graph, tape)
    run = bisect_right(starts, step) - 1
    if backward:
        return ends[run - 1] if run > 0 else 0
    return starts[run + 1] if run + 1 < len(starts) else tape.steps


def line_at(graph: BackwardGraph, tape: Tape, step: int) -> tuple[str, int] | None:
    """The line of the script that the playhead stands in: that of the last step which has one."""
    starts, _ = _lines(graph, tape)
    run = bisect_right(starts, step) - 1
    return _line(graph, tape.node_at(starts[run])) if run >= 0 else None


def end_of_module(graph: BackwardGraph, tape: Tape, step: int, backward: bool = False) -> int:
    """To the last step of the module that the playhead stands in, its submodules included; back to before its first.

    At a module's end this leads on to the end of the one that comes next. Steps outside modules count as one module a stretch.
    """
    outline = Outline.of(graph, tape)
    if backward:
        return outline.module_run(step)[1] - 1 if step > 0 else 0
    if step >= tape.steps:
        return tape.steps
    last = outline.module_run(step)[2] if step else 0
    return last if last > step else outline.module_run(step + 1)[2]


def next_break(tape: Tape, step: int, stops: Sequence[int], backward: bool = False) -> int:
    """To the next of the sorted steps, else to the end; backwards to the one before, else to the start."""
    found = _neighbour(stops, step, backward)
    return found if found is not None else 0 if backward else tape.steps


def _neighbour(steps: Sequence[int], step: int, backward: bool) -> int | None:
    if backward:
        place = bisect_left(steps, step)
        return steps[place - 1] if place else None
    place = bisect_right(steps, step)
    return steps[place] if place < len(steps) else None


def _lines(graph: BackwardGraph, tape: Tape) -> tuple[array[int], array[int]]:
    """Stretches of steps that one line made: first step of each, and the last that has the line itself."""
    if "lines" not in tape.derived:
        tape.derived["lines"] = _find_lines(graph, tape)
    found: tuple[array[int], array[int]] = tape.derived["lines"]
    return found


def _find_lines(graph: BackwardGraph, tape: Tape) -> tuple[array[int], array[int]]:
    starts, ends = array("i"), array("i")
    before, origin_of, line_of = UNKNOWN, graph.origin_index, graph.line_of_origin
    for step, node in enumerate(tape.step_node, 1):
        origin = origin_of(node)
        if origin == UNKNOWN:
            continue
        line = line_of[origin]
        if line == before:
            ends[-1] = step
        else:
            starts.append(step)
            ends.append(step)
            before = line
    return starts, ends


def _line(graph: BackwardGraph, node: int) -> tuple[str, int] | None:
    index = graph.origin_index(node)
    if index == UNKNOWN:
        return None
    origin = graph.columns.origins[index]
    return origin.file, origin.line
