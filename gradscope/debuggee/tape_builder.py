"""Turns what the hooks noted into the columns of a tape, and checks the sums while doing so.

A pass over a million nodes has as many contributions, so nothing here loops over them in Python but the additions themselves:
whole columns are made with iterators that run in C.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, chain, repeat

import torch

from gradscope.debuggee.capture import Captured
from gradscope.debuggee.changes import WhatIfs
from gradscope.debuggee.exactness import same_bits, summed
from gradscope.debuggee.parts import Opaque
from gradscope.debuggee.record import Gradients
from gradscope.debuggee.summaries import summarise
from gradscope.model.columns import Change, HookEffect, Mismatch, Seed, TapeColumns
from gradscope.model.places import UNKNOWN
from gradscope.model.tensors import NO_TENSOR

Entry = tuple[int, Gradients, Gradients]
"""A node that ran, what it sent, what it was handed."""
SeedSlot = tuple[int, int]
"""The node and the gradient slot that a seed goes to."""

_NEW = -2
"""an object that has no number yet"""


class Held:
    """The tensors of a tape, by number, as long as the debuggee keeps them."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self._tensors: list[torch.Tensor | None] = [*tensors]
        self.bytes = 0
        """of all their elements, once somebody has counted"""

    def __len__(self) -> int:
        return len(self._tensors)

    @property
    def present(self) -> dict[int, torch.Tensor]:
        """Those that are still held."""
        return {number: tensor for number, tensor in enumerate(self._tensors) if tensor is not None}

    def tensor(self, number: int) -> torch.Tensor:
        """The tensor of that number.

        Raises:
            KeyError: it is not held (any more).
        """
        tensor = self._tensors[number] if 0 <= number < len(self._tensors) else None
        if tensor is None:
            raise KeyError(number)
        return tensor

    def drop(self, numbers: Iterable[int]) -> None:
        """Let go of some."""
        for number in numbers:
            self._tensors[number] = None

    def release(self) -> None:
        self._tensors.clear()


