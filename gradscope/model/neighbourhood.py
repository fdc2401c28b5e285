"""Who sends to a row of the tape, and who receives from it, at the playhead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import UNKNOWN
from gradscope.model.rows import Rows
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

LOOKED_AT = 1_500
"""steps at either end of a row, and edges on either side, that are looked at"""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What stands at the other end of one edge, or of several edges that lead to one row or leaf."""

    row: int
    """its visible row; UNKNOWN where the pass does not run it"""
    node: int
    """the node there that the largest gradient comes from or goes to; UNKNOWN for a seed"""
    leaf: int | None
    root: int
    """of a seed, else UNKNOWN"""
    role: str
    """the forward argument that the edge belongs to, where it is one edge"""
    edges: int
    used: int
    """over how many of them this pass sends anything"""
    done: int
    """over how many it has by now"""
    tensor: int
    """the largest gradient that went over them by now; NO_TENSOR for none, or undefined ones only"""
    norm: float
    """of `tensor`; NaN for none"""
    step: int
    """when the first of them delivers; 0 for a seed, and where nothing is sent in this pass"""

    @property
    def pending(self) -> bool:
        return not self.done and self.used > 0


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Largest first, then those that are still to come, then those that this pass does not use."""

    senders: list[Neighbour]
    receivers: list[Neighbour]
    cut: bool
    """more than LOOKED_AT steps or edges: there may be more"""


@dataclass(slots=True)
class _Edge:
    node: int
    role: str
    step: int
    tensor: int
    used: bool = True
    root: int = UNKNOWN


def around(graph: BackwardGraph, tape: Tape, rows: Rows, row: int, playhead: int) -> Neighbourhood:
    """The neighbourhood of a visible row; leaves always stand outside, also those that the row includes."""
    if not row:
        return Neighbourhood([], _gathered(graph, tape, rows, playhead, _seeds_below(tape)), cut=False)
    first, last = rows.first(row), rows.last(row)
    nodes = _members(graph, tape, rows, row)
    above = list(islice(_above(graph, tape, nodes, first, last), LOOKED_AT + 1))
    below = list(islice(_below(graph, tape, nodes, first, last), LOOKED_AT + 1))
    cut = max(len(above), len(below)) > LOOKED_AT or last - first >= 2 * LOOKED_AT
    senders, receivers = (_gathered(graph, tape, rows, playhead, edges[:LOOKED_AT]) for edges in (above, below))
    return Neighbourhood(senders, receivers, cut)


def _members(graph: BackwardGraph, tape: Tape, rows: Rows, row: int) -> list[int]:
    """The nodes that a row stands for: leaves only where it stands for nothing else."""
    first, last = rows.first(row), rows.last(row)
    if last - first < 2 * LOOKED_AT:
        steps: Iterable[int] = range(first, last + 1)
    else:
        steps = chain(range(first, first + LOOKED_AT), range(last - LOOKED_AT + 1, last + 1))
    nodes = [tape.node_at(step) for step in steps]
    return [node for node in nodes if graph.leaf_at(node) is None] or nodes


def _above(graph: BackwardGraph, tape: Tape, nodes: list[int], first: int, last: int) -> Iterator[_Edge]:
    step_of = tape.step_by_node
    seeds = [(tape.seed_slot(seed.root)[0], seed) for seed in tape.seeds]
    for node in nodes:
        for at, seed in seeds:
            if at == node:
                yield _Edge(UNKNOWN, "", 0, seed.tensor, root=seed.root)
        for edge in graph.in_edges(node):
            source = graph.source[edge]
            if not first <= step_of[source] <= last or source == node or graph.leaf_at(node) is not None:
                yield _edge(graph, tape, edge, source)


def _below(graph: BackwardGraph, tape: Tape, nodes: list[int], first: int, last: int) -> Iterator[_Edge]:
    step_of = tape.step_by_node
    for node in nodes:
        for edge in graph.out_edges(node):
            target = graph.target[edge]
            if graph.leaf_at(target) is not None or not first <= step_of[target] <= last:
                yield _edge(graph, tape, edge, target)


def _edge(graph: BackwardGraph, tape: Tape, edge: int, end: int) -> _Edge:
    sent = tape.contribution_of_edge(edge)
    if sent is None:
        return _Edge(end, graph.role(edge), 0, NO_TENSOR, used=False)
    return _Edge(end, graph.role(edge), sent.step, sent.tensor)


def _seeds_below(tape: Tape) -> list[_Edge]:
    return [_Edge(node, "", 0, seed.tensor) for seed in tape.seeds if (node := tape.seed_slot(seed.root)[0]) != UNKNOWN]


def _gathered(graph: BackwardGraph, tape: Tape, rows: Rows, playhead: int, edges: Iterable[_Edge]) -> list[Neighbour]:
    """Edges that end in one leaf or one folded row as one; those to a single node apart by the argument they belong to."""
    ends: dict[tuple[int, int, str], list[_Edge]] = {}
    for edge in edges:
        leaf = edge.node != UNKNOWN and graph.leaf_at(edge.node) is not None
        step = 0 if edge.node == UNKNOWN else tape.step_of(edge.node)
        row = 0 if edge.node == UNKNOWN else rows.row_of_step(step) if step else UNKNOWN
        single = leaf or row <= 0 or rows.node(row) == edge.node
        key = (row, edge.node if single else UNKNOWN, edge.role if single else "") if edge.root == UNKNOWN else (0, edge.root, "")
        ends.setdefault(key, []).append(edge)
    found = [_neighbour(graph, tape, row, several, playhead) for (row, _, _), several in ends.items()]
    return sorted(found, key=_rank)


def _neighbour(graph: BackwardGraph, tape: Tape, row: int, edges: list[_Edge], playhead: int) -> Neighbour:
    done = [edge for edge in edges if edge.used and edge.step <= playhead]
    largest = max(done, key=lambda edge: _size(tape, edge.tensor), default=edges[0])
    tensor = largest.tensor if done else NO_TENSOR
    node = largest.node
    return Neighbour(
        row=row,
        node=node,
        leaf=None if node == UNKNOWN else graph.leaf_at(node),
        root=largest.root,
        role=largest.role if len(edges) == 1 else "",
        edges=len(edges),
        used=sum(edge.used for edge in edges),
        done=len(done),
        tensor=tensor,
        norm=tape.norm(tensor),
        step=min((edge.step for edge in edges if edge.used), default=0),
    )


def _size(tape: Tape, tensor: int) -> float:
    """NaN counts as the largest of all, since that is what one looks for."""
    if tensor == NO_TENSOR:
        return -1.0
    norm = tape.norm(tensor)
    return math.inf if math.isnan(norm) else norm


def _rank(one: Neighbour) -> tuple[int, float, int]:
    """What is pending is sorted by its step alone: its order must not tell its size."""
    if one.done:
        return 0, -math.inf if one.tensor != NO_TENSOR and math.isnan(one.norm) else -one.norm if one.norm >= 0 else 1.0, one.step
    return 1 if one.used else 2, 0.0, one.step
