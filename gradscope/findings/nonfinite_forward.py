"""NaN and infinity that the forward made: the backward pass only spreads them, or never shows them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.findings.nonfinite import bad_seeds, nonfinite_tensors, origins
from gradscope.findings.place import at_node, name
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.facts import BadValue
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape

KIND = "nonfinite-forward"
MOST = 2
"""So many places are told that do not follow from one another."""
_PUTS = ("MaskedFill", "Where", "Add", "Sub", "IndexPut", "IndexFill", "MaskedScatter", "CopySlices", "Cat", "Stack")
"""Functions whose infinities were given to them: an attention mask of -inf is no fault."""
_HINTS = {
    "Log": "keep what goes into the logarithm above zero before it is taken: x.clamp(min=eps), or log1p of x where x is small",
    "Sqrt": "keep what goes into the root at or above zero: x.clamp(min=eps)",
    "Div": "keep the divisor away from zero: / x.clamp(min=eps), or / (x + eps)",
    "Mean": "leave this term out, or make it zero, when nothing was selected",
    "NllLoss": "no target counts: all are ignore_index, or there are none; leave this batch out",
    "NllLoss2D": "no target counts: all are ignore_index, or there are none; leave this batch out",
    "Std": "one sample has no spread: correction=0, or leave this term out for a batch of one",
    "Var": "one sample has no spread: correction=0, or leave this term out for a batch of one",
    "Softmax": "each row needs one entry that is not -inf: leave one key open, or use a large negative number such as -1e9",
    "LogSoftmax": "each row needs one entry that is not -inf: leave one key open, or use a large negative number such as -1e9",
    "Exp": "it overflows: subtract the maximum first, or use logsumexp, softmax, log_softmax",
    "Pow": "a power of zero or of a negative number: keep the base above zero, x.clamp(min=eps)",
    "Mul": "one factor is infinite: keep it finite before it is multiplied; torch.xlogy(x, y) is x * log(y) with 0 at x = 0",
    "Acos": "keep the argument strictly between -1 and 1: x.clamp(-1 + eps, 1 - eps)",
    "Asin": "keep the argument strictly between -1 and 1: x.clamp(-1 + eps, 1 - eps)",
}
_HINT = "look at what goes into it there: a value outside of what the function can take, or too large a number for its dtype"


def nonfinite(graph: BackwardGraph, tape: Tape) -> Iterator[Finding]:
    """Where NaN and infinity were born: in the forward where it had them already, else in the pass."""
    yield from bad_seeds(graph, tape)
    born = list(origins(graph, tape))
    at = born[0].node if born else UNKNOWN
    causes = _causes(graph, tape, at)
    for cause in causes[:MOST]:
        yield _told(graph, tape, cause, at)
    if not causes and tape.columns.facts.roots_bad:
        yield _root(graph, tape)
    if not any(_explains(graph, tape, cause, at) for cause in causes):
        yield from born


def _causes(graph: BackwardGraph, tape: Tape, at: int) -> list[BadValue]:
    """The places of the forward that matter, in forward order, those left out that follow from another one."""
    known = [bad for bad in tape.columns.facts.forward if 0 <= bad.node < len(graph)]
    facts = tape.columns.facts
    roots = [graph.roots[root].node for root in facts.roots_bad if graph.roots[root].node != UNKNOWN]
    matter = [
        bad
        for bad in known
        if any(_reaches(graph, root, bad.node) for root in roots) or _explains(graph, tape, bad, at) or (not roots and bad.nan)
    ]
    made = [bad for bad in matter if not _given(graph, bad)] or (matter if roots or at != UNKNOWN else [])
    first = sorted(made, key=lambda bad: graph.sequence_nr(bad.node))
    return [bad for place, bad in enumerate(first) if not any(_reaches(graph, bad.node, one.node) for one in first[:place])]


def _given(graph: BackwardGraph, bad: BadValue) -> bool:
    """An infinity that the function did not compute."""
    return not bad.nan and not bad.cause and graph.short(bad.node) in _PUTS


def _explains(graph: BackwardGraph, tape: Tape, bad: BadValue, at: int) -> bool:
    """What becomes non-finite at `at` in the pass does so because of the forward's value there.

    Where the very node has an infinite slope, as log at 0, it is the slope that does it: the value is infinite as well, but a
    loss that is finite did not take it up.
    """
    if at == UNKNOWN:
        return False
    if at == bad.node:
        return bad.nan > 0 or bool(tape.columns.facts.roots_bad)
    if bad.nan or tape.columns.facts.roots_bad:
        return _reaches(graph, at, bad.node)
    return not _given(graph, bad) and any(graph.target[edge] == bad.node for edge in graph.out_edges(at))


def _reaches(graph: BackwardGraph, above: int, below: int) -> bool:
    """A way leads from a node to one nearer the leaves. Forward order tells where to stop looking."""
    least, seen, todo = graph.sequence_nr(below), {above}, [above]
    while todo:
        node = todo.pop()
        if node == below:
            return True
        for edge in graph.out_edges(node):
            target = graph.target[edge]
            if target not in seen and graph.sequence_nr(target) >= least:
                seen.add(target)
                todo.append(target)
    return False


def _told(graph: BackwardGraph, tape: Tape, bad: BadValue, at: int) -> Finding:
    facts, node = tape.columns.facts, bad.node
    spreads = bool(nonfinite_tensors(tape)) or at != UNKNOWN
    healed = not facts.roots_bad and not spreads
    where = f" at {list(bad.index)}" if bad.index else ""
    verb = "gives" if bad.certain else "is the first known to give"
    cause = f" ({bad.cause})" if bad.cause else ""
    made = f"{name(graph, node)} {verb} {_word(bad)}{where} in the forward{cause}"
    if graph.leaf_at(node) is not None:
        made = f"{name(graph, node)} holds {_word(bad)}{where} before the forward begins"
    message = f"{made}{_effect(graph, tape, bad, at, spreads)}"
    related: list[Related] = []
    if at not in (UNKNOWN, node) and not facts.roots_bad and (origin := graph.origin(at)) is not None:
        related.append(Related(origin.file, origin.line, "spreads it in the backward pass"))
    value = bad.value if bad.value is not None else math.nan if bad.nan else math.inf
    severity = "info" if healed or _only_infinite_outputs(graph, tape, bad, spreads) else "error"
    return at_node(graph, node, KIND, severity, message, _hint(graph, bad), related=related, index=bad.index, value=value)


def _only_infinite_outputs(graph: BackwardGraph, tape: Tape, bad: BadValue, spreads: bool) -> bool:
    """Outputs of many elements that are infinite, with a seed of the person's: masked logits, say."""
    roots = [graph.roots[root] for root in tape.columns.facts.roots_bad]
    return not bad.nan and not spreads and bool(roots) and all(math.prod(root.shape) > 1 for root in roots)


