"""What the running script knows of a backward call: where the graph was cut, what came before, what is shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradscope.debuggee import optimizers, tensor_hooks
from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.boundaries import Boundary
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.derivative_variables import is_derivative
from gradscope.debuggee.history import History
from gradscope.debuggee.names import Names
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.reducers import wrappers_of
from gradscope.debuggee.shared_storage import overlapping
from gradscope.debuggee.timeline import CallEvent
from gradscope.model.columns import Leaf
from gradscope.model.facts import Broadcast, CallFacts, Cut, EarlierCall, Shared, StaleHook, View
from gradscope.model.places import UNKNOWN, Origin

_EARLIER = 32
"""calls told, the last ones"""
_CUTS = 500
"""places told that cut, the last ones"""
_READS = ("detach", "data", "copy", "numpy", "tolist")
"""cuts that, made of a leaf itself, are for the most part for a look at its values"""


@dataclass(frozen=True, slots=True)
class Ends:
    """The leaves of a call as they are told, with their tensors: those in the graph first, then those the pass cannot reach."""

    leaves: Sequence[Leaf]
    tensors: Sequence[Any]
    """None where there is no tensor"""


def call_facts(
    call: BackwardCall, captured: Captured, ends: Ends, names: Names, origins: Origins | None, history: History
) -> CallFacts:
    """Collect them, and note that the call has been looked at. No tensor and no node is kept.

    Args:
        call: as it stands, before it runs.
        captured: its graph.
        ends: its leaves.
        names: in force there.
        origins: what was seen of the forward; None where nobody looked.
        history: what happened before.
    """
    event = history.timeline.event(call.number)
    facts = CallFacts()
    with torch._C.DisableTorchFunctionSubclass():
        if event is not None:
            _tell_of_before(facts, call, captured, ends, event, history)
        facts.names = dict(_names(captured, names))
        facts.shared = list(_shared(ends, origins))
        facts.stale_hooks = list(_stale_hooks(captured, names, origins))
        facts.create_graph = call.accumulates and call.create_graph
        facts.awaited = list(_awaited(ends))
        facts.views = list(_views(captured, names, origins))
        facts.optimizers = sorted({type(one).__name__ for one in optimizers.all_of_them(torch)})
        facts.flat_roots = dict(_flat_roots(call, names))
        if origins is not None:
            facts.broadcasts = list(_broadcasts(captured, origins))
            facts.grad_mode_off = _origin_of(origins, origins.grad_mode.off)
            last = None if event is None else history.timeline.before_at_same_line(event)
            facts.cuts = _cuts(call, ends, origins, 0 if last is None else last.mark)
    return facts


# ---------------------------------------------------------------- what came before


def _tell_of_before(
    facts: CallFacts, call: BackwardCall, captured: Captured, ends: Ends, event: CallEvent, history: History
) -> None:
    timeline = history.timeline
    facts.earlier = [one.told() for one in timeline.before(event)[-_EARLIER:]]
    last = timeline.before_at_same_line(event)
    if last is not None:
        old = [(number, node) for node, number in enumerate(captured.sequence_nr) if 0 <= number < last.sequence_nr]
        facts.old_nodes, facts.bridge = len(old), max(old, default=(0, UNKNOWN))[1]
    if call.accumulates:  # autograd.grad adds nothing to what is there
        facts.histories = history.leaves.of(event, ends.tensors)
    facts.trained = [
        place
        for place, (leaf, tensor) in enumerate(zip(ends.leaves, ends.tensors, strict=True))
        if leaf.node == UNKNOWN and tensor is not None and history.leaves.filled_before(tensor)
    ]
    facts.earlier = _with_those_that_filled(facts, history)
    if call.reason != "call":
        return
    timeline.call_looked_at(event, _run_through(captured), len(captured), facts.old_nodes)
    if call.accumulates:
        targets = (captured.leaves[place] for place in captured.targets())
        history.leaves.fills(event, [leaf.variable for leaf in targets if leaf.variable is not None and leaf.variable.is_leaf])


def _with_those_that_filled(facts: CallFacts, history: History) -> list[EarlierCall]:
    """The calls told, and before them the first of those that filled each leaf, however long ago they were."""
    told = {one.number for one in facts.earlier}
    first = {one.filled_by[0] for one in facts.histories if one.filled_by} - told
    older = [event.told() for event in history.timeline.calls if event.number in first]
    return [*older, *facts.earlier]


def _run_through(captured: Captured) -> Iterator[int]:
    """The numbers of the nodes that a pass runs through."""
    needed = captured.plan.needed
    return (number for node, number in enumerate(captured.sequence_nr) if needed is None or needed[node])


# ---------------------------------------------------------------- what the forward did


def _cuts(call: BackwardCall, ends: Ends, origins: Origins, since: int) -> list[Cut]:
    """Those since the call before at the same line, in one round of the script's loop, and those that a root came of."""
    places = {id(tensor): place for place, tensor in enumerate(ends.tensors) if tensor is not None}
    found: dict[tuple[str, int, str], Cut] = {}

    def add(one: Boundary, roots: tuple[int, ...] = (), certain: bool = True) -> None:
        origin = origins.places.origin(one.place)
        key = origin.file, origin.line, one.kind
        behind = {places[number] for leaf in one.leaves if (number := id(leaf())) in places}
        known = found.pop(key, None)
        if known is not None:
            behind |= set(known.leaves)
            origin, roots, certain = known.origin, (*known.roots, *roots), known.certain and certain
        found[key] = Cut(one.kind, origin, tuple(sorted(behind)), roots, certain)

    for one in origins.boundaries.since(since)[-_CUTS:]:
        add(one, certain=one.source != UNKNOWN or one.kind not in _READS)
    for place, root in enumerate(call.roots):
        cut = origins.boundaries.of(root) if isinstance(root, torch.Tensor) else None
        if cut is not None:
            add(cut, (place,), cut.certain)
    return list(found.values())


