"""Gradients that grow or shrink by orders of magnitude on their way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import at_node
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

GROWTH = 1e6
"""The largest leaf gradient is told to explode when it is this many times the seed, and one line makes most of it."""
SHRINKAGE = 1e-6
"""The smallest leaf gradient is told to vanish below this share of the largest, when one line makes most of it."""

MOST_LAYERS = 3
"""So many layers of a line are named, those that do most first."""


@dataclass(slots=True)
class _Line:
    """What the nodes of one line do together."""

    steps: int = 0
    log_gain: float = 0.0
    node: int = UNKNOWN
    """the one that does most of it"""
    most: float = 0.0
    runs: dict[int, float] = field(default_factory=dict)
    """by run of the line: what its nodes do"""
    layers: dict[str, float] = field(default_factory=dict)
    """by path of the module that was running"""


def gains(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Exploding and vanishing gradients, with the line whose nodes do it."""
    norms = {place: tape.norm(tape.leaf_total(place)) for place in range(len(graph.reached))}
    norms = {place: norm for place, norm in norms.items() if 0 < norm < math.inf}
    seeds = [tape.norm(seed.tensor) for seed in tape.seeds]
    seed = max((norm for norm in seeds if 0 < norm < math.inf), default=0.0)
    if not norms or not seed:
        return
    largest, smallest = max(norms, key=norms.__getitem__), min(_largest_of_modules(graph, norms), key=norms.__getitem__)
    explodes, vanishes = norms[largest] > GROWTH * seed, norms[smallest] < SHRINKAGE * norms[largest]
    if not explodes and not vanishes:
        return
    lines = _lines(graph, tape)
    if explodes:
        line = max(lines, key=lambda line: line.log_gain, default=_Line())
        if line.log_gain > math.log(GROWTH) / 2:
            size = f"has norm {norms[largest]:.1e}, {norms[largest] / seed:.0e} times the seed's"
            yield _told(graph, "exploding", largest, size, line)
    elif vanishes:
        line = min(lines, key=lambda line: line.log_gain, default=_Line())
        if line.log_gain < math.log(SHRINKAGE) / 2:
            size = f"has norm {norms[smallest]:.1e}, that of {graph.leaves[largest].name} {norms[largest]:.1e}"
            yield _told(graph, "vanishing", smallest, size, line)


def _largest_of_modules(graph: BackwardGraph, norms: Mapping[int, float]) -> Iterable[int]:
    """Of each module the leaf with the most gradient: a bias before a softmax or a normalisation has none by its nature."""
    largest: dict[str, int] = {}
    for leaf in sorted(norms, key=norms.__getitem__):
        name = graph.leaves[leaf].name
        largest[name.rpartition(".")[0] or name] = leaf
    return largest.values()


def _gain(graph: BackwardGraph, tape: Tape, step: int, ends: set[int]) -> float:
    """Of what goes on: what a layer sends to its own weights says nothing of what the layers below get."""
    sent = tape.sent_by(step)
    onward = [one.tensor for one in sent if graph.target[one.edge] not in ends]
    if not onward or len(onward) == len(sent):
        return tape.gain_by_step[step]
    arrived = math.hypot(*(tape.norm(tensor) for _, tensor in tape.arrivals(tape.node_at(step)) if tensor != NO_TENSOR))
    went_on = math.hypot(*(tape.norm(tensor) for tensor in onward if tensor != NO_TENSOR))
    return went_on / arrived if arrived else math.nan


def _ends(graph: BackwardGraph, tape: Tape) -> set[int]:
    """Nodes from which one way leads, straight to a leaf."""
    ends: set[int] = set()
    for node in reversed(tape.step_node):
        edges = graph.out_edges(node)
        if graph.leaf_at(node) is not None or (len(edges) == 1 and graph.target[edges[0]] in ends):
            ends.add(node)
    return ends


def _lines(graph: BackwardGraph, tape: Tape) -> list[_Line]:
    lines: dict[tuple[str, int], _Line] = {}
    ends = _ends(graph, tape)
    for step, node in enumerate(tape.step_node, 1):
        origin = graph.origin_index(node)
        gain = math.nan if origin == UNKNOWN else _gain(graph, tape, step, ends)
        if not 0 < gain < math.inf:
            continue
        made = graph.columns.origins[origin]
        line = lines.setdefault((made.file, made.line), _Line())
        change = math.log(gain)
        line.steps += 1
        line.log_gain += change
        run = graph.occurrence(node)
        line.runs[run] = line.runs.get(run, 0.0) + change
        line.layers[made.module] = line.layers.get(made.module, 0.0) + change
        if line.node == UNKNOWN or abs(change) > line.most:
            line.node, line.most = node, abs(change)
    return list(lines.values())


def _told(graph: BackwardGraph, kind: str, leaf: int, size: str, line: _Line) -> Finding:
    name, origin = graph.leaves[leaf].name, graph.origin(line.node)
    assert origin is not None
    cause = _cause(graph, line, origin.line)
    hint = (
        "clip the gradient norm, or make the repeated factor smaller (weights, normalisation)"
        if kind == "exploding"
        else "a chain of small factors: other activations, normalisation, residual connections, a larger initialisation"
    )
    related = [Related(origin.file, origin.line, cause)]
    return at_node(graph, line.node, kind, "warning", f"the gradient of {name} {size}: {cause}", hint, leaf=name, related=related)


def _cause(graph: BackwardGraph, line: _Line, number: int) -> str:
    """What the line does in all, and at each of its runs."""
    whole = f"{math.exp(min(line.log_gain, 700.0)):.0e}"
    if len(line.layers) > 1:
        worst = sorted(line.layers, key=line.layers.__getitem__, reverse=line.log_gain > 0)[:MOST_LAYERS]
        each = ", ".join(f"{layer or 'the line itself'} by {math.exp(line.layers[layer]):.2g}" for layer in worst)
        return f"the layers of line {number} multiply it by {whole} in all, most of it {each}"
    if len(line.runs) > 1:
        each = f"{math.exp(min(median(line.runs.values()), 700.0)):.3g}"
        return f"line {number} multiplies it by {each} at each of its {len(line.runs)} runs, {whole} in all"
    if line.steps > 1:
        return f"the {line.steps} nodes of line {number} multiply it by {whole}"
    return f"the node of line {number} multiplies it by {whole}"
