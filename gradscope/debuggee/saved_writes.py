"""Saved tensors that are not any more what they were when they were saved, and who wrote into them last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import torch

from gradscope.debuggee.capture import Captured
from gradscope.debuggee.saved_tensors import Kept, kept_by, read_node
from gradscope.debuggee.storages import version_of
from gradscope.model.facts import Write
from gradscope.model.places import UNKNOWN, Origin
from gradscope.model.saved import EDITED, HERE


class Seen(NamedTuple):
    """Where something was written, and by which function."""

    origin: Origin | None
    function: str
    version: int
    """of the tensor that was written through, after it; -1 where it keeps none"""


NameOf = Callable[[torch.Tensor], tuple[str, int]]
"""a tensor -> what the person calls it, and the leaf whose memory it lies in"""
_MOST = 64


class WriteWitness(Protocol):
    """Saw what was written into tensors."""

    def since(self, number: int) -> set[int]:
        """The addresses of the storages that were written into after the node of this number was made."""

    def last(self, tensor: torch.Tensor, since: int, anywhere: bool) -> Seen | None:
        """The last write after the node of this number; `anywhere` in the storage, or into these very elements."""


def edited_since_saved(
    captured: Captured, failed: int, ran: Collection[int], witness: WriteWitness | None, name_of: NameOf
) -> Iterator[Write]:
    """What torch refuses to hand out: of the node that failed; and leaves that were written into, of the others that did not run.

    Args:
        captured: the graph after the pass.
        failed: the node; UNKNOWN where it is not known.
        ran: nodes that ran to their end.
        witness: of writes, where there is one.
        name_of: names of tensors.
    """
    told: set[int] = set()
    others = [node for node in range(len(captured)) if node != failed and node not in ran]
    for node in [failed, *others] if failed != UNKNOWN else others:
        for kept in read_node(captured.nodes[node]):
            if kept.state != EDITED or len(told) >= _MOST:
                continue
            since = captured.sequence_nr[node]
            seen = None if witness is None or kept.tensor is None else witness.last(kept.tensor, since, True)
            write = _write(node, kept, seen, name_of)
            known = node == failed or (failed == UNKNOWN and not told)
            if known or (write.leaf != UNKNOWN and write.leaf not in told):
                told.add(write.leaf)
                yield write


def silently_written(captured: Captured, witness: WriteWitness | None, name_of: NameOf) -> Iterator[Write]:
    """What was written into, seen by our observers, and still has the version with which it was saved."""
    first = min((number for number in captured.sequence_nr if number >= 0), default=-1)
    written = witness.since(first) if witness is not None and first >= 0 else set()
    if witness is None or not written:
        return
    for number, node in enumerate(captured.nodes):
        if written.isdisjoint(_addresses(node)):
            continue
        for kept in read_node(node):
            if kept.state == HERE and kept.tensor is not None and kept.version_saved >= 0:
                seen = witness.last(kept.tensor, captured.sequence_nr[number], False)
                if seen is not None and (not _is_custom(node) or seen.version > kept.version_saved):
                    yield _write(number, kept, seen, name_of, silent=True)


def _is_custom(node: Any) -> bool:
    """A custom Function saves when its forward has run, and may have written before: only another counter tells."""
    return isinstance(node, torch.autograd.function.BackwardCFunction)


def _addresses(node: Any) -> Iterator[int]:
    for tensor in kept_by(node):
        with suppress(Exception):  # has no storage
            yield int(tensor.untyped_storage()._cdata)


def _write(node: int, kept: Kept, seen: Seen | None, name_of: NameOf, *, silent: bool = False) -> Write:
    origin, function, _ = seen or Seen(None, "", -1)
    name, leaf = ("", UNKNOWN) if kept.tensor is None else name_of(kept.tensor)
    return Write(node, kept.name, name, leaf, kept.version_saved, version_of(kept.tensor), origin, function, silent)
