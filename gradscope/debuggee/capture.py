"""Walks the autograd graph below the roots into columns of numbers.

The list of live nodes is kept only while the script stands still; everything that outlives the stop is numbers. The walk is
iterative: graphs are as deep as a recurrent network is long.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter, methodcaller
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from gradscope.debuggee.collector import collector_paused
from gradscope.debuggee.engine import AccumulateGrad, gradient_edge
from gradscope.debuggee.foreign import Foreign, find_foreign
from gradscope.debuggee.hooks import Hooks, find_hooks
from gradscope.debuggee.modes import dispatch_mode
from gradscope.debuggee.reducers import refusal_of_wrappers, wrappers_of, writes
from gradscope.debuggee.saved_state import Living
from gradscope.debuggee.summaries import Kind
from gradscope.model.places import UNKNOWN

Differentiable = torch.Tensor | GradientEdge
"""What torch differentiates, and differentiates for."""

_UNTOLD: Kind = ((), torch.float32, torch.device("cpu"))


@dataclass(slots=True)
class CapturedRoot:
    """A tensor that is differentiated, as numbers."""

    node: int
    input_nr: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


@dataclass(slots=True)
class CapturedLeaf:
    """Where the pass ends. Holds the tensor, so it lives no longer than the stop."""

    node: int
    """UNKNOWN for an `inputs=` tensor that the graph does not contain."""
    input_nr: int
    variable: torch.Tensor | None
    """None for an `inputs=` gradient edge of an inner node."""
    kind: str
    """`parameter`, `tensor` or `input`"""
    target: bool
    """False for a leaf that the call does not differentiate for, as it names others."""


class Captured:
    """A backward graph with its live nodes.

    Columns are by node or by edge, edges sorted by (source, slot). A *slot* is one gradient input of one node; slots are numbered
    through, those of node n from `first_slot[n]`.
    """

    def __init__(self, nodes: list[Any], roots: Sequence[Differentiable]) -> None:
        self.nodes = nodes
        self.live_roots = tuple(roots)
        self.ops: list[str] = []
        self.sequence_nr = array("q")
        self.first_edge = array("i", [0])
        self.edge_slot = array("i")
        self.edge_target = array("i")
        self.edge_input_nr = array("i")
        self.first_slot = array("i", [0])
        self.slot_kind = array("i")
        """index into `kinds`; -1 where torch does not say"""
        self.kinds: list[Kind] = []
        self.edge_into = array("i")
        """the slot that each edge feeds"""
        self.slot_degree = array("i")
        """edges that feed each slot"""
        self.roots: list[CapturedRoot] = []
        self.leaves: list[CapturedLeaf] = []
        self.foreign = Foreign()
        self.hooks = Hooks()
        self.written: dict[int, str] = {}
        """leaf node -> what else writes its `.grad`, as far as was seen in passes over this graph"""
        self.has_run = False
        """an exploring pass over this graph has run to its end"""
        self.refusal = ""
        """Why an exploring pass would be wrong here; empty where it is right."""

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def edge_count(self) -> int:
        return len(self.edge_slot)

    def slot(self, node: int, input_nr: int) -> int:
        return self.first_slot[node] + input_nr

    def source(self, edge: int) -> int:
        """The node that an edge comes from."""
        return bisect_right(self.first_edge, edge) - 1

    @cached_property
    def living(self) -> Living:
        """The modules, leaves, optimizers and generators there are: the script stands still while this lives."""
        return Living.find()

    @cached_property
    def plan(self) -> Plan:
        """What the passes over this graph have in common."""
        return Plan.of(self)

    def leads_on(self, edge: int) -> bool:
        """Whether the engine delivers over the edge: it does not where no leaf that is asked for lies beyond."""
        needed = self.plan.needed
        return needed is None or bool(needed[self.edge_target[edge]])

    def targets(self) -> list[int]:
        """The leaves (by their place in `leaves`) in the graph that the call differentiates for."""
        return [number for number, leaf in enumerate(self.leaves) if leaf.target and leaf.node != UNKNOWN]

    def release(self) -> None:
        """Let go of everything alive. Columns stay."""
        self.nodes.clear()
        self.live_roots = ()
        for leaf in self.leaves:
            leaf.variable = None
        self.foreign.release()
        self.hooks.release()
        self.__dict__.pop("living", None)


@dataclass(slots=True)
class Plan:
    """What follows from the graph and the leaves that are differentiated for."""

    feeds: dict[int, list[int]]
    """node -> the slots of leaves that it feeds, one for each edge"""
    tied: list[CapturedLeaf]
    """leaves that a node may complete together with another leaf"""
    needed: bytearray | None
    """1 for each node from which the engine reaches such a leaf; None when that is every node"""

    @classmethod
    def of(cls, captured: Captured) -> Plan:
        leaves = {captured.slot(leaf.node, leaf.input_nr): leaf for leaf in map(captured.leaves.__getitem__, captured.targets())}
        feeds: dict[int, list[int]] = {}
        for edge in [edge for edge, slot in enumerate(captured.edge_into) if slot in leaves]:
            feeds.setdefault(captured.source(edge), []).append(captured.edge_into[edge])
        tied = {slot for slots in feeds.values() if len(set(slots)) > 1 for slot in slots}
        hookable = [leaves[slot] for slot in tied if leaves[slot].kind != "input"]
        return cls(feeds, hookable, _needed(captured))


def _needed(captured: Captured) -> bytearray | None:
    targets = {captured.leaves[number].node for number in captured.targets()}
    first = captured.first_edge
    before = 0
    for node, end in enumerate(first[1:]):
        if end == before and node not in targets:
            break  # a dead end that nobody asks for
        before = end
    else:
        return None
    sources: list[list[int]] = [[] for _ in captured.nodes]
    for node in range(len(captured)):
        for target in captured.edge_target[first[node] : first[node + 1]]:
            sources[target].append(node)
    reached = bytearray(len(captured))
    waiting = list(targets)
    while waiting:
        node = waiting.pop()
        if not reached[node]:
            reached[node] = 1
            waiting.extend(sources[node])
    return reached


@collector_paused()
def capture(roots: Sequence[Differentiable], inputs: Sequence[Differentiable] = ()) -> Captured:
    """Capture the graph below `roots`.

    Args:
        roots: what the call differentiates; tensors without a graph are allowed and get node UNKNOWN.
        inputs: what the call differentiates for; empty for all leaves.
    """
    edges = [_edge(root) for root in roots]
    index: dict[Any, int] = {}
    nodes: list[Any] = []
    for edge in edges:
        if edge is not None and edge.node not in index:
            index[edge.node] = len(nodes)
            nodes.append(edge.node)
    captured = Captured(nodes, roots)
    _walk(captured, index)
    _describe(captured)
    captured.roots = [_root(root, edge, index) for root, edge in zip(roots, edges, strict=True)]
    captured.leaves = _leaves(captured, index, inputs)
    captured.foreign = find_foreign(nodes)
    captured.hooks = find_hooks(captured)
    wrappers = wrappers_of(leaf.variable for leaf in captured.leaves if leaf.variable is not None)
    captured.refusal = captured.foreign.refusal or refusal_of_wrappers(wrappers) or _mode_refusal()
    for leaf in captured.leaves:
        why = "" if leaf.variable is None else writes(leaf.variable, wrappers, captured.refusal)
        if why:
            captured.written[leaf.node] = why
    return captured


def _mode_refusal() -> str:
    mode = dispatch_mode()
    return f"a mode of the script's ({mode}) sees every operation, and would see those of this pass twice" if mode else ""


def _edge(root: Differentiable) -> GradientEdge | None:
    if isinstance(root, torch.Tensor):
        return gradient_edge(root) if root.requires_grad else None
    return root


def _walk(captured: Captured, index: dict[Any, int]) -> None:
    """Breadth first, so that edges come out sorted by source."""
    nodes = captured.nodes
    slots: list[int] = []
    targets: list[int] = []
    input_nrs: list[int] = []
    ends = [0]
    for node in nodes:  # grows while it is walked
        for slot, (target, input_nr) in enumerate(node.next_functions):
            if target is not None:
                number = index.get(target)
                if number is None:
                    number = index[target] = len(nodes)
                    nodes.append(target)
                slots.append(slot)
                targets.append(number)
                input_nrs.append(input_nr)
        ends.append(len(slots))
    captured.first_edge, captured.edge_slot = array("i", ends), array("i", slots)
    captured.edge_target, captured.edge_input_nr = array("i", targets), array("i", input_nrs)


def _describe(captured: Captured) -> None:
    names = [node.name() for node in captured.nodes]
    short = {name: name.removeprefix("torch::autograd::") for name in set(names)}
    captured.ops = list(map(short.__getitem__, names))
    captured.sequence_nr = array("q", [number if number < _NEVER else -1 for number in map(_read_number, captured.nodes)])
    _describe_slots(captured)
    first_slot, target = captured.first_slot, captured.edge_target
    captured.edge_into = array("i", map(int.__add__, map(first_slot.__getitem__, target), captured.edge_input_nr))
    degree = [0] * first_slot[-1]
    for slot in captured.edge_into:
        degree[slot] += 1
    captured.slot_degree = array("i", degree)


_NEVER = 1 << 63
"""AccumulateGrad's sequence number, and more."""
_read_number = methodcaller("_sequence_nr")


