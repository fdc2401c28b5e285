"""Leaves that ought to get a gradient and do not, and leaves that got theirs before a pass broke off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gradscope.findings.cut_kinds import related as place_of
from gradscope.findings.cuts import cuts_before
from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import at_node, at_origin, listed, written
from gradscope.findings.wanting import Wanting, wanting
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Leaf
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR

KIND = "missing-gradient"
_REPLACED = "make the optimizer after the layers are replaced, moved or loaded, or add_param_group() the new ones"


def missing(graph: BackwardGraph, tape: Tape, inputs: bool = False, calls: Sequence[Related] = ()) -> Iterator[Finding]:
    """Leaves that want a gradient and get none, each with the reason. With `inputs` only those named in the call want one."""
    if tape.failure is not None:
        return
    yield from _Reasons(graph, calls).told(wanting(graph, tape, inputs))
    for place, leaf in enumerate(graph.reached):
        if leaf.requires_grad and tape.leaf_total(place) == NO_TENSOR and len(tape.indices_to(leaf.node, leaf.input_nr)):
            yield _undefined(graph, tape, leaf)
    yield from _awaited(graph, tape, calls)


@dataclass(frozen=True)
class _Reason:
    why: str
    hint: str
    related: tuple[Related, ...] = ()


@dataclass
class _Reasons:
    """Why the leaves of one graph are not in it."""

    graph: BackwardGraph
    calls: Sequence[Related]

    def told(self, wants: Iterable[Wanting]) -> Iterator[Finding]:
        """The findings about some leaves: one for those that lack it for the same reason and have the same owner."""
        alike: dict[tuple[_Reason, str, str, bool], list[Leaf]] = {}
        for one in wants:
            leaf = self.graph.leaves[one.place]
            reason = self._cut(one.place) or self._view(one.place) or self._not_used(leaf)
            alike.setdefault((reason, one.severity, leaf.owner, one.asked), []).append(leaf)
        for (reason, severity, owner, asked), leaves in alike.items():
            yield self._told(reason, severity, owner, asked, leaves)

    def _told(self, reason: _Reason, severity: str, owner: str, asked: bool, leaves: Sequence[Leaf]) -> Finding:
        first, names, several = leaves[0], [leaf.name for leaf in leaves], len(leaves) > 1
        origin = self.graph.columns.origins[first.origin] if first.origin != UNKNOWN else None
        place = origin or (self.calls[0] if self.calls else None)  # of a module's parameter the line that made it is not known
        steps = f", though {owner} steps {'them' if several else 'it'}" if owner else ""
        return Finding(
            kind=KIND,
            severity=severity,
            message=f"{listed(names)} {'get' if several else 'gets'} no gradient{steps}: {reason.why}",
            hint=reason.hint,
            file=place.file if place else "",
            line=place.line if place else 0,
            related=(*reason.related, *(self.calls if asked else ())),
            leaf=", ".join(names),
        )

    def _cut(self, place: int) -> _Reason | None:
        known = cuts_before(self.graph, place)
        if not known:
            return None
        here = self.calls[0].file if self.calls else ""
        lines = " or ".join(f"{written(cut.origin, here or cut.origin.file)}" for cut, _ in known)
        surely = all(surely for _, surely in known)
        why = f"the graph is cut at {lines}" if surely else f"the graph may be cut at {lines}"
        related = tuple(place_of(cut) for cut, _ in known)
        return _Reason(why, "it is not zero but None: no way leads there; the finding about the cut says what to do", related)

    def _view(self, place: int) -> _Reason | None:
        """A tensor that the call asks for and that was made of one in the graph, only after the forward had used that."""
        view = next((one for one in self.graph.columns.facts.views if one.leaf == place), None)
        if view is None:
            return None
        base = view.base or "another tensor"
        where = f"line {view.origin.line}" if view.origin else "a line"
        related = at_origin(view.origin, f"makes this view of {base}")
        why = f"{where} makes it anew as a view of {base}, and {self._roots} was computed from {base}, not from this view"
        hint = f"ask for the gradient of {base} and take the part of that, or make the view before the forward and use it there"
        return _Reason(why, hint, related)

    def _not_used(self, leaf: Leaf) -> _Reason:
        module = next((path for path in map(_module_of, (leaf.name, *leaf.aliases)) if path), "")
        hint = (
            "this is right where another loss trains it; else use it in the forward, or look for a cut on the way: detach(), "
            ".data, .item(), NumPy, no_grad, a new tensor made of values"
        )
        if leaf.owner and leaf.name.startswith(f"{leaf.owner}."):  # `SGD[0].params[2]`: the optimizer alone knows it
            return _Reason(f"nothing but {leaf.owner} is known to hold it, and {self._roots} does not use it", _REPLACED)
        if not module or not self._modules:
            return _Reason(f"{self._roots} uses nothing of it, so this call's graph does not lead to it", hint)
        if any(_same_module(module, other) for other in self._modules):
            return _Reason(f"{module} ran and did not use it, or its graph was cut", hint)
        return _Reason(f"{self._roots} uses nothing that {module} makes: it did not run, or its result was not used", hint)

    @cached_property
    def _roots(self) -> str:
        return listed([root.name for root in self.graph.roots])

    @cached_property
    def _modules(self) -> set[str]:
        """The paths of the modules that made nodes of this graph."""
        origins = self.graph.columns.origins
        used = {self.graph.origin_index(node) for node in range(len(self.graph))} - {UNKNOWN}
        return {origins[index].module for index in used} - {""}


def _module_of(name: str) -> str:
    """`net.aux` for `net.aux.weight`."""
    return name.rpartition(".")[0]


def _same_module(one: str, other: str) -> bool:
    """The same path, or one of them without its leading names."""
    return one == other or one.endswith(f".{other}") or other.endswith(f".{one}")


def _awaited(graph: BackwardGraph, tape: Tape, calls: Sequence[Related]) -> Iterator[Finding]:
    """What DistributedDataParallel makes of parameters without a gradient."""
    awaited = set(graph.columns.facts.awaited)
    names = [graph.leaves[leaf.place].name for leaf in wanting(graph, tape) if leaf.place in awaited]
    if names:
        message = (
            f"DistributedDataParallel waits for a gradient of each parameter, and {', '.join(names)} "
            f"{'gets' if len(names) == 1 else 'get'} none in this call: its next forward will raise an error"
        )
        hint = "use what they make in the loss, remove them, or wrap the module with find_unused_parameters=True"
        file, line = (calls[0].file, calls[0].line) if calls else ("", 0)
        yield Finding(KIND, "warning", message, hint, file=file, line=line, leaf=", ".join(names))


def _undefined(graph: BackwardGraph, tape: Tape, leaf: Leaf) -> Finding:
    contributions = tape.to(leaf.node, leaf.input_nr)
    senders = sorted({graph.op(one.source) for one in contributions if one.source != UNKNOWN})
    message = f"{leaf.name} is in the graph, but each of its {len(contributions)} contributions is undefined (None)"
    hint = f"{', '.join(senders)} sent no gradient for it: its derivative is undefined, or its backward returned None"
    severity = "warning" if leaf.owner or leaf.kind != "parameter" else "info"
    return at_node(graph, leaf.node, KIND, severity, message, hint if senders else "", leaf=leaf.name)


def partial(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """The leaves whose `.grad` was changed before the pass failed. A hook of a leaf's may itself be what failed."""
    failure = tape.failure
    if failure is None:
        return
    ran = [(place, leaf) for place, leaf in enumerate(graph.reached) if tape.step_of(leaf.node) and leaf.node != failure.node]
    leaves = [leaf for place, leaf in ran if _changed(tape, place)]
    if not leaves:
        return
    one, names = len(leaves) == 1, [leaf.name for leaf in leaves]
    surely = failure.node != UNKNOWN or tape.kind == "committed"
    took = f"got {'its gradient' if one else 'their gradients'}"
    took = took if surely else f"{'was' if one else 'were'} reached, and may have {took},"
    message = f"{listed(names)} {took} before the pass failed with {failure.type}; other leaves did not"
    hint = "a call that fails leaves these gradients in .grad: clear them before the next backward"
    yield at_node(graph, leaves[0].node, "partial-gradients", "warning", message, hint, leaf=", ".join(names))


def _changed(tape: Tape, leaf: int) -> bool:
    before, after = tape.leaf_before(leaf), tape.leaf_after(leaf)
    if NO_TENSOR in (before, after) or before == after:
        return before != after
    return tape.norm(before) != tape.norm(after) or tape.tensors.values(before) != tape.tensors.values(after)
