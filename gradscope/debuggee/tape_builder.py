"""Turns what the hooks noted into the columns of a tape, and checks the sums while doing so."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

import torch

from gradscope.debuggee.capture import Captured
from gradscope.debuggee.exactness import same_bits
from gradscope.debuggee.record import Gradients
from gradscope.debuggee.summaries import summarise
from gradscope.model.columns import UNKNOWN, Mismatch, Seed, TapeColumns
from gradscope.model.tensors import NO_TENSOR

Log = Sequence[tuple[int, Gradients, Gradients]]
SeedSlot = tuple[int, int]
"""The node and the gradient slot that a seed goes to."""


_NEW = -2
"""an object that has no number yet"""


class Held:
    """The tensors of a tape, by number, as long as the debuggee keeps them."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self._tensors = tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def tensor(self, number: int) -> torch.Tensor:
        """The tensor of that number.

        Raises:
            KeyError: it is not held (any more).
        """
        if not 0 <= number < len(self._tensors):
            raise KeyError(number)
        return self._tensors[number]

    def release(self) -> None:
        self._tensors.clear()


class TapeBuilder:
    """Fills the columns of one pass."""

    def __init__(self, captured: Captured, seed_slots: Sequence[SeedSlot]) -> None:
        self.captured = captured
        self.seed_slots = seed_slots
        self.tensors: list[torch.Tensor] = []
        self.kind: list[int] = []
        self._numbers: dict[int, int] = {}
        slots = captured.first_slot[-1]
        self._sum = [NO_TENSOR] * slots
        """by slot: number of the sum of what has been delivered so far"""
        self._shared = self._shared_slots(slots)
        self.step_node: list[int] = []
        self.contribution_step: list[int] = []
        self.contribution_edge: list[int] = []
        self.contribution_tensor: list[int] = []
        self.contribution_so_far: list[int] = []
        self.arrival_step: list[int] = []
        self.arrival_input_nr: list[int] = []
        self.arrival_tensor: list[int] = []
        self.mismatches: list[Mismatch] = []
        self.hook_changed: list[int] = []
        self.delivered = [0] * slots
        """by slot: how many contributions have been delivered, undefined ones included"""

    def _shared_slots(self, slots: int) -> bytearray:
        """1 for each slot that more than one contribution can reach."""
        degree = list(self.captured.slot_degree)
        for node, input_nr in self.seed_slots:
            degree[self.captured.slot(node, input_nr)] += 1
        shared = bytearray(slots)
        for slot, count in enumerate(degree):
            if count > 1:
                shared[slot] = 1
        return shared

    # ------------------------------------------------------------ filling

    def number(self, tensor: torch.Tensor, slot: int = UNKNOWN) -> int:
        """The tensor's number; a new one the first time it is seen."""
        number = self._numbers.setdefault(id(tensor), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(tensor)
            self.kind.append(self.captured.slot_kind[slot] if slot >= 0 else -1)
        return number

    def seeds(self, seeds: Sequence[torch.Tensor | None]) -> None:
        for root, ((node, input_nr), seed) in enumerate(zip(self.seed_slots, seeds, strict=True)):
            self._contribute(0, (-1 - root,), (self.captured.slot(node, input_nr),), (seed,))

    def _contribute(self, step: int, edges: Iterable[int], slots: Iterable[int], sent: Iterable[torch.Tensor | None]) -> None:
        """What one step delivered over these edges. The inner loop of everything: no calls but those it cannot do without."""
        numbers, tensors, kinds, slot_kind = self._numbers, self.tensors, self.kind, self.captured.slot_kind
        sums, shared, delivered = self._sum, self._shared, self.delivered
        for edge, slot, tensor in zip(edges, slots, sent, strict=False):
            if tensor is None:
                number = NO_TENSOR
            else:
                number = numbers.setdefault(id(tensor), len(tensors))
                if number == len(tensors):
                    tensors.append(tensor)
                    kinds.append(slot_kind[slot])
            so_far = number
            if shared[slot]:
                before = sums[slot]
                if before >= 0:
                    so_far = before
                    if number >= 0:  # added as the engine adds
                        so_far = len(tensors)
                        total = tensors[before] + tensors[number]
                        numbers[id(total)] = so_far
                        tensors.append(total)
                        kinds.append(slot_kind[slot])
            sums[slot] = so_far
            delivered[slot] += 1
            self.contribution_step.append(step)
            self.contribution_edge.append(edge)
            self.contribution_tensor.append(number)
            self.contribution_so_far.append(so_far)

    def run(self, log: Log, leaves_after: Mapping[int, Sequence[int]], totals: Mapping[SeedSlot, torch.Tensor | None]) -> None:
        """Play the log.

        Args:
            log: what the hooks noted.
            leaves_after: for a position in the log (-1 for the seeds) the leaf nodes whose last contribution it delivered.
            totals: what the engine gave for the slots of those leaves.
        """
        first_edge, edge_into, whole = self.captured.first_edge, self.captured.edge_into, self.captured.plan.needed is None
        step = self._finish_leaves(leaves_after.get(-1, ()), totals)
        for position, (node, sent, handed) in enumerate(log):
            self._arrive(node, handed)
            step += 1
            first, end = first_edge[node], first_edge[node + 1]
            if whole and end - first == len(sent):
                self._contribute(step, range(first, end), edge_into[first:end], sent)
            elif sent:
                edges = self._delivering(first, end)
                slots = [edge_into[edge] for edge in edges]
                self._contribute(step, edges, slots, [sent[self.captured.edge_slot[edge]] for edge in edges])
            if position in leaves_after:
                step = self._finish_leaves(leaves_after[position], totals)

    def _delivering(self, first: int, end: int) -> list[int]:
        """The edges over which the engine goes on: not those that lead to no leaf that is asked for."""
        needed = self.captured.plan.needed
        return [edge for edge in range(first, end) if needed is None or needed[self.captured.edge_target[edge]]]

    def _arrive(self, node: int, handed: Gradients) -> None:
        self.step_node.append(node)
        step = len(self.step_node)
        slot = self.captured.first_slot[node]
        for input_nr, tensor in enumerate(handed):
            number = NO_TENSOR if tensor is None else self._numbers.get(id(tensor), _NEW)
            if number != self._sum[slot]:
                number = self._unlike(node, input_nr, slot, tensor)
            self.arrival_step.append(step)
            self.arrival_input_nr.append(input_nr)
            self.arrival_tensor.append(number)
            slot += 1

    def _unlike(self, node: int, input_nr: int, slot: int, tensor: torch.Tensor | None) -> int:
        """What arrived is another object than the last sum: the same number for number, or changed by a hook, or a mismatch."""
        expected = self._sum[slot]
        if tensor is not None and expected != NO_TENSOR and same_bits(tensor, self.tensors[expected]):
            return expected
        hooked = self.captured.foreign.hooked
        if (node, input_nr) in hooked or (node, UNKNOWN) in hooked:
            if not self.hook_changed or self.hook_changed[-1] != len(self.step_node):
                self.hook_changed.append(len(self.step_node))
        else:
            what = "the engine handed on another gradient than the sum of the contributions"
            self.mismatches.append(Mismatch(node, input_nr, what))
        return NO_TENSOR if tensor is None else self.number(tensor, slot)

    def _finish_leaves(self, nodes: Iterable[int], totals: Mapping[SeedSlot, torch.Tensor | None]) -> int:
        """The steps of leaves, which run nothing; gives the number of the last step."""
        for node in nodes:
            first, end = self.captured.first_slot[node], self.captured.first_slot[node + 1]
            handed = [totals.get((node, nr), self._total(first + nr)) for nr in range(end - first)]
            self._arrive(node, handed)
        return len(self.step_node)

    def _total(self, slot: int) -> torch.Tensor | None:
        number = self._sum[slot]
        return None if number == NO_TENSOR else self.tensors[number]

    # ------------------------------------------------------------ the result

    def columns(self, seeds: list[Seed], leaf_before: list[int], leaf_after: list[int]) -> TapeColumns:
        pack = _packed
        return TapeColumns(
            seeds=seeds,
            step_node=pack(self.step_node),
            contribution_step=pack(self.contribution_step),
            contribution_edge=pack(self.contribution_edge),
            contribution_tensor=pack(self.contribution_tensor),
            contribution_so_far=pack(self.contribution_so_far),
            arrival_step=pack(self.arrival_step),
            arrival_input_nr=pack(self.arrival_input_nr),
            arrival_tensor=pack(self.arrival_tensor),
            tensors=summarise(self.tensors, self.kind, self.captured.kinds),
            leaf_before=pack(leaf_before),
            leaf_after=pack(leaf_after),
            mismatches=self.mismatches,
            hook_changed=self.hook_changed,
        )


def _packed(numbers: list[int]) -> bytes:
    return array("i", numbers).tobytes()