def _describe_slots(captured: Captured) -> None:
    kinds: dict[Kind, int] = {}
    slot_kind, end_node = captured.slot_kind.append, captured.first_slot.append
    widest = _widest_slots(captured)
    slots = 0
    for number, metadata in enumerate(map(_read_metadata, captured.nodes)):
        for slot in metadata:
            try:
                shape, dtype, device = _read_slot(slot)
                key = tuple(shape), dtype, device
                kind = kinds.get(key, -1)
                if kind < 0:
                    _check_plain(shape)
                    kind = kinds[key] = len(kinds)
            except Exception:  # nested, symbolic: no plain shape
                kind = -1
            slot_kind(kind)
            slots += 1
        if number in widest:
            for _ in range(widest[number] - len(metadata)):
                slot_kind(-1)
                slots += 1
        end_node(slots)
    captured.kinds = list(kinds)


_read_metadata, _read_slot = attrgetter("_input_metadata"), attrgetter("shape", "dtype", "device")


def _check_plain(shape: Any) -> None:
    if not all(type(extent) is int for extent in shape):
        raise TypeError("a symbolic shape")


def _widest_slots(captured: Captured) -> dict[int, int]:
    """For nodes fed at other slots than the first, how many slots the edges speak of."""
    widest: dict[int, int] = {}
    if any(captured.edge_input_nr):
        for target, input_nr in zip(captured.edge_target, captured.edge_input_nr, strict=True):
            if input_nr >= widest.get(target, 1):
                widest[target] = input_nr + 1
    return widest


