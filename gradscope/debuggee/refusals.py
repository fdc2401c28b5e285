"""Findings for calls that torch refuses before anything runs."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.explore import GivenSeed
from gradscope.debuggee.subject import Subject
from gradscope.findings.finding import Finding, Related
from gradscope.findings.no_graph import without_graph
from gradscope.findings.refused_seeds import refused_seed
from gradscope.model.facts import SeedGiven
from gradscope.protocol.messages import Call


def findings_of(call: BackwardCall, site: Call, subject: Subject) -> Iterator[Finding]:
    """What is wrong with a call that torch will refuse; nothing where it takes it."""
    place = Related(site.file, site.line, "the call")
    if call.reason == "seed":
        yield from refused_seed(subject.columns.roots, list(map(_given, subject.seeds)), call.detail, place)
    elif call.reason == "no-graph":
        yield from without_graph(subject.columns, place)


def _given(seed: GivenSeed) -> SeedGiven | None:
    if not isinstance(seed.tensor, torch.Tensor):
        return None
    return SeedGiven(tuple(seed.tensor.shape), str(seed.tensor.dtype).removeprefix("torch."), seed.expression)
