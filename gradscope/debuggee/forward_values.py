"""What is still known of the forward's results, node by node: enough to say which was the first with a NaN or an infinity.

Most results are still somewhere: a node saved its own, or one that it was given, with the node that made it; a variable of the
person's holds it; a root is one. What is nowhere any more is made once more where the node's forward and its inputs are known.
Nothing here runs an unpack hook or a checkpoint's forward, and all tensors are let go of at the end.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from gradscope.debuggee.capture import Captured
from gradscope.debuggee.engine import AccumulateGrad
from gradscope.debuggee.forward_again import Actual, Value, operands, run_again
from gradscope.debuggee.known_forwards import recipe_of
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.parts import PLAIN
from gradscope.debuggee.saved_tensors import kept_by, read_node
from gradscope.debuggee.storages import has_values
from gradscope.model.places import UNKNOWN, Origin
from gradscope.model.saved import HERE

_MOST_AGAIN = 1 << 26
"""Elements that are made once more at most."""
_OUTPUTS = {"result": 0, "output": 0, "logsumexp": 1} | {f"result{number}": number for number in range(8)}


@dataclass(frozen=True, slots=True)
class Look:
    """What is wrong with one tensor; nothing is where `nan` and `inf` are 0."""

    nan: int = 0
    inf: int = 0
    numel: int = 0
    index: tuple[int, ...] | None = None
    """of its first NaN, else of its first infinity"""
    value: float | None = None

    @property
    def bad(self) -> bool:
        return bool(self.nan or self.inf)


@dataclass(slots=True)
class ForwardValues:
    """The results of a graph's forward, as far as they are known.

    Args:
        captured: the graph, before its call frees what it saved.
        origin_of: the line that made a node.
        frame: the person's frame, at the call.
        held: tensors that the person's variables hold.
    """

    captured: Captured
    origin_of: Callable[[int], Origin | None] = lambda node: None
    frame: FrameType | None = None
    held: Iterable[torch.Tensor] = ()
    looks: dict[int, Look] = field(default_factory=dict)
    """slot -> what its tensor looks like, where that is known"""
    kept: dict[int, dict[str, torch.Tensor]] = field(default_factory=dict)
    """node -> what it saved, by name"""
    given_bad: dict[int, str] = field(default_factory=dict)
    """node -> the argument with a NaN or an infinity that has no gradient"""
    missed: list[str] = field(default_factory=list)
    """what went wrong meanwhile"""
    _values: dict[int, torch.Tensor] = field(default_factory=dict)
    _again: int = 0

    def look(self) -> None:
        """Look at all nodes, in forward order."""
        with modes_off(), torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            self._collect()
            for node in self.order:
                self._look_at(node)

    @property
    def order(self) -> list[int]:
        """The nodes as they were made, leaves first."""
        return sorted(range(len(self.captured)), key=self.captured.sequence_nr.__getitem__)

    def value(self, slot: int) -> torch.Tensor | None:
        """The tensor that belongs to a slot, where it is known."""
        return self._values.get(slot)

    def node_of(self, slot: int) -> int:
        """The node whose slot this is."""
        return bisect_right(self.captured.first_slot, slot) - 1

    def inputs(self, node: int) -> dict[int, int]:
        """Place among the arguments -> slot of the node that made it."""
        captured = self.captured
        edges = range(captured.first_edge[node], captured.first_edge[node + 1])
        return {captured.edge_slot[edge]: captured.edge_into[edge] for edge in edges}

    def release(self) -> None:
        """Let go of all tensors."""
        self._values.clear()
        self.kept.clear()
        self.held = ()
        self.frame = None

    # ------------------------------------------------------------ what is there

    def _collect(self) -> None:
        captured = self.captured
        number_of = {node: number for number, node in enumerate(captured.nodes)}
        for number, node in enumerate(captured.nodes):
            if type(node) is AccumulateGrad:
                self._note(number, 0, node.variable)
                continue
            here = ((one.name, one.tensor) for one in read_node(node) if one.state == HERE)
            kept = {name: tensor for name, tensor in here if tensor is not None and is_readable(tensor)}
            self.kept[number] = kept
            for name, tensor in kept.items():
                if tensor.grad_fn is not None:
                    self._note(number_of.get(tensor.grad_fn, UNKNOWN), tensor.output_nr, tensor)
                elif name in _OUTPUTS:
                    self._note(number, _OUTPUTS[name], tensor)
        for alive in (*captured.live_roots, *self.held):
            if isinstance(alive, torch.Tensor) and type(alive) in PLAIN and alive.grad_fn is not None:
                self._note(number_of.get(alive.grad_fn, UNKNOWN), alive.output_nr, alive)

    def _note(self, node: int, input_nr: int, tensor: torch.Tensor) -> None:
        captured = self.captured
        if node == UNKNOWN or not is_readable(tensor):
            return
        slot = captured.slot(node, input_nr)
        if slot >= captured.first_slot[node + 1] or slot in self._values:
            return
        kind = captured.slot_kind[slot]
        if kind < 0 or captured.kinds[kind][0] == tuple(tensor.shape):
            self._values[slot] = tensor.detach()

    # ------------------------------------------------------------ node by node

    def _look_at(self, node: int) -> None:
        captured = self.captured
        slots = range(captured.first_slot[node], captured.first_slot[node + 1])
        if slots and slots[0] not in self._values:
            self._make_again(node)
        for slot in slots:
            tensor = self._values.get(slot)
            if tensor is not None:
                self.looks[slot] = looked(tensor)
        if any(self.looks[slot].bad for slot in slots if slot in self.looks):
            self._look_at_given(node)

    def _look_at_given(self, node: int) -> None:
        """Whether an argument without a gradient, say the data, was bad already."""
        for name, tensor in self.kept.get(node, {}).items():
            if tensor.grad_fn is None and not tensor.requires_grad and name not in _OUTPUTS and looked(tensor).bad:
                self.given_bad[node] = name

    def _make_again(self, node: int) -> None:
        captured = self.captured
        op, first = captured.ops[node], captured.first_slot[node]
        kind = captured.slot_kind[first]
        if recipe_of(op) is None or kind < 0 or self._again > _MOST_AGAIN:
            return
        out, dtype, _ = captured.kinds[kind]
        saved = Actual(captured.nodes[node], self.kept.get(node, {}), self.arguments(node), self._shapes(node), out)
        made = run_again(op, saved, dtype)
        if made and tuple(made[0].shape) == out:
            for slot, tensor in zip(range(first, captured.first_slot[node + 1]), made, strict=False):
                self._again += tensor.numel()
                self._values.setdefault(slot, tensor)

    def arguments(self, node: int) -> list[Value | None]:
        """The node's arguments by place, where they are known."""
        inputs, count = self.inputs(node), len(self.captured.nodes[node].next_functions)
        arguments: list[Any] = [self._values.get(inputs[place]) if place in inputs else None for place in range(count)]
        if count == 2 and len(inputs) == 1:
            written = operands(self.captured.ops[node], count, self.origin_of(node), self.frame)
            arguments = [written[place] if place not in inputs else argument for place, argument in enumerate(arguments)]
        return arguments

    def _shapes(self, node: int) -> list[tuple[int, ...] | None]:
        captured, inputs = self.captured, self.inputs(node)
        kinds = [captured.slot_kind[inputs[place]] if place in inputs else -1 for place in range(max(inputs, default=-1) + 1)]
        return [captured.kinds[kind][0] if kind >= 0 else None for kind in kinds]