class TapeBuilder:
    """Fills the columns of one pass.

    Args:
        captured: the graph.
        seed_slots: where the seeds went.
        seeds: the seeds, as the engine handed them over.
        log: what the hooks noted, in engine order.
        leaves_after: for a position in the log (-1 for the seeds) the leaf nodes whose last contribution was delivered there, and
            which have no entry of their own.
        totals: what the engine gave for the slots of those leaves.
        what_ifs: what the person changed on the way.
    """

    def __init__(
        self,
        captured: Captured,
        seed_slots: Sequence[SeedSlot],
        seeds: Sequence[torch.Tensor | None],
        log: Sequence[Entry],
        leaves_after: Mapping[int, Sequence[int]],
        totals: Mapping[SeedSlot, torch.Tensor | None],
        what_ifs: WhatIfs | None = None,
    ) -> None:
        self.captured = captured
        self.seed_slots = seed_slots
        self.tensors: list[torch.Tensor] = []
        self.kind: list[int] = []
        self._numbers: dict[int, int] = {id(None): NO_TENSOR}
        self.mismatches: list[Mismatch] = []
        self.hook_changed: list[int] = []
        self.hook_effects: list[HookEffect] = []
        self.unsummed: dict[int, str] = {}
        """slot -> why its contributions could not be added"""
        entries = _with_leaves(log, leaves_after)
        self.step_node = [node for node, _, _ in entries]
        self._deliver(seeds, entries)
        handed = [self._handed(entry, totals) if entry[2] is _LEAF else entry[2] for entry in entries]
        self.changes: list[Change] = []
        """what-ifs, with the numbers of what would have been"""
        if what_ifs is None:
            self._arrive(handed)
        else:
            self._arrive_changed(handed, what_ifs)

    # ------------------------------------------------------------ contributions

    def _deliver(self, seeds: Sequence[torch.Tensor | None], entries: Sequence[Entry]) -> None:
        captured = self.captured
        edges, sent, counts = self._delivered(entries)
        self.contribution_counts = [len(self.seed_slots), *counts]
        """how many contributions step 0, 1, 2, … delivered"""
        self.contribution_edge = [-1 - root for root in range(len(self.seed_slots))] + edges
        slots = [captured.slot(*place) for place in self.seed_slots] + list(map(captured.edge_into.__getitem__, edges))
        tensors = [*seeds, *sent]
        self.contribution_tensor = self._numbered(tensors, slots)
        self.contribution_so_far = self._sums(slots)
        self._sum = dict(zip(slots, self.contribution_so_far, strict=True))
        """by slot: number of the sum of all that was delivered"""

    def _delivered(self, entries: Sequence[Entry]) -> tuple[list[int], list[torch.Tensor | None], list[int]]:
        """Edges over which the engine delivered, in order; what went over each; how many there are by step."""
        captured, first = self.captured, self.captured.first_edge
        starts, ends = [first[node] for node in self.step_node], [first[node + 1] for node in self.step_node]
        counts = [len(sent) for _, sent, _ in entries]
        if captured.plan.needed is None and counts == [end - start for start, end in zip(starts, ends, strict=True)]:
            return list(chain.from_iterable(map(range, starts, ends))), list(chain.from_iterable(e[1] for e in entries)), counts
        edges: list[int] = []
        tensors: list[torch.Tensor | None] = []
        counts = []
        for (_, sent, _), start, end in zip(entries, starts, ends, strict=True):
            over = [edge for edge in range(start, end) if captured.leads_on(edge)] if sent else []
            edges.extend(over)
            tensors.extend(sent[captured.edge_slot[edge]] for edge in over)
            counts.append(len(over))
        return edges, tensors, counts

    def _numbered(self, tensors: Sequence[torch.Tensor | None], slots: Sequence[int]) -> list[int]:
        """Numbers of the tensors, the same for the same object."""
        ids = list(map(id, tensors))
        known = dict(zip(ids, tensors, strict=True))
        known.pop(id(None), None)
        self.tensors = list(known.values())  # type: ignore[arg-type]  # None is out
        self._numbers.update(zip(known, range(len(known)), strict=True))
        numbers = list(map(self._numbers.__getitem__, ids))
        slot_of = dict(zip(numbers, slots, strict=True))
        self.kind = [self.captured.slot_kind[slot_of[number]] for number in range(len(known))]
        return numbers

    def _sums(self, slots: Sequence[int]) -> list[int]:
        """After each contribution the number of its slot's sum: added left to right, as the engine adds."""
        so_far = list(self.contribution_tensor)
        shared = self._shared()
        sums: dict[int, int] = {}
        tensors, kind = self.tensors, self.kind
        for place in [place for place, slot in enumerate(slots) if shared[slot]]:
            slot, number = slots[place], so_far[place]
            before = sums.get(slot, NO_TENSOR)
            if before < 0 or number < 0:
                number = max(before, number)
            elif slot in self.unsummed:
                number = NO_TENSOR
            else:
                try:
                    total = summed(tensors[before], tensors[number])
                    self._numbers[id(total)] = number = len(tensors)
                    tensors.append(total)
                    kind.append(self.captured.slot_kind[slot])
                except Opaque as error:
                    self.unsummed[slot] = str(error)
                    number = NO_TENSOR
                except Exception as error:  # layouts that only the engine can add
                    self.unsummed[slot] = f"{type(error).__name__}: {error}"
                    number = NO_TENSOR
            so_far[place] = sums[slot] = number
        return so_far

    def _shared(self) -> bytearray:
        """1 for each slot that more than one contribution can reach."""
        degree = list(self.captured.slot_degree)
        for place in self.seed_slots:
            degree[self.captured.slot(*place)] += 1
        return bytearray(map((1).__lt__, degree))

    # ------------------------------------------------------------ arrivals

    def _handed(self, entry: Entry, totals: Mapping[SeedSlot, torch.Tensor | None]) -> Gradients:
        """What a leaf got: what the engine says, else the sum."""
        node = entry[0]
        first, end = self.captured.first_slot[node], self.captured.first_slot[node + 1]
        return [totals.get((node, nr), self._total(first + nr)) for nr in range(end - first)]

    def _total(self, slot: int) -> torch.Tensor | None:
        number = self._sum.get(slot, NO_TENSOR)
        return None if number == NO_TENSOR else self.tensors[number]

    def _arrive(self, handed: Sequence[Gradients]) -> None:
        """Compare what each function was handed with the sum of what was delivered to it."""
        self.arrival_counts = list(map(len, handed))
        """how many slots the nodes of steps 1, 2, … have"""
        slots = self._slots_of_arrivals()
        tensors = list(chain.from_iterable(handed))
        expected = list(map(self._sum.get, slots, repeat(NO_TENSOR)))
        self.arrival_tensor = list(map(self._numbers.get, map(id, tensors), repeat(_NEW)))
        if self.arrival_tensor != expected:
            steps = list(_repeated(range(1, len(handed) + 1), self.arrival_counts))
            for place, (found, number) in enumerate(zip(self.arrival_tensor, expected, strict=True)):
                if found != number:
                    self.arrival_tensor[place] = self._unlike(steps[place], slots[place], tensors[place])

    def _slots_of_arrivals(self) -> list[int]:
        firsts = list(map(self.captured.first_slot.__getitem__, self.step_node))
        return list(chain.from_iterable(map(range, firsts, map(int.__add__, firsts, self.arrival_counts))))

    def _unlike(self, step: int, slot: int, tensor: torch.Tensor | None) -> int:
        """What arrived is another object than the last sum: the same number for number, or changed by a hook, or a mismatch."""
        node, expected = self.step_node[step - 1], self._sum.get(slot, NO_TENSOR)
        input_nr = slot - self.captured.first_slot[node]
        try:
            if tensor is not None and expected != NO_TENSOR and same_bits(tensor, self.tensors[expected]):
                return expected
        except Opaque as error:
            self.unsummed[slot] = str(error)
        if slot in self.unsummed:
            return NO_TENSOR if tensor is None else self.number(tensor, slot)
        hooked = self.captured.foreign.hooked
        if (node, input_nr) in hooked or (node, UNKNOWN) in hooked:
            if not self.hook_changed or self.hook_changed[-1] != step:
                self.hook_changed.append(step)
        else:
            what = "the engine handed on another gradient than the sum of the contributions"
            self.mismatches.append(Mismatch(node, input_nr, what))
        return NO_TENSOR if tensor is None else self.number(tensor, slot)

    def _arrive_changed(self, handed: list[Gradients], what_ifs: WhatIfs) -> None:
        """The same where the person changed some: what would have been is compared with the sums, then the changed put there."""
        changed: dict[int, torch.Tensor | None] = {}
        """place of an arrival -> what arrived in truth"""
        start = 0
        for step, node in enumerate(self.step_node):
            if node in what_ifs.arriving:
                places = what_ifs.arriving[node]
                truth = handed[step] if places[0] in what_ifs.before else what_ifs.arrive_at_leaf(node, handed[step])
                would = list(truth)
                for place in reversed(places):
                    input_nr = what_ifs.changes[place].input_nr
                    would[input_nr] = what_ifs.before[place]
                    changed[start + input_nr] = truth[input_nr]
                handed[step] = would
            start += len(handed[step])
        self._arrive(handed)
        slots = self._slots_of_arrivals()
        first = {slots[place]: self.arrival_tensor[place] for place in changed}
        for place, change in enumerate(what_ifs.changes):
            slot = self.captured.slot(change.node, change.input_nr)
            before = what_ifs.before.get(place)
            number = NO_TENSOR if before is None else self.number(before, slot)
            self.changes.append(replace(change, before=first.pop(slot, number) if change.edge == UNKNOWN else number))
        for place, tensor in changed.items():
            self.arrival_tensor[place] = NO_TENSOR if tensor is None else self.number(tensor, slots[place])

    # ------------------------------------------------------------ the result

    def number(self, tensor: torch.Tensor, slot: int = UNKNOWN) -> int:
        """The tensor's number; a new one the first time it is seen."""
        number = self._numbers.setdefault(id(tensor), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(tensor)
            self.kind.append(self.captured.slot_kind[slot] if slot >= 0 else -1)
        return number

    def sum_at(self, node: int, input_nr: int) -> int:
        """Number of the sum of all that was delivered to a slot; NO_TENSOR where nothing defined was."""
        return self._sum.get(self.captured.slot(node, input_nr), NO_TENSOR)

    def arrived_at(self, node: int, input_nr: int) -> int:
        """Number of what the node was handed at a slot; NO_TENSOR where it was undefined or the node did not run."""
        start = self._arrival_start.get(node, UNKNOWN)
        return NO_TENSOR if start == UNKNOWN else self.arrival_tensor[start + input_nr]

    def without_what_if(self, node: int, input_nr: int) -> int:
        """The same, but for a what-if of all that arrives there: it comes after the hooks."""
        there = (one for one in self.changes if (one.node, one.input_nr, one.edge) == (node, input_nr, UNKNOWN))
        change = next(there, None)
        return self.arrived_at(node, input_nr) if change is None else change.before

    @cached_property
    def _arrival_start(self) -> dict[int, int]:
        return dict(zip(self.step_node, accumulate(self.arrival_counts, initial=0), strict=False))

    def take_effects(self, effects: Sequence[HookEffect], changed: Iterable[int]) -> None:
        """What each hook did, and the steps whose arriving gradient one changed."""
        self.hook_effects = list(effects)
        self.hook_changed = sorted({*self.hook_changed, *changed})

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
        return TapeColumns(
            seeds=seeds,
            step_node=pack(self.step_node),
            contribution_step=pack(_repeated(range(len(self.contribution_counts)), self.contribution_counts)),
            contribution_edge=pack(self.contribution_edge),
            contribution_tensor=pack(self.contribution_tensor),
            contribution_so_far=pack(self.contribution_so_far),
            arrival_step=pack(_repeated(range(1, len(self.step_node) + 1), self.arrival_counts)),
            arrival_input_nr=pack(chain.from_iterable(map(range, self.arrival_counts))),
            arrival_tensor=pack(self.arrival_tensor),
            tensors=summarise(self.tensors, self.kind, self.captured.kinds),
            leaf_before=pack(leaf_before),
            leaf_after=pack(leaf_after),
            mismatches=self.mismatches,
            hook_changed=self.hook_changed,
            hook_effects=self.hook_effects,
        )


_LEAF: Gradients = []
"""Stands for what a leaf was handed, until the sums are known; compared by identity."""


def _with_leaves(log: Sequence[Entry], leaves_after: Mapping[int, Sequence[int]]) -> list[Entry]:
    """The log with the steps of leaves, which deliver nothing."""
    entries: list[Entry] = []
    done = 0
    for position in sorted(leaves_after):
        entries.extend(log[done : position + 1])
        done = position + 1
        entries.extend((node, (), _LEAF) for node in leaves_after[position])
    entries.extend(log[done:])
    return entries


def _repeated(numbers: Iterable[int], counts: Iterable[int]) -> Iterable[int]:
    return chain.from_iterable(map(repeat, numbers, counts))


def _packed(numbers: Iterable[int]) -> bytes:
    return array("i", numbers).tobytes()
