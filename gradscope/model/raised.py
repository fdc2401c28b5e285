"""The last step of a pass that a node ended by raising: the engine records none, as the node never came to its end."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradscope.model.tape import Tape

BEFORE_THE_NODE = ("tensor", "pre")
"""kinds of hooks that may change what arrives"""


def came_to(tape: Tape, node: int) -> dict[int, int]:
    """What arrived at the node that raised: the sum of what was delivered, as a tensor number, by gradient slot.

    Empty where a hook of the node's or a what-if came between: what they made of it was not recorded.
    """
    graph = tape.graph
    changed = any(change.node == node for change in tape.columns.changes)
    if changed or any(hook.kind in BEFORE_THE_NODE for _, hook in graph.hooks_of(node)):
        return {}
    slots = {graph.input_nr[edge] for edge in graph.in_edges(node)}
    slots |= {slot for to, slot in (tape.seed_slot(seed.root) for seed in tape.seeds) if to == node}
    indices = {slot: tape.indices_to(node, slot) for slot in sorted(slots)}
    return {slot: tape.sum_of(those, len(those)) for slot, those in indices.items()}


def extended(column: memoryview[int], more: Iterable[int]) -> memoryview[int]:
    """A column of the wire's integers with more at its end."""
    return memoryview(array("i", [*column, *more]))
