"""Places at which the graph was cut, and what lies behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gradscope.findings.cut_kinds import CASTS, kind_of, related
from gradscope.findings.finding import SEVERITIES, Finding, Related
from gradscope.findings.place import listed, written
from gradscope.findings.wanting import Wanting, hollow_roots, wanting
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.facts import Cut
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape

KIND = "cut"
_ON_THE_WAY = ("Add", "Sub", "Mul", "Div", "Neg", "Sum", "Mean")
"""What adds the terms of a loss up and weighs them."""
_MEANT = ("detach", "no_grad", "inference_mode", "parameter", "flat", "checkpoint", "data")
"""Cuts that cost a loss no term that it had: targets, baselines and straight-through estimators are made so on purpose."""


@dataclass(slots=True)
class _Place:
    """What one place cuts off."""

    cut: Cut
    surely: bool = True
    leaves: list[Wanting] = field(default_factory=list)


def cuts(graph: BackwardGraph, tape: Tape, inputs: bool = False, calls: Sequence[Related] = ()) -> Iterator[Finding]:
    """The places that cut leaves off which nothing reaches, and those that made a constant of a term of the loss."""
    places: dict[tuple[str, int], _Place] = {}
    for leaf in wanting(graph, tape, inputs):
        for cut, surely in cuts_before(graph, leaf.place):
            place = places.setdefault((cut.origin.file, cut.origin.line), _Place(cut))
            place.leaves.append(leaf)
            place.surely &= surely
    for place in places.values():
        yield _told(graph, place, calls)
    if tape.failure is None:
        yield from _lost_terms(graph, set(places), calls)


def cuts_before(graph: BackwardGraph, leaf: int) -> list[tuple[Cut, bool]]:
    """The cuts that keep a gradient from the leaf, as far as can be told, each with whether it surely does."""
    known = [cut for cut in graph.columns.facts.cuts if leaf in cut.leaves and (cut.roots or cut.kind != "no_create_graph")]
    if not known:
        return []
    best = max(map(_evidence, known))
    chosen = {(cut.origin.file, cut.origin.line): cut for cut in known if _evidence(cut) == best}
    surely = len(chosen) == 1 and all(cut.certain and (cut.roots or cut.kind not in CASTS) for cut in chosen.values())
    return [(cut, surely) for cut in chosen.values()]


def _evidence(cut: Cut) -> tuple[bool, bool, bool]:
    """How much speaks for it that a root of this call came of what was cut off."""
    return bool(cut.roots), cut.kind not in CASTS, cut.certain


def _told(graph: BackwardGraph, place: _Place, calls: Sequence[Related]) -> Finding:
    cut, kind = place.cut, kind_of(place.cut)
    names = [graph.leaves[leaf.place].name for leaf in place.leaves]
    none = f"{listed(names)} {'gets' if len(names) == 1 else 'get'} no gradient"
    where = written(cut.origin, calls[0].file if calls else cut.origin.file)
    message = f"{none}: {where} {kind.does}" if place.surely else f"{none}, maybe because {where} {kind.does}"
    severity = min((leaf.severity for leaf in place.leaves), key=SEVERITIES.index) if place.surely else "info"
    return _at_the_call(cut, severity, message, kind.hint, ", ".join(names), calls)


def _at_the_call(cut: Cut, severity: str, message: str, hint: str, leaf: str, calls: Sequence[Related]) -> Finding:
    """The line of such a finding is that of the call that asks for the gradient, for want of a node at fault."""
    file, line = (calls[0].file, calls[0].line) if calls else (cut.origin.file, cut.origin.line)
    return Finding(KIND, severity, message, hint, file=file, line=line, related=(related(cut),), leaf=leaf)


def _lost_terms(graph: BackwardGraph, told: set[tuple[str, int]], calls: Sequence[Related]) -> Iterator[Finding]:
    """Cuts that leave every leaf reached, while a term of the loss is a constant now."""
    if hollow_roots(graph):
        return
    sums = {place: sums for place in range(len(graph.roots)) if (sums := _with_constants(graph, place))}
    for cut in graph.columns.facts.cuts:
        roots = [place for place in sums if place in cut.roots]
        named = [place for place in sums if cut.kind in CASTS and any(_speaks_of(graph, node, cut) for node in sums[place])]
        where = (cut.origin.file, cut.origin.line)
        meant = cut.kind in _MEANT or not (roots or named or cut.kind == "no_create_graph")
        if meant or where in told or not sums:
            continue
        told.add(where)
        kind, name = kind_of(cut), graph.roots[(roots or named or list(sums))[0]].name
        surely = bool(roots or named) and cut.certain
        spoken_of = written(cut.origin, calls[0].file if calls else cut.origin.file)
        what = "is a constant that trains nothing" if surely else "may be a constant"
        severity = "warning" if surely and cut.kind == "no_create_graph" else "info"
        yield _at_the_call(cut, severity, f"a term of {name} {what}: {spoken_of} {kind.does}", kind.hint, "", calls)


def _with_constants(graph: BackwardGraph, root: int) -> list[int]:
    """The sums of scalars below the root that have a term without a graph."""
    todo, seen, found = [graph.roots[root].node], set(), []
    while todo:
        node = todo.pop()
        if node == UNKNOWN or node in seen or graph.short(node) not in _ON_THE_WAY or graph.shape(node) not in ((), (1,)):
            continue
        seen.add(node)
        edges = graph.out_edges(node)
        if graph.short(node) in ("Add", "Sub") and len(edges) == 1:
            found.append(node)
        todo += [graph.target[edge] for edge in edges]
    return found


def _speaks_of(graph: BackwardGraph, node: int, cut: Cut) -> bool:
    """The line of a sum adds the very number that the cut made, by the name that it was given or right there."""
    here, there = graph.origin(node), cut.origin
    if here is None or here.file != there.file:
        return False
    name = there.target or _assigned(there.code)
    return here.line == there.line or bool(name and re.search(rf"\b{re.escape(name)}\b", here.code.partition("=")[2]))


def _assigned(code: str) -> str:
    """`l2` of `l2 = sum(p.norm().item() for p in net.parameters())`, also of `l2 += ...`."""
    match = re.match(r"(\w+)\s*[-+*/]?=(?!=)", code)
    return match[1] if match else ""
