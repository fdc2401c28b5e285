"""The lines of the menu that `u` and `d` open where several edges lead on: no two of them read alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradscope.model.tape import Tape
from gradscope.session import edges
from gradscope.tui import numbers
from gradscope.tui.screens.choices import Choice
from gradscope.tui.widgets.line import cells, fit

CODE_SHOWN = 28


def edge_choices(tape: Tape, choices: Sequence[edges.Choice]) -> list[Choice]:
    """`MulBackward0   step 3   :10  a = x * x`, and at the right the norm of what went over the edge."""
    columns = [_columns(tape, one) for one in choices]
    widths = [max(cells(row[place]) for row in columns) for place in range(3)]
    lines = []
    for row, one in zip(columns, choices, strict=True):
        label, step, line = (fit(text, width) for text, width in zip(row[:3], widths, strict=True))
        text = f"{label}   {step}   {line}  {row[3]}".rstrip()
        lines.append(Choice(text, "" if math.isnan(one.norm) else f"‖·‖ {numbers.norm(one.norm)}"))
    return lines


def _columns(tape: Tape, choice: edges.Choice) -> tuple[str, str, str, str]:
    """Label, step, line and code of a node."""
    graph, step = tape.graph, tape.step_of(choice.node)
    origin, code = graph.origin(choice.node), graph.makes(choice.node)
    return (
        choice.label,
        f"step {step:,}" if step else "not run",
        f":{origin.line}" if origin is not None and origin.line else "",
        fit(code, CODE_SHOWN) if cells(code) > CODE_SHOWN else code,
    )
