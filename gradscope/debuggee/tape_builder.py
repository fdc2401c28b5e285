"""Turns what the hooks noted into the columns of a tape, and checks the sums while doing so."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat

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
        self._numbers: dict[int, int] = {id(None): NO_TENSOR}
        slots = captured.first_slot[-1]
        self._sum = [NO_TENSOR] * slots
        """by slot: number of the sum of what has been delivered so far"""
        self._shared = self._shared_slots(slots)
        self.step_node: list[int] = []
        self.contribution_counts: list[int] = []
        """how many contributions step 0, 1, 2, … delivered"""
        self.contribution_edge: list[int] = []
        self.contribution_tensor: list[int] = []
        self.contribution_so_far: list[int] = []
        self.arrival_counts: list[int] = []
        """how many slots the nodes of steps 1, 2, … have"""
        self.arrival_tensor: list[int] = []
        self.mismatches: list[Mismatch] = []
        self.hook_changed: list[int] = []

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
            self._contribute([-1 - root], [self.captured.slot(node, input_nr)], (seed,))
        self.contribution_counts.append(len(self.seed_slots))

    def run(self, log: Log, leaves_after: Mapping[int, Sequence[int]], totals: Mapping[SeedSlot, torch.Tensor | None]) -> None:
        """Play the log.

        Args:
            log: what the hooks noted.
            leaves_after: for a position in the log (-1 for the seeds) the leaf nodes whose last contribution it delivered.
            totals: what the engine gave for the slots of those leaves.
        """
        first_edge, edge_into, edge_slot = self.captured.first_edge, self.captured.edge_into, self.captured.edge_slot
        whole = self.captured.plan.needed is None
        numbers, sums, first_slot = self._numbers, self._sum, self.captured.first_slot
        self._finish_leaves(leaves_after.get(-1, ()), totals)
        for position, (node, sent, handed) in enumerate(log):
            if len(handed) == 1 and numbers.get(id(handed[0])) == sums[first_slot[node]]:
                self.step_node.append(node)
                self.arrival_counts.append(1)
                self.arrival_tensor.append(sums[first_slot[node]])
            else:
                self._arrive(node, handed)
            first, end = first_edge[node], first_edge[node + 1]
            if whole and end - first == len(sent):
                self._contribute(range(first, end), edge_into[first:end], sent)
                self.contribution_counts.append(end - first)
            else:
                edges = self._delivering(first, end) if sent else []
                self._contribute(edges, [edge_into[edge] for edge in edges], [sent[edge_slot[edge]] for edge in edges])
                self.contribution_counts.append(len(edges))
            if position in leaves_after:
                self._finish_leaves(leaves_after[position], totals)

    def _contribute(self, edges: Sequence[int], slots: Sequence[int], sent: Sequence[torch.Tensor | None]) -> None:
        """What one step delivered over these edges. The inner loop of everything: nothing in it that can be done outside."""
        numbers, sums, shared = self._numbers, self._sum, self._shared
        self.contribution_edge.extend(edges)
        for slot, tensor in zip(slots, sent, strict=True):
            number = numbers.get(id(tensor))
            if number is None:
                number = self.number(tensor, slot)  # type: ignore[arg-type]  # None has a number from the start
            self.contribution_tensor.append(number)
            if shared[slot]:
                number = self._added(slot, number)
            sums[slot] = number
            self.contribution_so_far.append(number)

    def _added(self, slot: int, number: int) -> int:
        """Number of the slot's sum with this contribution, added as the engine adds."""
        before = self._sum[slot]
        if before < 0 or number < 0:
            return max(before, number)
        tensors = self.tensors
        total = tensors[before] + tensors[number]
        self._numbers[id(total)] = number = len(tensors)
        tensors.append(total)
        self.kind.append(self.captured.slot_kind[slot])
        return number

    def _delivering(self, first: int, end: int) -> list[int]:
        """The edges over which the engine goes on: not those that lead to no leaf that is asked for."""
        needed = self.captured.plan.needed
        return [edge for edge in range(first, end) if needed is None or needed[self.captured.edge_target[edge]]]

    def _arrive(self, node: int, handed: Gradients) -> None:
        self.step_node.append(node)
        self.arrival_counts.append(len(handed))
        slot = self.captured.first_slot[node]
        for tensor in handed:
            number = self._numbers.get(id(tensor), _NEW)
            if number != self._sum[slot]:
                number = self._unlike(node, slot, tensor)
            self.arrival_tensor.append(number)
            slot += 1

    def _unlike(self, node: int, slot: int, tensor: torch.Tensor | None) -> int:
        """What arrived is another object than the last sum: the same number for number, or changed by a hook, or a mismatch."""
        expected, input_nr = self._sum[slot], slot - self.captured.first_slot[node]
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

    def _finish_leaves(self, nodes: Iterable[int], totals: Mapping[SeedSlot, torch.Tensor | None]) -> None:
        """The steps of leaves, which deliver nothing."""
        for node in nodes:
            first, end = self.captured.first_slot[node], self.captured.first_slot[node + 1]
            handed = [totals.get((node, nr), self._total(first + nr)) for nr in range(end - first)]
            self._arrive(node, handed)
            self.contribution_counts.append(0)

    def _total(self, slot: int) -> torch.Tensor | None:
        number = self._sum[slot]
        return None if number == NO_TENSOR else self.tensors[number]

    # ------------------------------------------------------------ the result

    def handed(self, nodes: set[int]) -> dict[SeedSlot, torch.Tensor | None]:
        """What the slots of these nodes were handed at their steps."""
        found: dict[SeedSlot, torch.Tensor | None] = {}
        place = 0
        for node, count in zip(self.step_node, self.arrival_counts, strict=True):
            if node in nodes:
                for input_nr, number in enumerate(self.arrival_tensor[place : place + count]):
                    found[node, input_nr] = None if number == NO_TENSOR else self.tensors[number]
            place += count
        return found

    def columns(self, seeds: list[Seed], leaf_before: list[int], leaf_after: list[int]) -> TapeColumns:
        pack = _packed
        arrivals = range(1, len(self.step_node) + 1), self.arrival_counts
        return TapeColumns(
            seeds=seeds,
            step_node=pack(self.step_node),
            contribution_step=pack(_repeated(range(len(self.contribution_counts)), self.contribution_counts)),
            contribution_edge=pack(self.contribution_edge),
            contribution_tensor=pack(self.contribution_tensor),
            contribution_so_far=pack(self.contribution_so_far),
            arrival_step=pack(_repeated(*arrivals)),
            arrival_input_nr=pack(chain.from_iterable(map(range, self.arrival_counts))),
            arrival_tensor=pack(self.arrival_tensor),
            tensors=summarise(self.tensors, self.kind, self.captured.kinds),
            leaf_before=pack(leaf_before),
            leaf_after=pack(leaf_after),
            mismatches=self.mismatches,
            hook_changed=self.hook_changed,
        )


def _repeated(numbers: Iterable[int], counts: Iterable[int]) -> Iterable[int]:
    return chain.from_iterable(map(repeat, numbers, counts))


def _packed(numbers: Iterable[int]) -> bytes:
    return array("i", numbers).tobytes()