def looked(tensor: torch.Tensor) -> Look:
    """Count what is not finite."""
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.is_complex()):
        return Look(numel=tensor.numel())
    tensor = tensor.detach()
    tensor = tensor.float() if tensor.element_size() == 1 else tensor
    if bool(torch.isfinite(tensor).all()):
        return Look(numel=tensor.numel())
    nan, inf = tensor.isnan(), tensor.isinf()
    nans, infs = int(nan.sum()), int(inf.sum())
    index = tuple(map(int, (nan if nans else inf).nonzero()[0].tolist()))
    value = math.nan if nans or tensor.is_complex() else float(tensor[index])
    return Look(nans, infs, tensor.numel(), index, value)


def holds_bad(captured: Captured) -> bool:
    """Whether anything that the nodes saved is not finite: a quick look, which may err on the side of yes.

    Minus infinity in a tensor without a gradient is a mask, and no news.
    """
    groups: dict[tuple[Any, ...], list[torch.Tensor]] = {}
    seen: set[tuple[int, int]] = set()
    with modes_off(), torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        for tensor in _floats(captured):
            memory = tensor.data_ptr(), tensor.numel()
            if memory not in seen:
                seen.add(memory)
                groups.setdefault((tensor.shape, tensor.dtype, tensor.device, tensor.grad_fn is None), []).append(tensor)
        return any(not _fine(tensors, may_mask=key[-1]) for key, tensors in groups.items())


_WORTH_STACKING = 1 << 14


def _fine(tensors: list[torch.Tensor], *, may_mask: bool) -> bool:
    stacked = len(tensors) > 1 and tensors[0].numel() <= _WORTH_STACKING
    for tensor in [torch.stack(tensors)] if stacked else tensors:
        if math.isfinite(tensor.sum().item()):  # a sum is finite where all is; that of finite numbers may overflow
            continue
        wide = tensor.float() if tensor.element_size() == 1 else tensor
        if not bool(((wide < torch.inf) if may_mask else torch.isfinite(wide)).all()):
            return False
    return True


def _floats(captured: Captured) -> Iterable[torch.Tensor]:
    """Plain tensors that the nodes saved."""
    for node in captured.nodes:
        for tensor in kept_by(node):
            if is_readable(tensor) and tensor.is_floating_point() and tensor.numel():
                yield tensor


def is_readable(tensor: torch.Tensor) -> bool:
    """Whether it is a plain strided tensor that has its values."""
    return type(tensor) in PLAIN and tensor.layout == torch.strided and not tensor.is_nested and has_values(tensor)