def _root(root: Differentiable, edge: GradientEdge | None, index: dict[Any, int]) -> CapturedRoot:
    node, input_nr = (index[edge.node], edge.output_nr) if edge is not None else (UNKNOWN, 0)
    if isinstance(root, torch.Tensor):
        return CapturedRoot(node, input_nr, _shape(root), root.dtype, root.device)
    shape, dtype, device = edge_kind(root)
    return CapturedRoot(node, input_nr, shape, dtype, device)


def edge_kind(edge: GradientEdge) -> Kind:
    """Shape, dtype and device of the gradient that a slot takes."""
    try:
        slot: Any = edge.node._input_metadata[edge.output_nr]
        return tuple(slot.shape), slot.dtype, slot.device
    except Exception:
        return _UNTOLD


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    try:
        return tuple(tensor.shape)
    except Exception:  # strided nested tensors have none
        return ()


def _leaves(captured: Captured, index: dict[Any, int], inputs: Sequence[Differentiable]) -> list[CapturedLeaf]:
    leaves: list[CapturedLeaf] = []
    seen: set[tuple[int, int] | Any] = set()
    for given in inputs:
        edge = _edge(given)
        if edge is None:
            continue  # torch will refuse it
        node = index.get(edge.node, UNKNOWN)
        key = (node, edge.output_nr) if node != UNKNOWN else (edge.node, edge.output_nr)
        if key in seen:
            continue
        seen.add(key)
        variable = given if isinstance(given, torch.Tensor) else getattr(edge.node, "variable", None)
        leaves.append(CapturedLeaf(node, edge.output_nr, variable, _leaf_kind(edge.node, variable), True))
    for number, node in enumerate(captured.nodes):
        if type(node) is AccumulateGrad and (number, 0) not in seen:
            variable = node.variable
            leaves.append(CapturedLeaf(number, 0, variable, _leaf_kind(node, variable), not inputs))
    return [leaf for leaf in leaves if leaf.node != UNKNOWN] + [leaf for leaf in leaves if leaf.node == UNKNOWN]


def _leaf_kind(node: Any, variable: torch.Tensor | None) -> str:
    if type(node) is not AccumulateGrad:
        return "input"
    return "parameter" if isinstance(variable, torch.nn.Parameter) else "tensor"
