"""Small passes for the rules of findings: a chain of nodes at numbered lines, and passes that broke off."""

from __future__ import annotations

from collections.abc import Sequence

import graphs

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Failure
from gradscope.model.places import Origin
from gradscope.model.tape import Tape

FILE = "/home/ada/bug.py"


def at(line: int, code: str = "", **more: str) -> Origin:
    """A place of the person's."""
    return Origin(FILE, line, more.pop("function", "<module>"), code=code, **more)


def chain(*steps: tuple[str, int, str], shape: tuple[int, ...] = (3,), leaf: str = "w", owner: str = "SGD[0]") -> graphs.Drawing:
    """A leaf and nodes above it in forward order, each with its op, line and code; node numbers count from 1."""
    drawing = graphs.Drawing()
    below = drawing.leaf(leaf, shape, owner=owner)
    for op, line, code in steps:
        node = drawing.node(op, shape, drawing.origin(FILE, line, code))
        drawing.edge(node, below)
        below = node
    drawing.root(below)
    return drawing


def failed(drawing: graphs.Drawing, node: int, message: str, kind: str = "RuntimeError") -> tuple[BackwardGraph, Tape]:
    """A pass over a chain that the given node ended: what lies below it did not run."""
    graph = drawing.graph()
    columns = drawing.tape(graph, [(1.0,) * 3]).columns
    ran = list(memoryview(columns.step_node).cast("i"))
    steps = ran.index(node) if node in ran else 0
    columns.step_node = columns.step_node[: 4 * steps]
    kept = sum(1 for step in memoryview(columns.contribution_step).cast("i") if step <= steps)
    for name in ("step", "edge", "tensor", "so_far"):
        setattr(columns, f"contribution_{name}", getattr(columns, f"contribution_{name}")[: 4 * kept])
    columns.arrival_step, columns.arrival_input_nr, columns.arrival_tensor = (
        column[: 4 * steps] for column in (columns.arrival_step, columns.arrival_input_nr, columns.arrival_tensor)
    )
    columns.failure = Failure(node, kind, message, "")
    return graph, Tape(columns, graph)


def passed(drawing: graphs.Drawing, seed: Sequence[float] = (1.0, 1.0, 1.0), **more: object) -> tuple[BackwardGraph, Tape]:
    """A pass that came to its end."""
    graph = drawing.graph()
    return graph, drawing.tape(graph, [tuple(seed)], **more)  # type: ignore[arg-type]
