"""Saved tensors that are not any more what they were when they were saved, and who wrote into them last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import torch

from gradscope.debuggee.capture import Captured
from gradscope.debuggee.saved_tensors import Kept, read_node, version_of
from gradscope.model.facts import Write
from gradscope.model.places import UNKNOWN, Origin
from gradscope.model.saved import EDITED, HERE

LastWrite = Callable[[torch.Tensor, int], "tuple[Origin | None, str] | None"]
"""a tensor and the number of the node that saved it -> where it was written last after that, and by which function"""
NameOf = Callable[[torch.Tensor], tuple[str, int]]
"""a tensor -> what the person calls it, and the leaf whose memory it lies in"""
_MOST = 64


def edited_since_saved(
    captured: Captured, failed: int, ran: Collection[int], last_write: LastWrite | None, name_of: NameOf
) -> Iterator[Write]:
    """What torch refuses to hand out: of the node that failed; and leaves that were written into, of the others that did not run.

    Args:
        captured: the graph after the pass.
        failed: the node; UNKNOWN where it is not known.
        ran: nodes that ran to their end.
        last_write: who wrote, where that was seen.
        name_of: names of tensors.
    """
    told: set[int] = set()
    others = [node for node in range(len(captured)) if node != failed and node not in ran]
    for node in [failed, *others] if failed != UNKNOWN else others:
        for kept in read_node(captured.nodes[node]):
            if kept.state != EDITED or len(told) >= _MOST:
                continue
            write = _write(captured, node, kept, last_write, name_of)
            known = node == failed or (failed == UNKNOWN and not told)
            if known or (write.leaf != UNKNOWN and write.leaf not in told):
                told.add(write.leaf)
                yield write


def silently_written(captured: Captured, last_write: LastWrite | None, name_of: NameOf) -> Iterator[Write]:
    """What was written into, seen by our observers, and still has the version with which it was saved."""
    if last_write is None:
        return
    for number, node in enumerate(captured.nodes):
        for kept in read_node(node):
            if kept.state != HERE or kept.tensor is None or kept.version_saved < 0:
                continue
            write = _write(captured, number, kept, last_write, name_of, silent=True)
            if write.origin is not None:
                yield write


def _write(
    captured: Captured, node: int, kept: Kept, last_write: LastWrite | None, name_of: NameOf, *, silent: bool = False
) -> Write:
    tensor = kept.tensor
    seen = None if tensor is None or last_write is None else last_write(tensor, captured.sequence_nr[node])
    if silent and seen is None:
        return Write(node, kept.name)
    origin, function = seen or (None, "")
    name, leaf = ("", UNKNOWN) if tensor is None else name_of(tensor)
    return Write(node, kept.name, name, leaf, kept.version_saved, version_of(tensor), origin, function, silent)
