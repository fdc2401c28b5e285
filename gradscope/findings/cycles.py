"""Gradients that keep the graph which they belong to alive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import listed
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape

KIND = "reference-cycle"


def reference_cycle(graph: BackwardGraph, tape: Tape, calls: Sequence[Related] = ()) -> Iterator[Finding]:
    """backward(create_graph=True) fills `.grad` with tensors whose graph leads back to the leaf."""
    names = [leaf.name for leaf in graph.reached if tape.step_of(leaf.node)]
    if not graph.columns.facts.create_graph or tape.failure is not None or not names:
        return
    first, one = names[0], len(names) == 1
    message = (
        f"backward(create_graph=True) leaves {'a gradient' if one else 'gradients'} with a graph in .grad of {listed(names)}: "
        f"that graph leads back to {'it' if one else 'them'}, so neither is freed until {first}.grad is set to None"
    )
    hint = "torch.autograd.grad(loss, inputs, create_graph=True) gives them without .grad; or set .grad = None after use"
    file, line = (calls[0].file, calls[0].line) if calls else ("", 0)
    yield Finding(KIND, "info", message, hint, file=file, line=line, leaf=", ".join(names))
