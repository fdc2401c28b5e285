"""A captured graph as its wire form, with names, forward lines and local derivatives."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from gradscope.debuggee.capture import Captured, CapturedLeaf, CapturedRoot
from gradscope.debuggee.edge_roles import edge_roles
from gradscope.debuggee.interned import Interned
from gradscope.debuggee.local_derivative import local_derivatives
from gradscope.debuggee.modes import modes_off
from gradscope.model.columns import GraphColumns, Leaf, Root
from gradscope.model.places import UNKNOWN, Origin

OriginOf = Callable[[int, str], Origin | None]
"""sequence number and op -> the forward call that made the node"""

Occurrences = Callable[[Sequence[int]], Sequence[int]]
"""ascending sequence numbers of the graph's nodes -> for each which run of its line made it, 0 where unknown"""


class Named(Protocol):
    """What a leaf is called (`names.LeafName`)."""

    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def owner(self) -> str: ...
    @property
    def origin(self) -> Origin | None: ...


LeafNames = Callable[[Sequence[torch.Tensor | None]], Sequence[Named]]


@modes_off()
def graph_columns(
    captured: Captured,
    *,
    origin_of: OriginOf | None = None,
    occurrences: Occurrences | None = None,
    leaf_names: LeafNames | None = None,
    root_names: Sequence[str] = (),
    unreached: Sequence[Leaf] = (),
) -> GraphColumns:
    """The wire form.

    Args:
        captured: the graph, still alive.
        origin_of: tells the forward line of a node.
        occurrences: tells which run of its line made a node.
        leaf_names: names the leaves' tensors (None for an inner gradient edge).
        root_names: the roots' expressions, empty where unknown.
        unreached: further leaves that the graph does not reach.
    """
    ops: Interned[str] = Interned()
    op = array("i", [ops.number(name) for name in captured.ops])
    shapes: Interned[tuple[int, ...]] = Interned()
    dtypes: Interned[str] = Interned()
    shape_of = [shapes.number(kind[0]) for kind in captured.kinds]
    dtype_of = [dtypes.number(dtype_name(kind[1])) for kind in captured.kinds]
    first = [
        captured.slot_kind[slot] if slot < captured.first_slot[node + 1] else -1
        for node, slot in enumerate(captured.first_slot[:-1])
    ]
    columns = GraphColumns(
        ops=ops.values,
        op=op.tobytes(),
        sequence_nr=captured.sequence_nr.tobytes(),
        shapes=shapes.values,
        shape=array("i", [shape_of[kind] if kind >= 0 else UNKNOWN for kind in first]).tobytes(),
        dtypes=dtypes.values,
        dtype=array("i", [dtype_of[kind] if kind >= 0 else UNKNOWN for kind in first]).tobytes(),
        edge_source=_sources(captured).tobytes(),
        edge_slot=captured.edge_slot.tobytes(),
        edge_target=captured.edge_target.tobytes(),
        edge_input_nr=captured.edge_input_nr.tobytes(),
        roots=[_root(root, number, root_names) for number, root in enumerate(captured.roots)],
        leaves=[],
        foreign=dict(captured.foreign.why),
        local=local_derivatives(captured),
        edge_roles=edge_roles(captured),
        hooks=list(captured.hooks.listed),
        backward_code=dict(captured.hooks.backward_code),
    )
    numbers = captured.sequence_nr
    forward = sorted((node for node in range(len(captured)) if numbers[node] >= 0), key=numbers.__getitem__)
    _fill_origins(columns, captured, forward, origin_of)
    _fill_occurrences(columns, captured, forward, occurrences)
    columns.leaves = [*_leaves(captured, leaf_names, columns.origins), *unreached]
    return columns


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _sources(captured: Captured) -> array[int]:
    sources = array("i")
    first = captured.first_edge
    for node in range(len(captured)):
        sources.extend([node] * (first[node + 1] - first[node]))
    return sources


def _root(root: CapturedRoot, number: int, names: Sequence[str]) -> Root:
    name = (names[number] if number < len(names) else "") or f"root {number}"
    return Root(root.node, root.input_nr, name, root.shape, dtype_name(root.dtype), str(root.device))


def _leaves(captured: Captured, leaf_names: LeafNames | None, origins: list[Origin]) -> list[Leaf]:
    """The leaves, each with the place of its line in the origins, which are added to."""
    variables = [leaf.variable for leaf in captured.leaves]
    names = list(leaf_names(variables)) if leaf_names is not None else []
    leaves = []
    for number, leaf in enumerate(captured.leaves):
        named = names[number] if names else None
        origin = UNKNOWN
        if named is not None and named.origin is not None:
            origin = len(origins)
            origins.append(named.origin)
        leaves.append(_leaf(captured, leaf, number, named, origin))
    return leaves


def _leaf(captured: Captured, leaf: CapturedLeaf, number: int, named: Named | None, origin: int) -> Leaf:
    shape, dtype, device = leaf_kind(captured, leaf)
    return Leaf(
        node=leaf.node,
        input_nr=leaf.input_nr,
        name=named.name if named is not None else f"leaf {number}",
        aliases=tuple(named.aliases) if named is not None else (),
        shape=shape,
        dtype=dtype_name(dtype),
        device=str(device),
        kind=leaf.kind,
        owner=named.owner if named is not None else "",
        origin=origin,
        target=leaf.target,
    )


def leaf_kind(captured: Captured, leaf: CapturedLeaf) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    if leaf.variable is not None:
        try:
            return tuple(leaf.variable.shape), leaf.variable.dtype, leaf.variable.device
        except Exception:  # strided nested tensors have no shape
            return (), leaf.variable.dtype, leaf.variable.device
    kind = captured.slot_kind[captured.slot(leaf.node, leaf.input_nr)] if leaf.node != UNKNOWN else -1
    return captured.kinds[kind] if kind >= 0 else ((), torch.float32, torch.device("cpu"))


def _fill_origins(columns: GraphColumns, captured: Captured, forward: Sequence[int], origin_of: OriginOf | None) -> None:
    origin = array("i", [UNKNOWN]) * len(captured)
    table: dict[int, int] = {}
    for node in forward:
        found = None if origin_of is None else origin_of(captured.sequence_nr[node], captured.ops[node])
        if found is not None:
            index = table.setdefault(id(found), len(columns.origins))
            if index == len(columns.origins):
                columns.origins.append(found)
            origin[node] = index
    columns.origin = origin.tobytes()


def _fill_occurrences(columns: GraphColumns, captured: Captured, forward: Sequence[int], occurrences: Occurrences | None) -> None:
    occurrence = array("i", [0]) * len(captured)
    if occurrences is not None:
        numbers = [captured.sequence_nr[node] for node in forward]
        for node, run in zip(forward, occurrences(numbers), strict=True):
            occurrence[node] = run
    columns.occurrence = occurrence.tobytes()
