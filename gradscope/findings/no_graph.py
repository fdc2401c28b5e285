"""Roots that cannot be differentiated, or that lead to no leaf that anyone trains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.findings.cut_kinds import CASTS, HINT_FLAT, kind_of
from gradscope.findings.cut_kinds import related as place_of
from gradscope.findings.finding import Finding, Related
from gradscope.findings.place import at_node, written
from gradscope.findings.wanting import hollow_roots, wanting
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import GraphColumns, Root
from gradscope.model.facts import CallFacts, Cut
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape

KIND = "no-graph"
_LEAF = "if it is to be differentiated for, x = torch.tensor(..., requires_grad=True) before anything is computed from it"
_NOTHING = "compute it from tensors with requires_grad=True, outside no_grad and without detach() or item()"
_MODE = (
    "switch gradients on again there, also when the function returns early or raises: `with torch.no_grad():` does so by itself"
)
_CONSTANT = "its own derivative is zero everywhere: take torch.zeros_like(x) for it, or differentiate the sum with other terms"
_HACK = "take the requires_grad_() out, so that torch tells of the cut, and then the cut: {}"


def without_graph(columns: GraphColumns, call: Related) -> Iterator[Finding]:
    """Why the first root of a call that has no graph has none. Torch refuses such a call."""
    place = next((place for place, root in enumerate(columns.roots) if root.node == UNKNOWN), None)
    if place is None:
        return
    message, hint, related, leaf = _reason(columns, place, columns.roots[place], call.file)
    yield Finding(KIND, "error", message, hint, file=call.file, line=call.line, related=related, leaf=leaf)


def _reason(columns: GraphColumns, place: int, root: Root, here: str) -> tuple[str, str, tuple[Related, ...], str]:
    """Message, hint, the other place, and the leaves behind it."""
    facts, known = columns.facts, columns.facts.flat_roots.get(place, "")
    none = f"{root.name} has no graph, so nothing can be differentiated"
    cut, surely = _cut_of(facts, place)
    if known == "flat":
        behind = [cut] if cut is not None and surely else []
        leaves = ", ".join(columns.leaves[leaf].name for one in behind for leaf in one.leaves)
        return _flat(root), HINT_FLAT, tuple(map(place_of, behind)), leaves
    by_the_mode = cut is not None and cut.kind in ("no_grad", "inference_mode") and facts.grad_mode_off is not None
    if cut is not None and surely and not by_the_mode:
        return _cut_off(columns, none, cut, here, surely=True)
    if facts.grad_mode_off is not None:
        off = facts.grad_mode_off
        message = f"{none}: gradients have been switched off since {written(off, here)}"
        return message, _MODE, (Related(off.file, off.line, off.expression or off.code or "switches gradients off"),), ""
    if known == "constant":
        message = f"{none}: it is a derivative that does not depend on what one differentiates for, so it is a constant"
        return message, _CONSTANT, (), ""
    if known == "leaf":
        return f"{none}: no operation of this script's made it, and it does not require a gradient itself", _LEAF, (), ""
    if cut is not None:
        return _cut_off(columns, none, cut, here, surely=False)
    return f"{none}: nothing that it was made of requires a gradient", _NOTHING, (), ""


def _flat(root: Root) -> str:
    return f"{root.name} is a tensor of {root.dtype}, and only floating point and complex tensors have gradients"


def _cut_of(facts: CallFacts, place: int) -> tuple[Cut | None, bool]:
    """The last cut that the root is known to have come of, else the last one that may be meant."""
    own = [cut for cut in facts.cuts if place in cut.roots]
    if own:
        return own[-1], own[-1].certain
    others = [cut for cut in facts.cuts if cut.kind not in CASTS] or facts.cuts
    return (others[-1] if others else None), False


def _cut_off(columns: GraphColumns, none: str, cut: Cut, here: str, *, surely: bool) -> tuple[str, str, tuple[Related, ...], str]:
    kind = kind_of(cut)
    because = "" if surely else "maybe because "
    leaf = ", ".join(columns.leaves[leaf].name for leaf in cut.leaves)
    return f"{none}: {because}{written(cut.origin, here)} {kind.does}", kind.hint, (place_of(cut),), leaf


def hollow(graph: BackwardGraph, tape: Tape, inputs: bool = False, calls: Sequence[Related] = ()) -> Iterator[Finding]:
    """Roots that are leaves of their own, while others wait for a gradient: `requires_grad_()` on a loss whose graph was cut."""
    roots = hollow_roots(graph)
    waiting = [leaf for leaf in wanting(graph, tape, inputs) if graph.leaves[leaf.place].owner or leaf.severity == "warning"]
    if not waiting:
        return
    here = calls[0].file if calls else ""
    for place in roots:
        root = graph.roots[place]
        own = [cut for cut in graph.columns.facts.cuts if place in cut.roots]
        alone = f"{root.name} is a leaf itself, so this call brings a gradient to nothing else"
        if own:
            cut = own[-1]
            message = f"{alone}: {written(cut.origin, here or cut.origin.file)} {kind_of(cut).does}"
            hint = _HACK.format(kind_of(cut).hint)
            yield at_node(graph, root.node, KIND, "warning", message, hint, related=(place_of(cut),))
        else:
            message = f"{alone}: requires_grad_() makes a tensor a leaf, it gives it no graph"
            yield at_node(graph, root.node, KIND, "info", message, _HACK.format(_NOTHING), related=calls)
