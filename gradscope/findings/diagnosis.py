"""All that can be told from a graph and one pass over it."""

from __future__ import annotations

from collections.abc import Iterable

from gradscope.findings.accumulation import accumulation
from gradscope.findings.broadcast import broadcast
from gradscope.findings.custom import custom
from gradscope.findings.cuts import cuts
from gradscope.findings.cycles import reference_cycle
from gradscope.findings.dominance import dominance
from gradscope.findings.finding import SEVERITIES, Finding, Related
from gradscope.findings.freed import freed
from gradscope.findings.gains import gains
from gradscope.findings.growing import growing
from gradscope.findings.inplace import inplace
from gradscope.findings.missing import missing, partial
from gradscope.findings.no_graph import hollow
from gradscope.findings.nonfinite_forward import nonfinite
from gradscope.findings.ownership import unowned
from gradscope.findings.raised import raised
from gradscope.findings.recompute import recompute
from gradscope.findings.record import hook_changed, not_exact
from gradscope.findings.shared import shared_storage
from gradscope.findings.stale_hooks import stale_hooks
from gradscope.findings.underflow import underflow
from gradscope.findings.zeros import zeros
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape


def diagnose(graph: BackwardGraph, tape: Tape, *, inputs: bool = False, call: Related | None = None) -> list[Finding]:
    """What is wrong in a pass, worst first.

    Args:
        graph: what the call differentiates.
        tape: the pass.
        inputs: the call named the tensors to differentiate for.
        call: where it was made; findings about its seeds and inputs point there.
    """
    calls = () if call is None else (call,)
    return worst_first(
        (
            *not_exact(graph, tape),
            *raised(graph, tape, calls),
            *freed(graph, tape),
            *recompute(graph, tape),
            *custom(graph, tape),
            *partial(graph, tape),
            *_nothing_twice((*nonfinite(graph, tape), *inplace(graph, tape), *underflow(graph, tape)), zeros(graph, tape, calls)),
            *hollow(graph, tape, inputs, calls),
            *cuts(graph, tape, inputs, calls),
            *missing(graph, tape, inputs, calls),
            *unowned(graph, tape, inputs),
            *shared_storage(graph, tape),
            *broadcast(graph, tape),
            *gains(graph, tape),
            *hook_changed(graph, tape),
            *stale_hooks(graph, tape),
            *growing(graph, tape, calls),
            *reference_cycle(graph, tape, calls),
            *accumulation(graph, tape, calls),
            *dominance(graph, tape),
        )
    )


def _nothing_twice(first: Iterable[Finding], then: Iterable[Finding]) -> list[Finding]:
    """The first ones, and of the others those of other nodes: why a gradient becomes zero there has been told."""
    known = list(first)
    nodes = {finding.node for finding in known}
    return [*known, *(finding for finding in then if finding.node not in nodes)]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Errors before warnings before infos; within these the order that they have."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
