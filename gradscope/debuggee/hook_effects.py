"""What each hook of the script was given in a pass, and what it made of it.

Between the hooks of a table stand observers of ours while the pass runs. They copy what goes by and return None, so the hooks see
and do what they do without them; they hold numbers and this record only. After an exploring pass the tables are what they were
before it, whatever the hooks did to them; after the script's own call only our observers are taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from gradscope.debuggee import tensor_hooks
from gradscope.debuggee.engine import graph_task
from gradscope.debuggee.exactness import same_bits
from gradscope.debuggee.hooks import Chain, Gradients
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.other_passes import others_call
from gradscope.debuggee.parts import copied
from gradscope.model.columns import HookEffect
from gradscope.model.places import UNKNOWN
from gradscope.model.tensors import NO_TENSOR

if TYPE_CHECKING:
    from gradscope.debuggee.capture import Captured
    from gradscope.debuggee.tape_builder import TapeBuilder

ARRIVING = ("tensor", "pre")
"""kinds of hooks that change what arrives at a node"""
Copy = Callable[[torch.Tensor], torch.Tensor]


@dataclass(slots=True)
class _Watched:
    """One chain of hooks while a pass runs."""

    chain: Chain
    original: list[Any]
    """what the table held"""
    keys: list[Any] = field(default_factory=list)
    """of our observers in it; for a list the observers themselves"""
    seen: dict[tuple[int, int], tuple[torch.Tensor | None, ...]] = field(default_factory=dict)
    """(pass, how many hooks had run) -> the gradients then"""
    objects: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    """the same for the ids of the gradients, not of their copies"""


class HookWatch:
    """The observers of one run of the engine.

    Args:
        captured: the graph.
        copy: keeps a gradient as it is now.
        committed: round the script's own call.
        accumulates: AccumulateGrad runs, and the hooks after it.
    """

    def __init__(self, captured: Captured, copy: Copy, *, committed: bool, accumulates: bool) -> None:
        self.missed: list[str] = []
        self.edits: list[tuple[int, int]] = []
        """(hook, slot of its node) where one wrote into the very gradient that it was given"""
        self._captured, self._copy, self._committed = captured, copy, committed
        self._alone = not others_call()
        chains = captured.hooks.chains if self._alone else []
        once = [chain for chain in chains if sum(other.table is chain.table for other in chains) == 1]
        self._watched = [
            _Watched(chain, list(chain.table.items()) if isinstance(chain.table, dict) else list(chain.table))
            for chain in once
            if chain.kind != "accumulate" or accumulates
        ]

    # ------------------------------------------------------------ observers

    def install(self) -> None:
        """Put the observers between the hooks."""
        for number, watched in enumerate(self._watched):
            if isinstance(watched.chain.table, dict):
                self._install_in_table(number, watched)
            else:
                self._install_in_list(number, watched)

    def _install_in_table(self, number: int, watched: _Watched) -> None:
        table, place = watched.chain.table, 0
        items = []
        for key, hook in watched.original:
            if key < 0 or type(hook) is tensor_hooks.OurHook:
                items.append((key, hook))
                continue
            if not place:
                items.append(self._item(number, watched, place))
            place += 1
            items += [(key, hook), self._item(number, watched, place)]
        table.clear()  # torch goes by the order of insertion
        table.update(items)

    def _item(self, number: int, watched: _Watched, place: int) -> tuple[int, Any]:
        key = tensor_hooks.new_key()
        watched.keys.append(key)
        return key, partial(self._observe, number, place)

    def _install_in_list(self, number: int, watched: _Watched) -> None:
        watched.keys = [partial(self._observe, number, place) for place in range(len(watched.original) + 1)]
        between = [item for pair in zip(watched.original, watched.keys[1:], strict=True) for item in pair]
        watched.chain.table[:] = [watched.keys[0], *between]

    def remove(self) -> None:
        """Take the observers out. After an exploring pass the tables are as they were; the script's own call may change them."""
        for watched in self._watched:
            table = watched.chain.table
            if not self._committed:
                table.clear()
                (table.update if isinstance(table, dict) else table.extend)(watched.original)
            elif isinstance(table, dict):
                for key in watched.keys:
                    table.pop(key, None)
            else:
                table[:] = [hook for hook in table if all(hook is not ours for ours in watched.keys)]

    def _observe(self, number: int, place: int, *given: Any) -> None:
        watched = self._watched[number]
        try:
            with modes_off(), torch.no_grad():
                task = graph_task()
                before = watched.seen.get((task, place - 1), ())
                gradients = watched.chain.gradients(given)
                kept = tuple(self._kept(watched, before[i] if i < len(before) else None, one) for i, one in enumerate(gradients))
                self._note_edits(watched, task, place, gradients, kept)
                watched.seen[task, place] = kept
        except Exception as error:
            op = self._captured.ops[watched.chain.node]
            self.missed.append(f"a hook of {op} was not watched: {type(error).__name__}: {error}")

    def _note_edits(self, watched: _Watched, task: int, place: int, now: Gradients, kept: Gradients) -> None:
        """Gradients that are the same objects as before the hook, and have other numbers."""
        if watched.chain.kind not in ARRIVING:
            return
        watched.objects[task, place] = ids = tuple(map(id, now))
        before = watched.objects.get((task, place - 1), ()) if place else ()
        for offset, (one, other) in enumerate(zip(before, ids, strict=False)):
            hook = watched.chain.hooks[place - 1]
            if one == other and hook != UNKNOWN and watched.seen[task, place - 1][offset] is not kept[offset]:
                self.edits.append((hook, max(0, self._captured.hooks.listed[hook].input_nr) + offset))

    def _kept(self, watched: _Watched, before: torch.Tensor | None, now: torch.Tensor | None) -> torch.Tensor | None:
        """A copy, the same one as before the hook where it changed nothing."""
        if now is None or (before is not None and same_bits(before, now)):
            return before if now is not None else None
        return copied(now) if watched.chain.kind == "accumulate" else self._copy(now)

    # ------------------------------------------------------------ what they saw

    def effects(self, builder: TapeBuilder, task: int | None) -> list[HookEffect]:
        """What each hook did in a pass, by hook; `task` is the engine's number of it, None where there was no other."""
        steps = {node: step for step, node in enumerate(builder.step_node, 1)}
        found: list[HookEffect] = []
        for watched in self._watched:
            step = steps.get(watched.chain.node)
            if step is not None:
                found.extend(self._effects(watched, step, builder, task))
        if not self._alone:
            found.extend(self._at_slots(builder, steps))
        found.extend(self._retained(builder, steps, found))
        return sorted(found, key=lambda effect: (effect.hook, effect.slot))

    def _effects(self, watched: _Watched, step: int, builder: TapeBuilder, task: int | None) -> list[HookEffect]:
        chain, listed = watched.chain, self._captured.hooks.listed
        tasks = {one for one, _ in watched.seen}
        task = min(tasks, default=0) if task is None else task
        found = []
        for place, hook in enumerate(chain.hooks):
            before, after = watched.seen.get((task, place)), watched.seen.get((task, place + 1))
            if hook == UNKNOWN or before is None or after is None:
                continue
            slot = max(0, listed[hook].input_nr)
            for offset, (one, other) in enumerate(zip(before, after, strict=False)):
                if one is not None or other is not None:
                    numbers = [self._number(builder, chain, slot + offset, gradient) for gradient in (one, other)]
                    found.append(HookEffect(hook, step, numbers[0], numbers[1], slot + offset))
        return found

    def _number(self, builder: TapeBuilder, chain: Chain, slot: int, gradient: torch.Tensor | None) -> int:
        """That of the sum, or of what arrived, where it is the same to the bit."""
        if gradient is None:
            return NO_TENSOR
        node = chain.node
        if chain.kind not in ARRIVING or slot >= self._captured.first_slot[node + 1] - self._captured.first_slot[node]:
            return builder.number(gradient)
        near = (builder.sum_at(node, slot), builder.arrived_at(node, slot))
        for number in near:
            if number != NO_TENSOR and same_bits(builder.tensors[number], gradient):
                return number
        return builder.number(gradient, self._captured.slot(node, slot))

    def _at_slots(self, builder: TapeBuilder, steps: dict[int, int]) -> list[HookEffect]:
        """Beside other threads' passes tables are left alone: what a lone hook made is told by the sum and what arrived."""
        by_slot: dict[tuple[int, int], list[int]] = {}
        for hook, one in enumerate(self._captured.hooks.listed):
            if one.kind in ARRIVING:
                by_slot.setdefault((one.node, one.input_nr), []).append(hook)
        return [
            HookEffect(hooks[0], steps[node], builder.sum_at(node, slot), builder.arrived_at(node, slot), slot)
            for (node, slot), hooks in by_slot.items()
            if len(hooks) == 1 and slot != UNKNOWN and (node, UNKNOWN) not in by_slot and node in steps
        ]

    def _retained(self, builder: TapeBuilder, steps: dict[int, int], found: Sequence[HookEffect]) -> Iterator[HookEffect]:
        """What each `retain_grad` stores: what is there after the tensor's hooks and before the node's own, and no what-if."""
        listed = self._captured.hooks.listed
        for hook, one in enumerate(listed):
            if one.kind != "retain" or one.node not in steps:
                continue
            own = [place for place, other in enumerate(listed) if other.node == one.node and other.kind == "pre"]
            seen = [effect.before for effect in found if effect.hook in own and effect.slot == one.input_nr]
            if own and not seen:
                continue  # its own hooks were not watched: what they were given is not known
            stored = seen[0] if seen else builder.without_what_if(one.node, one.input_nr)
            yield HookEffect(hook, steps[one.node], stored, stored, one.input_nr)


def changed_steps(effects: Sequence[HookEffect], captured: Captured) -> set[int]:
    """The steps whose arriving gradient a hook changed."""
    listed = captured.hooks.listed
    return {effect.step for effect in effects if effect.before != effect.after and listed[effect.hook].kind in ARRIVING}


__all__ = ["ARRIVING", "Gradients", "HookWatch", "changed_steps"]
