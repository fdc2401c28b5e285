"""Gradients and optimizers that do not meet: a parameter gets a gradient and nobody steps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradscope.findings.finding import Finding
from gradscope.findings.place import at_node, listed
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Leaf
from gradscope.model.places import UNKNOWN, Origin
from gradscope.model.tape import Tape

KIND = "unowned-leaf"


def unowned(graph: BackwardGraph, tape: Tape, inputs: bool = False) -> Iterator[Finding]:
    """Parameters that get a gradient and are in no optimizer, where one steps other parameters.

    It is a warning where it steps reached parameters of the same top-level module: then some were forgotten. Where none of
    that module's is stepped, it may be another's turn, or a network that is only passed through.
    """
    owned = [leaf for leaf in graph.reached if leaf.owner]
    if inputs or tape.failure is not None:
        return
    if not owned:
        yield from _past_the_optimizers(graph, tape)
        return
    tops = {top for leaf in owned for top in _tops(leaf)}
    left = [leaf for leaf in graph.reached if leaf.kind == "parameter" and not leaf.owner and tape.step_of(leaf.node)]
    forgotten = [leaf for leaf in left if not tops.isdisjoint(_tops(leaf))]
    others = [leaf for leaf in left if leaf not in forgotten]
    if forgotten:
        yield _told(graph, forgotten, owned, "warning")
    if others:
        yield _told(graph, others, owned, "info")


def _past_the_optimizers(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Parameters that get a gradient where all that the optimizers step gets none: a copy of the network, or a new one."""
    waiting = [leaf for leaf in graph.leaves if leaf.owner and leaf.requires_grad]
    left = [leaf for leaf in graph.reached if leaf.kind == "parameter" and tape.step_of(leaf.node)]
    if waiting and left:
        yield _told(graph, left, waiting, "info")


def _tops(leaf: Leaf) -> set[str]:
    """The modules at the top that hold the leaf: `net` of `net.blocks[0].weight`. A name without a path has none."""
    return {name.partition(".")[0].partition("[")[0] for name in (leaf.name, *leaf.aliases) if "." in name}


def _told(graph: BackwardGraph, leaves: Sequence[Leaf], owned: Sequence[Leaf], severity: str) -> Finding:
    names = sorted(leaf.name for leaf in leaves)
    optimizer = owned[0].owner.rpartition("[")[0]
    stay = "it stays as it is" if len(names) == 1 else "they stay as they are"
    have = "gets a gradient and is" if len(names) == 1 else "get a gradient and are"
    steps = f"{optimizer} steps {listed([leaf.name for leaf in owned], 2)}"
    though = f", though {steps}" if severity == "warning" else ""
    though = f", and {steps}, which this call does not reach" if owned[0].node == UNKNOWN else though
    message = f"{listed(names)} {have} in no optimizer{though}: {stay}"
    if any("[" in name for name in names):
        hint = (
            "a plain list or dict hides modules from parameters(): put them in an nn.ModuleList (nn.ModuleDict, "
            "nn.ParameterList), and make the optimizer after that"
        )
    else:
        hint = (
            "make the optimizer once all layers are there, or add_param_group() the new ones; where they are to stay fixed, "
            "requires_grad_(False) says so and saves their gradients"
        )
    if owned[0].node == UNKNOWN:
        hint = "make the optimizer of the very parameters that the loss uses: after it is copied, made anew, moved or loaded"
    found = at_node(graph, leaves[0].node, KIND, severity, message, hint, leaf=", ".join(names))
    used = _used_at(graph, leaves[0])
    return found if found.line or used is None else replace(found, file=used.file, line=used.line)


def _used_at(graph: BackwardGraph, leaf: Leaf) -> Origin | None:
    """The forward line that uses the leaf: of a module's parameter the line that made it is not known."""
    return next((origin for edge in graph.in_edges(leaf.node) if (origin := graph.origin(graph.source[edge]))), None)
