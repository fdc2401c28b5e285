"""Every hook that a pass over a graph runs, in the order in which it runs them.

Of a node: the hooks of its tensors, `retain_grad`, the node's own pre-hooks, the unpack hooks of what it saved, the hooks after
it; of a leaf, after `.grad` was added to, its post-accumulate hooks before the node's own. Graphs without hooks cost nothing:
only nodes that are known to have some are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from gradscope.debuggee import tensor_hooks
from gradscope.debuggee.code_places import backward_of, module_hook, name_of, place_of
from gradscope.debuggee.engine import AccumulateGrad
from gradscope.debuggee.foreign import unpack_hooks_of
from gradscope.model.columns import Hook
from gradscope.model.places import UNKNOWN, CodePlace

if TYPE_CHECKING:
    from gradscope.debuggee.capture import Captured

Gradients = Sequence[torch.Tensor | None]


@dataclass(slots=True)
class Chain:
    """Hooks that run one after the other over the same gradients: a table of torch's, or the list of one module's hooks."""

    node: int
    kind: str
    table: Any
    """dict or list, the very one that the pass goes through"""
    gradients: Callable[[tuple[Any, ...]], Gradients]
    """what a hook is given -> the gradients that it can change"""
    hooks: list[int] = field(default_factory=list)
    """their places in `Hooks.listed`; of an entry of the table that is no hook of the script UNKNOWN"""


@dataclass(slots=True)
class Hooks:
    """The hooks of a graph. Tables keep what the script's functions keep alive: no longer than the stop."""

    listed: list[Hook] = field(default_factory=list)
    chains: list[Chain] = field(default_factory=list)
    backward_code: dict[int, CodePlace] = field(default_factory=dict)

    def release(self) -> None:
        self.chains.clear()


def find_hooks(captured: Captured) -> Hooks:
    """The hooks of a graph whose foreign Python is known."""
    hooks, nodes = Hooks(), captured.nodes
    _find_backwards(captured, hooks)
    kept = _retained(captured)
    hooked = {node for node, _ in captured.foreign.hooked} | set(kept)
    if tensor_hooks.unpack_hooks:
        hooked.update(captured.foreign.why)
    hooked.update(leaf.node for leaf in captured.leaves if getattr(leaf.variable, "_post_accumulate_grad_hooks", None))
    hooked.discard(UNKNOWN)
    for number in sorted(hooked):
        _Node(hooks, number, nodes[number]).list(kept.get(number, ()))
    return hooks


def _find_backwards(captured: Captured, hooks: Hooks) -> None:
    places: dict[type, CodePlace | None] = {}
    for number in captured.foreign.why:
        kind = type(captured.nodes[number])
        if issubclass(kind, torch.autograd.function.BackwardCFunction):
            if kind not in places:
                function = backward_of(kind)
                places[kind] = None if function is None else place_of(function)
            place = places[kind]
            if place is not None:
                hooks.backward_code[number] = place


def _retained(captured: Captured) -> dict[int, list[int]]:
    """node -> the slots whose tensor keeps its gradient."""
    tensors = tensor_hooks.retaining()
    if not tensors:
        return {}
    number_of = {node: number for number, node in enumerate(captured.nodes)}
    found: dict[int, list[int]] = {}
    for tensor in tensors:
        number = number_of.get(tensor.grad_fn)
        if number is not None:
            found.setdefault(number, []).append(tensor.output_nr)
    return found


class _Node:
    """Lists the hooks of one node."""

    def __init__(self, hooks: Hooks, number: int, node: Any) -> None:
        self._hooks, self._number, self._node = hooks, number, node

    def list(self, retained: Sequence[int]) -> None:
        node = self._node
        for input_nr, table in self._tensor_tables():
            self._table("tensor", table, lambda given: given[:1], input_nr)
        for input_nr in retained:
            self._hooks.listed.append(Hook(self._number, input_nr, "retain", "retain_grad"))
        after, before = node_tables(node) if tensor_hooks.node_hooks else ({}, {})
        self._table("pre", before, lambda given: given[0])
        for function in {id(hook): hook for hook in unpack_hooks_of(node)}.values():
            self._hook("unpack", function)
        if type(node) is AccumulateGrad:
            leaf = node.variable
            self._table("accumulate", getattr(leaf, "_post_accumulate_grad_hooks", None), lambda _: [leaf.grad])
        self._table("post", after, lambda given: given[0])

    def _tensor_tables(self) -> Iterator[tuple[int, Any]]:
        if type(self._node) is AccumulateGrad:
            yield 0, self._node.variable._backward_hooks
            return
        pairs = sorted(self._node.metadata.get(tensor_hooks.METADATA_KEY, ()))
        yield from ((output_nr, tensor_hooks.tables.get(number)) for output_nr, number in pairs)

    def _table(self, kind: str, table: Any, gradients: Callable[[tuple[Any, ...]], Gradients], input_nr: int = UNKNOWN) -> None:
        """The hooks in a table of torch's; those of modules have lists of their own behind them."""
        if not table:
            return
        chain = Chain(self._number, kind, table, gradients)
        for key, function in list(table.items()):
            if type(function) is tensor_hooks.OurHook or key < 0:
                continue
            module = module_hook(function)
            if module is not None:
                chain.hooks.append(UNKNOWN)
                self._module(module, function.__qualname__)
            else:
                chain.hooks.append(self._hook(kind, function, input_nr))
        if any(hook != UNKNOWN for hook in chain.hooks):
            self._hooks.chains.append(chain)

    def _module(self, hook: Any, name: str) -> None:
        """A module's full backward hooks: torch's own node hook runs them over the gradients of all its outputs, or inputs."""
        at_output = "setup_output_hook" in name
        lists = [("module_pre", hook.user_pre_hooks, hook.output_tensors_index)] if at_output else []
        if not at_output or hook.input_tensors_index is None:  # no input requires grad: then they run at the output
            lists.append(("module", hook.user_hooks, hook.input_tensors_index or ()))
        for kind, functions, places in lists:
            if functions:
                chain = Chain(self._number, kind, functions, _picked(tuple(places)))
                chain.hooks.extend([self._hook(kind, function) for function in functions])
                self._hooks.chains.append(chain)

    def _hook(self, kind: str, function: Any, input_nr: int = UNKNOWN) -> int:
        self._hooks.listed.append(Hook(self._number, input_nr, kind, name_of(function), place_of(function)))
        return len(self._hooks.listed) - 1


def _picked(places: tuple[int, ...]) -> Callable[[tuple[Any, ...]], Gradients]:
    """Of a module's hook: the gradients of those arguments that are tensors, in the order of the node's slots."""
    return lambda given: [given[1][place] for place in places]


def node_tables(node: Any) -> tuple[Any, Any]:
    """The tables of the hooks registered on a node, those after it and those before: to see one is to register one more."""
    key = tensor_hooks.new_key()
    tables = []
    with tensor_hooks.registering(key):
        for register in (node.register_hook, node.register_prehook):
            table = register(_nothing)
            tensor_hooks.unregister(table, key)
            tables.append(table)
    return tables[0], tables[1]


def _nothing(*_: Any) -> None:
    pass