def _effect(graph: BackwardGraph, tape: Tape, bad: BadValue, at: int, spreads: bool) -> str:
    roots = [graph.roots[root].name for root in tape.columns.facts.roots_bad]
    if roots and spreads:
        return f": {' and '.join(roots)} takes it up, and the backward pass only spreads it"
    if roots:
        return f": {' and '.join(roots)} takes it up, though every gradient of this pass is finite"
    if at == bad.node:
        return ": the loss does not take it up, but its backward sends NaN on all the same"
    if at != UNKNOWN:
        return f": the loss does not take it up, but in the backward of {name(graph, at)} zero times it is NaN"
    return ": neither the loss nor a gradient takes it up"


def _word(bad: BadValue) -> str:
    count, word = (bad.nan, "NaN") if bad.nan else (bad.inf, "-inf" if bad.value == -math.inf else "inf")
    return word if bad.numel <= 1 else f"{word} in {count} of {bad.numel} elements"


def _hint(graph: BackwardGraph, bad: BadValue) -> str:
    place = graph.leaf_at(bad.node)
    if place is not None and graph.leaves[place].owner:
        return "an earlier step wrote it there: look at the first call whose gradients are not finite (--break nan stops there)"
    if "held it already" in bad.cause:
        return "it came with the data: look at where that is read, scaled or made (torch.isfinite(x).all())"
    op = graph.short(bad.node)
    name = "Log" if op in ("Log2", "Log10", "Log1P") else "Sqrt" if op == "Rsqrt" else op
    return _HINTS.get(name, _HINT)


def _root(graph: BackwardGraph, tape: Tape) -> Finding:
    roots: Sequence[int] = tape.columns.facts.roots_bad
    names = " and ".join(graph.roots[root].name for root in roots)
    node = graph.roots[roots[0]].node
    quiet = "" if nonfinite_tensors(tape) else ", though every gradient of this pass is finite"
    message = f"{names} is NaN or infinite already before the pass{quiet}; which line of the forward made it so is not known"
    hint = "look for what is not finite in the forward: torch.isfinite(x).all() on the tensors that it is made of"
    many = not nonfinite_tensors(tape) and all(math.prod(graph.roots[root].shape) > 1 for root in roots)
    if node == UNKNOWN:
        return Finding(KIND, "error", message, hint)
    return at_node(graph, node, KIND, "info" if many else "error", message, hint)
