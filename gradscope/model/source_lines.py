"""What each line of the script made, and how far the backward pass has come through it."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from gradscope.model.backward_graph import BackwardGraph, short_op
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

LineState = Literal["run", "partial", "pending", "never"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One line at the playhead."""

    line: int
    state: LineState
    """`run` when all its nodes have run, `partial` when some have, `never` when this pass runs none of them"""
    node: int
    """the one of its nodes that ran last; before any has, the one that will run first"""
    nodes: int
    """how many of its nodes run in this pass"""
    done: int
    tensor: int
    """what arrived at the node that ran last; NO_TENSOR before"""
    norm: float
    """of `tensor`; NaN before"""
    occurrence: int
    """in which of the line's runs `node` was made; 0 where unknown"""
    occurrences: int
    """in how many runs the line made nodes: those of one run, whatever they are, count once"""


class SourceLines:
    """Nodes by file and line, and the steps of one pass at which they run."""

    def __init__(self, graph: BackwardGraph, tape: Tape) -> None:
        self._graph = graph
        self._tape = tape
        self._steps_by_line: dict[tuple[str, int], array[int]] = {}
        self._ops_by_line: dict[tuple[str, int], tuple[str, ...]] = {}

    @classmethod
    def of(cls, graph: BackwardGraph, tape: Tape) -> SourceLines:
        """The lines of a tape, worked out once."""
        if "source_lines" not in tape.derived:
            tape.derived["source_lines"] = cls(graph, tape)
        lines: SourceLines = tape.derived["source_lines"]
        return lines

    @cached_property
    def files(self) -> list[str]:
        """Files that made nodes, the one that made most first."""
        amounts: dict[str, int] = {}
        for file, lines in self._by_file.items():
            amounts[file] = sum(len(self._nodes_of(origins)) for origins in lines.values())
        return sorted(amounts, key=lambda file: -amounts[file])

    def lines(self, file: str) -> list[int]:
        """Lines of a file that made nodes, ascending."""
        return sorted(self._by_file.get(file, {}))

    def nodes(self, file: str, line: int) -> list[int]:
        """What a line made, leaves included, by number."""
        return self._nodes_of(self._by_file.get(file, {}).get(line, []))

    def steps(self, file: str, line: int) -> Sequence[int]:
        """When the nodes that a line made run, ascending."""
        return self._steps(file, line)

    def ops(self, file: str, line: int) -> tuple[str, ...]:
        """The different nodes that a line made, in the order in which the pass first runs them: `Tanh`, `Add`, `Mm`."""
        if (file, line) not in self._ops_by_line:
            nodes = (self._tape.node_at(step) for step in self._steps(file, line))
            ops = dict.fromkeys(self._graph.op_index(node) for node in nodes if not self._graph.is_accumulate(node))
            self._ops_by_line[file, line] = tuple(short_op(self._graph.columns.ops[op]) for op in ops)
        return self._ops_by_line[file, line]

    def code(self, file: str, line: int) -> str:
        """The statement at a line, as its origins have it: for a file whose text is not here."""
        origins = self._by_file.get(file, {}).get(line, [])
        return next((self._graph.columns.origins[origin].code for origin in origins), "")

    def mark(self, file: str, line: int, step: int) -> Mark | None:
        """How a line stands after a step; None for lines that made nothing."""
        steps = self._steps(file, line)
        if not steps:
            nodes = self.nodes(file, line)
            return self._mark(line, "never", nodes[0], 0, 0, NO_TENSOR) if nodes else None
        done = bisect_right(steps, step)
        at = steps[max(0, done - 1)]
        state: LineState = "pending" if not done else "run" if done == len(steps) else "partial"
        return self._mark(line, state, self._tape.node_at(at), len(steps), done, self._tape.arrived_at(at) if done else NO_TENSOR)

    def marks(self, file: str, step: int) -> dict[int, Mark]:
        """All marked lines of a file after a step."""
        found = {line: self.mark(file, line, step) for line in self.lines(file)}
        return {line: mark for line, mark in found.items() if mark is not None}

    def _mark(self, line: int, state: LineState, node: int, nodes: int, done: int, tensor: int) -> Mark:
        graph = self._graph
        norm = self._tape.norm(tensor)
        return Mark(line, state, node, nodes, done, tensor, norm, graph.occurrence(node), graph.occurrences(node))

    def _steps(self, file: str, line: int) -> array[int]:
        if (file, line) not in self._steps_by_line:
            steps = sorted(filter(None, map(self._tape.step_of, self.nodes(file, line))))
            self._steps_by_line[file, line] = array("i", steps)
        return self._steps_by_line[file, line]

    @cached_property
    def _by_file(self) -> dict[str, dict[int, list[int]]]:
        """file -> line -> origins"""
        files: dict[str, dict[int, list[int]]] = {}
        used = {leaf.origin for leaf in self._graph.reached} | set(self._by_origin)
        for index in sorted(used - {UNKNOWN}):
            origin = self._graph.columns.origins[index]
            files.setdefault(origin.file, {}).setdefault(origin.line, []).append(index)
        return files

    @cached_property
    def _by_origin(self) -> dict[int, list[int]]:
        made: dict[int, list[int]] = {}
        for node in range(len(self._graph)):
            origin = self._graph.origin_index(node)
            if origin != UNKNOWN:
                made.setdefault(origin, []).append(node)
        for leaf in self._graph.reached:
            if leaf.origin != UNKNOWN and self._graph.origin_index(leaf.node) == UNKNOWN:
                made.setdefault(leaf.origin, []).append(leaf.node)
        return made

    def _nodes_of(self, origins: list[int]) -> list[int]:
        return sorted(node for origin in origins for node in self._by_origin.get(origin, ()))
