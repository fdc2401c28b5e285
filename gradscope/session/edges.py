"""From node to node along the edges of a graph, with what a pass sent over them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

UNUSED = -1.0
"""in place of a norm: nothing went over the edge"""


@dataclass(frozen=True, slots=True)
class Choice:
    """A node one edge away."""

    node: int
    label: str
    norm: float
    """of the contribution over that edge; nan if nothing went over it"""


@dataclass(frozen=True, slots=True)
class Factor:
    """One step of the chain rule along a path."""

    node: int
    label: str
    arrived: float
    """norm of what arrives at the node"""
    gain: float
    """norm of what it sends along the path, over `arrived`; nan at the end of the path"""
    product: float
    """of the gains so far"""
    factor: float | None = None
    """what a single element is multiplied by, sign and all; None where there are more, and at the end of the path"""


def neighbours(graph: BackwardGraph, tape: Tape, node: int, toward_loss: bool, hidden: bytearray | None) -> list[Choice]:
    """The nodes one edge away, largest contribution first; steps that are `hidden` are passed through."""
    ends = graph.source if toward_loss else graph.target
    largest: dict[int, float] = {}
    for edge in graph.in_edges(node) if toward_loss else graph.out_edges(node):
        for end in _in_sight(graph, tape, ends[edge], toward_loss, hidden):
            largest[end] = max(largest.get(end, UNUSED), over(tape, edge))
    order = sorted(largest, key=lambda end: (-largest[end], end))
    return [Choice(end, graph.label(end), largest[end] if largest[end] >= 0 else math.nan) for end in order]


def _in_sight(graph: BackwardGraph, tape: Tape, node: int, toward_loss: bool, hidden: bytearray | None) -> list[int]:
    """The node itself; where it is hidden, those that one comes to through it."""
    if hidden is None:
        return [node]
    found, todo = [], [node]
    while todo:
        node = todo.pop()
        if not hidden[tape.step_of(node)]:
            found.append(node)
        elif toward_loss:
            todo += [graph.source[edge] for edge in graph.in_edges(node)]
        else:
            todo += [graph.target[edge] for edge in graph.out_edges(node)]
    return found


def factors(graph: BackwardGraph, tape: Tape, node: int) -> list[Factor]:
    """Gains along the heaviest path from the root to a node, root first."""
    path, sent = [node], {}
    while edges := graph.in_edges(path[-1]):
        edge = max(edges, key=lambda edge: over(tape, edge))
        if over(tape, edge) == UNUSED:
            break  # a root from here on: nothing else brought a gradient
        path.append(graph.source[edge])
        sent[path[-1]] = edge
    product, rows = 1.0, []
    for node in reversed(path):
        arrived = _arrived(tape, node)
        gain = over(tape, sent[node]) / arrived if node in sent and arrived else math.nan
        product *= gain if node in sent else 1.0
        factor = _factor(graph, tape, node, sent[node]) if node in sent else None
        rows.append(Factor(node, graph.label(node), arrived, gain, product, factor))
    return rows


def _factor(graph: BackwardGraph, tape: Tape, node: int, edge: int) -> float | None:
    """What one element is multiplied by on its way over an edge; None where more than one arrives or goes."""
    sent, arrivals = tape.contribution_of_edge(edge), tape.arrivals(node)
    tensors = [tensor for _, tensor in arrivals] + [sent.tensor if sent is not None else NO_TENSOR]
    if len(tensors) != 2 or any(tensor == NO_TENSOR or tape.tensors.numel(tensor) != 1 for tensor in tensors):
        return None
    local = graph.local(edge)
    if local is not None:
        return local.values[0]
    (came,), (gone,) = (tape.tensors.values(tensor) or (None,) for tensor in tensors)
    if not isinstance(came, int | float) or not isinstance(gone, int | float) or not came:
        return None
    return gone / came


def _arrived(tape: Tape, node: int) -> float:
    """Norm over all slots of what arrives at a node."""
    tensors = [tensor for _, tensor in tape.arrivals(node) if tensor != NO_TENSOR]
    return math.hypot(*map(tape.norm, tensors)) if tensors else math.nan


def over(tape: Tape, edge: int) -> float:
    """Norm of what went over an edge; NaN counts as the largest of all, since that is what one looks for."""
    sent = tape.contribution_of_edge(edge)
    if sent is None or sent.tensor == NO_TENSOR:
        return UNUSED
    norm = tape.norm(sent.tensor)
    return math.inf if math.isnan(norm) else norm
