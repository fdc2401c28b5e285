"""What stands beside the lines of a person's code: a sign for whether the pass has come by, and what it brought."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradscope.model.source_lines import SourceLines
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.tui import numbers
from gradscope.tui.glyphs import PENDING, RUN, SEED
from gradscope.tui.widgets.line import cells, fit

OPS_NAMED = 3

_CALLS = re.compile(r"\.backward\s*\(|\bautograd\s*\.\s*grad\s*\(")


@dataclass(frozen=True, slots=True)
class Mark:
    """One line's state."""

    sign: str
    parts: tuple[str, ...] = ()
    """what matters most first: the last ones are left out where there is no room"""
    short: str = ""
    """in place of the first part where that does not fit: no number is cut"""

    def text(self, room: int) -> str:
        """As many of the parts as fit; the first is shortened or cut rather than left out."""
        text = self.parts[0] if self.parts else ""
        if self.short and cells(text) > room:
            text = self.short
        if cells(text) > room:
            return fit(text, room)
        for part in self.parts[1:]:
            if cells(text) + 2 + cells(part) > room:
                break
            text += f"  {part}"
        return text


def mark(tape: Tape, file: str, line: int, step: int, here: bool = False, chosen: int | None = None) -> Mark | None:
    """What to write beside a line after a step.

    Args:
        tape: the pass.
        file: as origins name it.
        line: of that file.
        step: where the playhead stands.
        here: it stands on this line.
        chosen: the selected node, where it is one of this line's: the mark then speaks of it.

    Returns:
        None for lines that made no node, or only leaves.
    """
    lines = SourceLines.of(tape.graph, tape)
    state = lines.mark(file, line, step)
    if state is None or tape.graph.is_accumulate(state.node):
        return None
    if state.state == "never":
        return Mark(PENDING, ("not in this pass",))
    single = chosen if chosen is not None and state.nodes > 1 else state.node if here and state.occurrences > 1 else None
    if single is not None:
        return _of_node(tape, single, step)
    ops, count = lines.ops(file, line), f"×{state.occurrences:,}" if state.occurrences > 1 else ""
    if state.state == "partial":
        count = f"{state.done:,} of {state.nodes:,}"
    norm, short = _norm(tape, state.node, state.tensor) if state.done else ("", "")
    parts = tuple(filter(None, (norm, count, _names(ops) if len(ops) > 1 else "")))
    return Mark(RUN if state.done else PENDING, parts, short)


def _of_node(tape: Tape, node: int, step: int) -> Mark:
    """One node of a line that made several: its run, `6th of 6`, `Tanh`, its norm."""
    graph, at = tape.graph, tape.step_of(node)
    ran = 0 < at <= step
    which = f"{ordinal(graph.occurrence(node))} of {graph.occurrences(node)}" if graph.occurrences(node) > 1 else ""
    norm, short = _norm(tape, node, tape.arrived_at(at)) if ran else ("", "")
    return Mark(RUN if ran else PENDING, tuple(filter(None, (which, norm, graph.short(node)))), "" if which else short)


def _norm(tape: Tape, node: int, tensor: int) -> tuple[str, str]:
    """`‖∂a‖ 10.05`, and what of it always fits: the number."""
    if tensor == NO_TENSOR:
        return "none arrives", ""
    name, norm = tape.graph.gradient_name(node), numbers.norm(tape.norm(tensor))
    return f"‖{name}‖ {norm}" if name else norm, norm


def _names(ops: Sequence[str]) -> str:
    return " ".join(ops[:OPS_NAMED]) + (f" … {len(ops)}" if len(ops) > OPS_NAMED else "")


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
        number: Mark(SEED, ("backward call",), short="backward")
        for number, text in enumerate(lines, 1)
        if _CALLS.search(text) and not text.lstrip().startswith("#")
    }


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
