"""The last recorded pass, as numbers: what arrived where, for questions that the script itself raises after the call."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import GraphColumns, TapeColumns
from gradscope.model.tape import Tape

_LARGEST = 200_000
"""nodes of a graph that is kept"""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A gradient that arrived at a node."""

    call: int
    node: int
    norm: float | None
    """None where it is not known"""


class LastPass:
    """Keeps columns of numbers until the next one comes."""

    def __init__(self) -> None:
        self._kept: tuple[int, GraphColumns, TapeColumns] | None = None

    def keep(self, call: int, graph: GraphColumns, tape: TapeColumns) -> None:
        """A call has run, and this is its record."""
        self._kept = (call, graph, tape) if len(graph.op) // 4 <= _LARGEST else None

    def arrived(self, sequence_nr: int, output_nr: int) -> Arrived | None:
        """What arrived at the tensor that the node of this number made; None where the pass did not come there."""
        if self._kept is None:
            return None
        call, columns, tape_columns = self._kept
        numbers = memoryview(columns.sequence_nr).cast("q").tolist()
        if sequence_nr not in numbers:
            return None
        node = numbers.index(sequence_nr)
        tape = Tape(tape_columns, BackwardGraph(columns))
        if not tape.step_of(node):
            return None
        norm = tape.norm(tape.arrived(node, output_nr))
        return Arrived(call, node, None if math.isnan(norm) else norm)
