"""The gradients that a row of the tape is about, by name: for full-screen values, and for copying."""

from __future__ import annotations

from gradscope.model import playhead
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.edge_names import sent_name
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.session.view import View

MOST = 24
"""names a person can still choose among"""


def tensors(view: View) -> list[tuple[str, int]]:
    """(name, tensor) of all that is there at the playhead: what arrives, what is sent, how far targets have come."""
    graph, tape, rows = view.graph, view.tape, view.rows
    if graph is None or tape is None or rows is None:
        return []
    first, last, node = rows.first(view.selection), rows.last(view.selection), rows.node(view.selection)
    if last <= 0:
        found = [(f"seed {_root_name(graph, tape, seed.root)}", seed.tensor) for seed in tape.seeds]
    elif node < 0:
        found = _arrives(view, graph, tape, tape.node_at(first)) + _sends(graph, tape, view.playhead, last)
    else:
        found = _arrives(view, graph, tape, node) + _sends(graph, tape, view.playhead, tape.step_of(node))
    return [(name, tensor) for name, tensor in dict.fromkeys(found) if tensor != NO_TENSOR][:MOST]


def _arrives(view: View, graph: BackwardGraph, tape: Tape, node: int) -> list[tuple[str, int]]:
    found, step = [], view.playhead
    for place in graph.leaves_at(node):
        leaf = graph.leaves[place]
        done, total = playhead.count_so_far(graph, tape, step, node, leaf.input_nr)
        name = view.gradient_of(leaf)
        found.append((f"{name} {'total' if done == total else 'so far'}", playhead.leaf_so_far(graph, tape, step, place)))
        if view.accumulates(leaf):
            found.append((f"{name} was", tape.leaf_before(place)))
        found += [
            (f"from {graph.short(one.source) if one.source != UNKNOWN else 'seed'}, step {one.step}", one.tensor)
            for one in playhead.slot(graph, tape, step, node, leaf.input_nr).done
        ]
    if found:
        return found
    name = graph.gradient_name(node)
    if 0 < tape.step_of(node) <= step:
        arrivals = tape.arrivals(node)
        return [(f"arrives {name or ''}".rstrip() if len(arrivals) == 1 else f"arrives slot {nr}", t) for nr, t in arrivals]
    slots = sorted({graph.input_nr[edge] for edge in graph.in_edges(node)})
    return [(f"so far {name}".rstrip(), playhead.sum_so_far(tape, step, node, nr)) for nr in slots]


def _sends(graph: BackwardGraph, tape: Tape, playhead_step: int, step: int) -> list[tuple[str, int]]:
    if not 0 < step <= playhead_step:
        return []
    found = []
    for one in tape.sent_by(step):
        target, input_nr = graph.target[one.edge], graph.input_nr[one.edge]
        name = sent_name(graph, one.edge) or graph.short(target)
        role = graph.role(one.edge)
        found.append((f"sends → {name}" + (f" ({role})" if role else ""), one.tensor))
        done, total = playhead.count_so_far(graph, tape, playhead_step, target, input_nr)
        if total > 1:
            found.append((f"{name} {done} of {total}", playhead.sum_so_far(tape, playhead_step, target, input_nr)))
    return found


def _root_name(graph: BackwardGraph, tape: Tape, root: int) -> str:
    return graph.roots[root].name if tape.columns.root == UNKNOWN else graph.short(tape.columns.root)
