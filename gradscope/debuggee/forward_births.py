"""The first NaN, else the first infinity, of the forward: which of all those there are is told when the pass has run.

A NaN that comes to nothing (a branch that `where` leaves out), an infinity that is meant (a mask) is no fault. So a bad result
counts where a bad root came of it, or where the pass made something bad out of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from gradscope.debuggee.forward_causes import cause
from gradscope.debuggee.forward_values import ForwardValues, Look
from gradscope.model.facts import BadValue
from gradscope.model.places import UNKNOWN

_MEANT = ("MaskedFill", "MaskedScatter", "Where", "IndexPut", "IndexFill", "Scatter", "Copy", "Fill")
"""An infinity that these put there is what somebody wrote down."""
_HANDED_ON = ("Add", "Sub", "Cat", "Stack", "CopySlices")
"""An infinity that these give may have been given to them, as the mask that is added to scores is."""
_MOST = 64
"""candidates"""


@dataclass(slots=True)
class ForwardBirths:
    """Results that are bad while nothing they were made of is known to be; numbers only."""

    nan: list[BadValue] = field(default_factory=list)
    inf: list[BadValue] = field(default_factory=list)
    _users: dict[int, set[int]] = field(default_factory=dict)
    """node -> itself and the nodes that were given its result"""
    _to_root: set[int] = field(default_factory=set)
    """nodes that a bad root may have got it from"""
    _earlier: dict[int, BadValue] = field(default_factory=dict)
    """node of a NaN -> the infinity that it may have come of"""

    @classmethod
    def of(cls, values: ForwardValues, roots_bad: Collection[int]) -> ForwardBirths:
        """Find them; `values` has looked, and `roots_bad` are the roots that are not finite."""
        births = cls()
        births._to_root = _behind(values, [values.captured.roots[place].node for place in roots_bad])
        for node in values.order:
            look = _of_node(values, node)
            for kind in ("nan", "inf"):
                found: list[BadValue] = getattr(births, kind)
                if look is not None and len(found) < _MOST and _born(values, node, look, kind):
                    found.append(_told(values, node, look))
        births._note_users(values)
        births._trace_back(values)
        return births

    def _trace_back(self, values: ForwardValues) -> None:
        """A NaN comes of an infinity that was made before it, or may have been; but 0 * log(0) is a matter of that product."""
        ops = values.captured.ops
        made = [inf for inf in self.inf if not ops[inf.node].startswith(_HANDED_ON)]
        for one in self.nan if made else ():
            if not one.certain or not ops[one.node].startswith("Mul"):
                behind = _behind(values, [one.node])
                self._earlier[one.node] = next((inf for inf in made if inf.node in behind), one)

    def _note_users(self, values: ForwardValues) -> None:
        captured = values.captured
        wanted = {one.node for one in (*self.nan, *self.inf)}
        self._users = {node: {node} for node in wanted}
        for node in range(len(captured)):
            for target in captured.edge_target[captured.first_edge[node] : captured.first_edge[node + 1]]:
                if target in wanted:
                    self._users[target].add(node)

    def chosen(self, makers: Collection[int]) -> list[BadValue]:
        """The first that counts; `makers` are the nodes that made something bad out of finite gradients."""
        for found in (self.nan, self.inf):
            for one in found:
                if one.node in self._to_root or not self._users[one.node].isdisjoint(makers):
                    return [self._earlier.get(one.node, one)]
        return []


def _of_node(values: ForwardValues, node: int) -> Look | None:
    """The first of its results that is bad."""
    first, end = values.captured.first_slot[node], values.captured.first_slot[node + 1]
    return next((values.looks[slot] for slot in range(first, end) if slot in values.looks and values.looks[slot].bad), None)


def _born(values: ForwardValues, node: int, look: Look, kind: str) -> bool:
    if not getattr(look, kind):
        return False
    given = [values.looks[slot] for slot in values.inputs(node).values() if slot in values.looks]
    if kind == "nan":
        return not any(one.nan for one in given)
    meant = values.captured.ops[node].startswith(_MEANT) or node in values.given_bad or _is_leaf(values, node)
    return not meant and not look.nan and not any(one.bad for one in given)


def _is_leaf(values: ForwardValues, node: int) -> bool:
    return values.captured.ops[node] == "AccumulateGrad"


def _told(values: ForwardValues, node: int, look: Look) -> BadValue:
    known = all(slot in values.looks for slot in values.inputs(node).values())
    why = cause(values, node, look)
    return BadValue(node, look.nan, look.inf, look.numel, look.index, look.value, why, certain=known or bool(why))


def _behind(values: ForwardValues, roots: Collection[int]) -> set[int]:
    """The nodes from which something bad may have come to these, over results that are bad or not known."""
    captured = values.captured
    waiting = [node for node in roots if node != UNKNOWN]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        for edge in range(captured.first_edge[node], captured.first_edge[node + 1]):
            look, target = values.looks.get(captured.edge_into[edge]), captured.edge_target[edge]
            if target not in seen and (look is None or look.bad):
                seen.add(target)
                waiting.append(target)
    return seen
