"""What is known of a tensor whose `.grad` was read though it keeps none: what arrived there, and which leaf it was made of."""

from __future__ import annotations

from types import FrameType
from typing import Any

from gradscope.debuggee.grad_reads import GradReadAt
from gradscope.debuggee.last_pass import LastPass
from gradscope.debuggee.names import Names
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.timeline import Timeline
from gradscope.model.facts import GradRead
from gradscope.model.places import UNKNOWN

_SAME_VALUES = ("ToCopy", "Clone", "View", "UnsafeView", "Reshape", "Alias", "T", "Transpose", "Permute", "Unsqueeze", "Squeeze")
"""nodes of casts, moves and views of all of a tensor"""
_FAR = 20
"""nodes on the way to the leaf"""


def grad_read(read: GradReadAt, frame: FrameType | None, timeline: Timeline, last_pass: LastPass, origins: Origins) -> GradRead:
    """Look at a tensor while the line that reads is still running.

    Args:
        read: what was seen.
        frame: whose variables, and those above, may hold the tensor.
        timeline: what happened before.
        last_pass: the last one that was recorded.
        origins: who made it.
    """
    tensor, last = read.tensor(), timeline.last_call()
    names = Names(frame, origins.modules())
    arrived = last_pass.arrived(read.sequence_nr, read.output_nr)
    leaf = None if tensor is None else _leaf_of(tensor)
    named = None if leaf is None else names.leaves([leaf])[0]
    return GradRead(
        read.name or ("" if tensor is None else names.tensor(tensor)),
        origins.places.origin(read.place),
        origins.lookup(read.sequence_nr, read.op),
        read.op,
        0 if last is None else last.number,
        0 if arrived is None else arrived.call,
        UNKNOWN if arrived is None else arrived.node,
        None if arrived is None else arrived.norm,
        "" if named is None else named.name,
        None if named is None else named.origin,
    )


def _leaf_of(tensor: Any) -> Any:
    """The leaf of which casts, moves and views alone made the tensor; None where something else did."""
    node = tensor.grad_fn
    for _ in range(_FAR):
        if node is None or hasattr(node, "variable"):
            return getattr(node, "variable", None)
        following = node.next_functions
        if len(following) != 1 or node.name().rpartition("::")[2].rstrip("0123456789") not in _NODES:
            return None
        node = following[0][0]
    return None


_NODES = frozenset(f"{name}Backward" for name in _SAME_VALUES)