def _broadcasts(captured: Captured, origins: Origins) -> Iterator[Broadcast]:
    for node, number in enumerate(captured.sequence_nr):
        expansion = origins.broadcasts.of(number) if number >= 0 else None
        if expansion is not None:
            yield Broadcast(node, expansion.shapes, expansion.result)


def _origin_of(origins: Origins, place: int | None) -> Origin | None:
    return None if place is None or place < 0 else origins.places.origin(place)


# ---------------------------------------------------------------- tensors that are alive


def _names(captured: Captured, names: Names) -> Iterator[tuple[int, str]]:
    """What holds the tensor that a node made."""
    made = {id(node): number for number, node in enumerate(captured.nodes)}
    for tensor, variable in names.inner():
        node = made.get(id(tensor.grad_fn))
        if node is not None:
            yield node, variable


def _shared(ends: Ends, origins: Origins | None) -> Iterator[Shared]:
    """Leaves that want a gradient, two and two."""
    wanted = [None if tensor is None or not _is_wanting(tensor) else tensor for tensor in ends.tensors]
    for one, other in overlapping(wanted):
        cut = None
        if origins is not None:
            cut = origins.boundaries.of(wanted[one]) or origins.boundaries.of(wanted[other])
        place = min(one, other)
        name = ends.leaves[max(one, other)].name
        yield Shared(place, name, None if cut is None or origins is None else _origin_of(origins, cut.place))


def _awaited(ends: Ends) -> Iterator[int]:
    """The leaves of which a DistributedDataParallel that looks for no unused ones expects a gradient in this call."""
    wrappers = wrappers_of([tensor for tensor in ends.tensors if tensor is not None])
    for place, tensor in enumerate(ends.tensors):
        wrapper = wrappers.get(id(tensor))
        if (
            wrapper is not None
            and wrapper.require_backward_grad_sync
            and not (wrapper.find_unused_parameters or wrapper.static_graph)
        ):
            yield place


def _stale_hooks(captured: Captured, names: Names, origins: Origins | None) -> Iterator[StaleHook]:
    """A hook stays with the node that had made the tensor when it was registered."""
    for node in sorted({node for node, _ in captured.foreign.hooked}):
        for _, number in captured.nodes[node].metadata.get(tensor_hooks.METADATA_KEY, ()):
            tensor = tensor_hooks.hooked.get(number)
            now = None if tensor is None else tensor.grad_fn
            if tensor is not None and now is not None and now is not captured.nodes[node]:
                wrote = None if origins is None else origins.lookup(now._sequence_nr(), now.name())
                yield StaleHook(node, names.tensor(tensor), wrote)


def _is_wanting(tensor: Any) -> bool:
    return bool(tensor.requires_grad and tensor.is_leaf)


def _views(captured: Captured, names: Names, origins: Origins | None) -> Iterator[View]:
    """Tensors of `inputs=` that no pass reaches, though what they are views of is in the graph."""
    nodes = set(map(id, captured.nodes))
    leaves = {id(leaf.variable) for leaf in captured.leaves if leaf.node != UNKNOWN and leaf.variable is not None}
    for place, leaf in enumerate(captured.leaves):
        tensor = leaf.variable
        base = None if tensor is None or leaf.node != UNKNOWN else tensor._base
        if base is None or not (id(base) in leaves or (base.grad_fn is not None and id(base.grad_fn) in nodes)):
            continue
        made = None if tensor is None or tensor.grad_fn is None else tensor.grad_fn._sequence_nr()
        yield View(place, names.tensor(base), None if origins is None or made is None else origins.lookup(made))


def _flat_roots(call: BackwardCall, names: Names) -> Iterator[tuple[int, str]]:
    frame = call.script_frame
    for place, root in enumerate(call.roots):
        if not isinstance(root, torch.Tensor) or root.requires_grad:
            continue
        if not (root.is_floating_point() or root.is_complex()):
            yield place, "flat"
        elif root.is_leaf:
            constant = frame is not None and is_derivative(frame.f_code, names.tensor(root))
            yield place, "constant" if constant else "leaf"
