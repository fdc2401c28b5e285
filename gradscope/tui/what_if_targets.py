"""What a what-if can change at a row: the gradient that arrives, or one contribution to it."""

from __future__ import annotations

from dataclasses import dataclass

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Change
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.session.view import View
from gradscope.tui.widgets.selected import selected

CODE_SHOWN = 36
"""characters of a node's code beside its what-if"""


@dataclass(frozen=True, slots=True)
class Target:
    """One gradient."""

    name: str
    """`∂b`, `∂x from Mul, step 3 (self)`"""
    node: int
    input_nr: int
    edge: int = UNKNOWN
    """UNKNOWN for all that arrives at the slot"""
    text: str = ""
    """the what-if that is there already"""


def targets(view: View) -> list[Target]:
    """All of the selected row: each gradient slot, then each contribution where a slot has several. Empty without a node."""
    row = selected(view)
    node = None if row is None else row.node
    if row is None or node is None:
        return []
    graph, tape = row.graph, row.tape
    slots = sorted({graph.input_nr[edge] for edge in graph.in_edges(node)} | {nr for nr, _ in tape.arrivals(node)})
    whole = [Target(gradient(graph, tape, node, nr, len(slots)), node, nr, UNKNOWN, _there(tape, node, nr)) for nr in slots]
    return whole + [one for target in whole for one in _contributions(graph, tape, target)]


def _contributions(graph: BackwardGraph, tape: Tape, whole: Target) -> list[Target]:
    came = tape.to(whole.node, whole.input_nr)
    if len(came) < 2:
        return []
    return [
        Target(
            f"{whole.name} {origin(graph, tape, one.edge)}",
            whole.node,
            whole.input_nr,
            one.edge,
            _there(tape, whole.node, whole.input_nr, one.edge),
        )
        for one in came
        if one.edge != UNKNOWN
    ]


def gradient(graph: BackwardGraph, tape: Tape, node: int, input_nr: int, slots: int) -> str:
    """`∂b`, `x.grad`; by the node, `what arrives at Add, step 60`, where the tensor has no name of its own."""
    name = graph.gradient_name(node) or f"what arrives at {graph.short(node)}, step {tape.step_of(node)}"
    return name if slots < 2 else f"{name} slot {input_nr}"


def origin(graph: BackwardGraph, tape: Tape, edge: int) -> str:
    """`from Mul, step 3 (self)`."""
    source, role = graph.source[edge], graph.role(edge)
    return f"from {graph.short(source)}, step {tape.step_of(source)}" + (f" ({role})" if role else "")


def spoken(graph: BackwardGraph, tape: Tape, change: Change) -> str:
    """What a what-if changes, so that no two are called alike: `x.grad`, `∂h, step 12`, `x.grad from Mul, step 9 (self)`."""
    slots = len({graph.input_nr[edge] for edge in graph.in_edges(change.node)})
    name = gradient(graph, tape, change.node, change.input_nr, slots)
    if graph.leaf_at(change.node) is None and graph.gradient_name(change.node):
        name += f", step {tape.step_of(change.node)}"  # a loop gives many tensors one name
    return name if change.edge == UNKNOWN else f"{name} {origin(graph, tape, change.edge)}"


def code(graph: BackwardGraph, change: Change) -> str:
    """The forward code of the node whose gradient a what-if changes: `y + b`; empty for leaves and where unknown."""
    made = graph.makes(change.node)
    return made if len(made) <= CODE_SHOWN else f"{made[: CODE_SHOWN - 1]}…"


def _there(tape: Tape, node: int, input_nr: int, edge: int = UNKNOWN) -> str:
    place = node, input_nr, edge
    return next((one.text for one in tape.columns.changes if (one.node, one.input_nr, one.edge) == place), "")
