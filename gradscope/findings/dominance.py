"""Terms of a loss of which one outweighs the others by far, where their gradients meet."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.findings.finding import Finding
from gradscope.findings.place import at_node, at_origin, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

KIND = "dominant-term"
TIMES = 50.0
"""A term is told to dominate when its gradient is this many times that of another where they first meet."""
MOST_TERMS = 32
_ADDS = ("Add", "Sub")
_PASSES = ("Add", "Sub", "Mul", "Div", "Neg")


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Two terms at a node."""

    node: int
    large: int
    """the edge at which the stronger one branches off the sum"""
    small: int
    norms: tuple[float, float]


def dominance(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """The first node in engine order at which terms meet, when one is far larger: an info, as that may be meant."""
    if tape.failure is not None or len(graph.roots) != 1 or graph.roots[0].node == UNKNOWN:
        return
    terms = _terms(graph, graph.roots[0].node)
    if not 2 <= len(terms) <= MOST_TERMS:
        return
    meeting = _first_meeting(graph, tape, terms)
    if meeting is None or not meeting.norms[0] > TIMES * meeting.norms[1]:
        return
    large, small = (graph.target[edge] for edge in (meeting.large, meeting.small))
    norms = f"{meeting.norms[0]:.3g} against {meeting.norms[1]:.3g}"
    where = f"where they meet, in {name(graph, meeting.node)}"
    message = f"the term {_term(graph, large)} outweighs {_term(graph, small)} {where}: {norms}"
    hint = "if both are to count, weigh them: mean instead of sum, a smaller factor, or one factor a term that balances the norms"
    related = [place for node in (large, small) for place in at_origin(graph.origin(node), "a term")]
    yield at_node(graph, meeting.node, KIND, "info", message, hint, related=related)


def _terms(graph: BackwardGraph, root: int) -> list[int]:
    """The edges at which terms branch off a sum of scalars below the root."""
    terms: list[int] = []
    todo = [(root, UNKNOWN)]
    while todo:
        node, came = todo.pop()
        edges = graph.out_edges(node)
        scalar = graph.shape(node) in ((), (1,))
        if scalar and graph.short(node) in _ADDS and len(edges) > 1:
            todo += [(graph.target[edge], edge) for edge in edges]
        elif scalar and graph.short(node) in _PASSES and len(edges) == 1:
            todo.append((graph.target[edges[0]], edges[0]))
        elif came != UNKNOWN:
            terms.append(came)
        if len(terms) > MOST_TERMS:
            break
    return terms


def _first_meeting(graph: BackwardGraph, tape: Tape, terms: list[int]) -> _Meeting | None:
    """The first node that gets a contribution of one term alone, and another of another one alone."""
    of_edge = {edge: 1 << place for place, edge in enumerate(terms)}
    made_of = array("Q", bytes(8 * len(graph)))
    """by node: the terms that what arrives there is made of, as bits"""
    for step in range(1, tape.steps + 1):
        for index in tape.sent_range(step - 1):
            edge = tape.contribution_edge[index]
            if edge >= 0:
                made_of[graph.target[edge]] |= of_edge.get(edge, made_of[graph.source[edge]])
        node = tape.node_at(step)
        # more than one term; a penalty that meets a loss at the very weight is meant to be small
        if made_of[node] & (made_of[node] - 1) and graph.leaf_at(node) is None:
            edges = [edge for edge in graph.in_edges(node) if tape.contribution_of_edge(edge) is not None]
            masks = {edge: of_edge.get(edge, made_of[graph.source[edge]]) for edge in edges}
            if len(edges) > 1:
                return _compared(tape, terms, masks)
    return None


def _compared(tape: Tape, terms: list[int], masks: dict[int, int]) -> _Meeting | None:
    """The strongest of the terms that come to a node by themselves, and the weakest."""
    squares: dict[int, float] = {}
    for edge, mask in masks.items():
        sent = tape.contribution_of_edge(edge)
        norm = math.nan if sent is None or sent.tensor == NO_TENSOR else tape.norm(sent.tensor)
        if mask.bit_count() == 1 and 0 < norm < math.inf:
            squares[mask] = squares.get(mask, 0.0) + norm * norm
    if len(squares) < 2:
        return None
    large, small = max(squares, key=squares.__getitem__), min(squares, key=squares.__getitem__)
    node = tape.graph.target[next(iter(masks))]
    edges = [terms[mask.bit_length() - 1] for mask in (large, small)]
    return _Meeting(node, edges[0], edges[1], (math.sqrt(squares[large]), math.sqrt(squares[small])))


def _term(graph: BackwardGraph, node: int) -> str:
    origin = graph.origin(node)
    if origin is None:
        return graph.op(node)
    return f"{origin.target or graph.makes(node) or graph.op(node)} (line {origin.line})"
