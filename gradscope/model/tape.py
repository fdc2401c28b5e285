"""The record of one pass, read from its columns: steps in engine order and every contribution that they delivered."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Failure, HookEffect, Seed, TapeColumns
from gradscope.model.places import UNKNOWN
from gradscope.model.raised import came_to, extended
from gradscope.model.tensors import KNOWN_COUNTS, KNOWN_NORM, NO_TENSOR, Summary, TensorTable

VANISHING_GAIN = 0.05
"""A step whose gain ‖sent‖ / ‖arrived‖ is below this is flagged ↓."""
EXPLODING_GAIN = 20.0
"""Above this it is flagged ↑."""

NAN, INF, ZERO, UNDEFINED, VANISHING, EXPLODING = "N", "I", "0", "⟂", "↓", "↑"
BY_HOOK, WHAT_IF = "H", "x"


@dataclass(frozen=True, slots=True)
class Contribution:
    """One gradient delivered over one edge, or the seed of a root."""

    index: int
    """its place in delivery order"""
    step: int
    """the step that delivered it; 0 for a seed"""
    edge: int
    """UNKNOWN for a seed"""
    tensor: int
    """NO_TENSOR for an undefined gradient"""
    so_far: int
    """the sum with it of all that was delivered to the same slot; NO_TENSOR while nothing defined was"""
    source: int
    """the node that delivered it; UNKNOWN for a seed"""
    root: int
    """the root that a seed is for, else UNKNOWN"""


class Tape:
    """Reads `TapeColumns` of a pass over `graph`. Steps count from 1; 0 is the start, where only the seeds are delivered.

    A node that raised, and so ended the pass, has the last step: it sends nothing. What arrived there are the sums of what was
    delivered to it; where a hook of its own or a what-if came between, nobody knows, and nothing is said to have arrived.
    """

    def __init__(self, columns: TapeColumns, graph: BackwardGraph) -> None:
        self.columns = columns
        self.graph = graph
        self.tensors = TensorTable(columns.tensors)
        self.step_node = memoryview(columns.step_node).cast("i")
        """by step - 1"""
        self.ran = len(self.step_node)
        """the last step whose node ran to its end"""
        self.contribution_step = memoryview(columns.contribution_step).cast("i")
        self.contribution_edge = memoryview(columns.contribution_edge).cast("i")
        self.contribution_tensor = memoryview(columns.contribution_tensor).cast("i")
        self.contribution_so_far = memoryview(columns.contribution_so_far).cast("i")
        self.arrival_step = memoryview(columns.arrival_step).cast("i")
        self.arrival_input_nr = memoryview(columns.arrival_input_nr).cast("i")
        self.arrival_tensor = memoryview(columns.arrival_tensor).cast("i")
        self._leaf_before = memoryview(columns.leaf_before).cast("i")
        self._leaf_after = memoryview(columns.leaf_after).cast("i")
        self._indices: dict[tuple[int, int], array[int]] = {}
        self._first_delivery: dict[int, int] = {}
        self.derived: dict[str, Any] = {}
        """what other parts of the model work out once for this tape"""
        if columns.failure is not None and columns.failure.node != UNKNOWN and columns.failure.node not in self.step_node:
            self._end_at(columns.failure.node)

    def _end_at(self, node: int) -> None:
        """Give the node that raised a step of its own."""
        self.step_node = extended(self.step_node, [node])
        came = came_to(self, node)
        self.arrival_step = extended(self.arrival_step, [self.steps] * len(came))
        self.arrival_input_nr = extended(self.arrival_input_nr, came)
        self.arrival_tensor = extended(self.arrival_tensor, came.values())

    @property
    def number(self) -> int:
        return self.columns.number

    @property
    def kind(self) -> str:
        return self.columns.kind

    @property
    def edited(self) -> bool:
        return self.columns.edited

    @property
    def seeds(self) -> list[Seed]:
        return self.columns.seeds

    @property
    def exact(self) -> str:
        return self.columns.exact

    @property
    def failure(self) -> Failure | None:
        return self.columns.failure

    # ------------------------------------------------------------ steps

    @property
    def steps(self) -> int:
        """How many there are, with that of the node that raised."""
        return len(self.step_node)

    @property
    def failed_step(self) -> int:
        """The step of the node that raised; 0 where none did, or nobody knows which."""
        return self.step_of(self.failure.node) if self.failure is not None and self.failure.node != UNKNOWN else 0

    def finished(self, node: int) -> bool:
        """The node ran to its end."""
        return 0 < self.step_of(node) <= self.ran

    @property
    def order(self) -> tuple[bytes, int]:
        """What is the same of two passes whose steps are."""
        return self.columns.step_node, self.steps and self.step_node[-1]

    def node_at(self, step: int) -> int:
        """The node that runs at a step, 1 ≤ step ≤ steps."""
        if step < 1:
            raise IndexError(f"step {step}: steps count from 1")
        return self.step_node[step - 1]

    def step_of(self, node: int) -> int:
        """The step at which the node runs; 0 when it does not run in this pass."""
        return self.step_by_node[node]

    @cached_property
    def step_by_node(self) -> array[int]:
        """`step_of` as a column, for scans."""
        steps = array("i", bytes(4 * len(self.graph)))
        for step, node in enumerate(self.step_node, 1):
            steps[node] = step
        return steps

    # ------------------------------------------------------------ contributions

    def __len__(self) -> int:
        """How many contributions were delivered, seeds included."""
        return len(self.contribution_step)

    def contribution(self, index: int) -> Contribution:
        edge = self.contribution_edge[index]
        return Contribution(
            index=index,
            step=self.contribution_step[index],
            edge=edge if edge >= 0 else UNKNOWN,
            tensor=self.contribution_tensor[index],
            so_far=self.contribution_so_far[index],
            source=self.graph.source[edge] if edge >= 0 else UNKNOWN,
            root=UNKNOWN if edge >= 0 else -1 - edge,
        )

    def to(self, node: int, input_nr: int = 0) -> list[Contribution]:
        """What is delivered to one gradient slot over the whole pass, seeds included, in delivery order."""
        return [self.contribution(index) for index in self.indices_to(node, input_nr)]

    def indices_to(self, node: int, input_nr: int = 0) -> array[int]:
        """`to` as numbers of contributions: a weight used two thousand times has two thousand."""
        key = (node, input_nr)
        if key not in self._indices:
            graph, of_edge = self.graph, self._contribution_of_edge
            seeds = (index for index in self._seed_indices if self.seed_slot(-1 - self.contribution_edge[index]) == key)
            edges = (edge for edge in graph.in_edges(node) if graph.input_nr[edge] == input_nr)
            delivered = sorted(of_edge[edge] for edge in edges if of_edge[edge] != UNKNOWN)
            self._indices[key] = array("i", [*seeds, *delivered])
        return self._indices[key]

    def sum_of(self, indices: Sequence[int], count: int) -> int:
        """Tensor number of the sum of a slot's first `count` contributions; NO_TENSOR where none of them is defined."""
        for place in range(count - 1, -1, -1):
            if self.contribution_tensor[indices[place]] != NO_TENSOR:
                return self.contribution_so_far[indices[place]]
        return NO_TENSOR

    def first_delivery(self, node: int) -> int:
        """The step at which the first contribution to any slot of a node is delivered; `steps` + 1 if none ever is."""
        if node not in self._first_delivery:
            of_edge = self._contribution_of_edge
            delivered = [of_edge[edge] for edge in self.graph.in_edges(node) if of_edge[edge] != UNKNOWN]
            delivered += [index for index in self._seed_indices if self.seed_slot(-1 - self.contribution_edge[index])[0] == node]
            self._first_delivery[node] = self.contribution_step[min(delivered)] if delivered else self.steps + 1
        return self._first_delivery[node]

    def sent_range(self, step: int) -> range:
        """Numbers of the contributions that a step delivered; step 0 delivers the seeds."""
        return range(self.sent_start[step], self.sent_start[step + 1])

    @cached_property
    def sent_start(self) -> array[int]:
        """By step: number of the first contribution that it delivered, had it delivered one; one more entry at the end."""
        amounts = Counter(self.contribution_step)
        return array("i", accumulate(map(amounts.__getitem__, range(self.steps + 1)), initial=0))

    def sent_by(self, step: int) -> list[Contribution]:
        """What a step delivered, in slot order."""
        return sorted((self.contribution(index) for index in self.sent_range(step)), key=lambda one: (one.edge, one.index))

    def contribution_of_edge(self, edge: int) -> Contribution | None:
        """What came over an edge; None when the pass did not use it."""
        index = self._contribution_of_edge[edge]
        return None if index == UNKNOWN else self.contribution(index)

    def seed_slot(self, root: int) -> tuple[int, int]:
        """Node and gradient slot that the seed of a root goes to (another tensor's, when the pass was seeded there)."""
        if self.columns.root != UNKNOWN:
            return self.columns.root, self.columns.root_input_nr
        return self.graph.roots[root].node, self.graph.roots[root].input_nr

    @cached_property
    def _contribution_of_edge(self) -> array[int]:
        of_edge = array("i", [UNKNOWN]) * self.graph.edge_count
        for index, edge in enumerate(self.contribution_edge):
            if edge >= 0:
                of_edge[edge] = index
        return of_edge

    @cached_property
    def _seed_indices(self) -> list[int]:
        return [index for index in self.sent_range(0) if self.contribution_edge[index] < 0]

    # ------------------------------------------------------------ arrivals

    def arrivals(self, node: int) -> list[tuple[int, int]]:
        """What the node's function was handed, after hooks: (input_nr, tensor) by slot. Empty when it did not run."""
        step = self.step_of(node)
        if not step:
            return []
        rows = range(bisect_left(self.arrival_step, step), bisect_right(self.arrival_step, step))
        return sorted((self.arrival_input_nr[row], self.arrival_tensor[row]) for row in rows)

    def arrived(self, node: int, input_nr: int = 0) -> int:
        """What arrived at one slot, or NO_TENSOR."""
        for slot, tensor in self.arrivals(node):
            if slot == input_nr:
                return tensor
        return NO_TENSOR

    def arrived_at(self, step: int) -> int:
        """The tensor that a row of this step shows: the first slot at which something defined arrived."""
        row = bisect_left(self.arrival_step, step)
        while row < len(self.arrival_step) and self.arrival_step[row] == step:
            if self.arrival_tensor[row] != NO_TENSOR:
                return self.arrival_tensor[row]
            row += 1
        return NO_TENSOR

    @cached_property
    def arrived_by_step(self) -> array[int]:
        """`arrived_at` as a column (by step; place 0 is NO_TENSOR), for scans."""
        tensors = array("i", [NO_TENSOR]) * (self.steps + 1)
        for step, tensor in zip(reversed(self.arrival_step), reversed(self.arrival_tensor), strict=True):
            if tensor != NO_TENSOR:
                tensors[step] = tensor
        return tensors

    def leaf_before(self, leaf: int) -> int:
        """`.grad` before the call; NO_TENSOR for None and for leaves outside the graph."""
        return self._leaf_before[leaf] if leaf < len(self._leaf_before) else NO_TENSOR

    def leaf_after(self, leaf: int) -> int:
        return self._leaf_after[leaf] if leaf < len(self._leaf_after) else NO_TENSOR

    def leaf_total(self, leaf: int) -> int:
        """What the whole pass brings to a leaf; NO_TENSOR when nothing defined does."""
        one = self.graph.leaves[leaf]
        if one.node == UNKNOWN:
            return NO_TENSOR
        for slot, tensor in self.arrivals(one.node):
            if slot == one.input_nr:
                return tensor
        indices = self.indices_to(one.node, one.input_nr)
        return self.contribution_so_far[indices[-1]] if indices else NO_TENSOR

    # ------------------------------------------------------------ numbers

    def summary(self, tensor: int) -> Summary:
        return self.tensors.summary(tensor)

    def norm(self, tensor: int) -> float:
        """The 2-norm; NaN for NO_TENSOR and where torch refuses it."""
        if tensor == NO_TENSOR or not self.tensors.known[tensor] & KNOWN_NORM:
            return math.nan
        return self.tensors.norm[tensor]

    def has_nan(self, tensor: int) -> bool:
        table = self.tensors
        return tensor != NO_TENSOR and bool(table.known[tensor] & KNOWN_COUNTS) and table.nan[tensor] > 0

    def has_inf(self, tensor: int) -> bool:
        table = self.tensors
        return tensor != NO_TENSOR and bool(table.known[tensor] & KNOWN_COUNTS) and table.inf[tensor] > 0

    def is_zero(self, tensor: int) -> bool:
        """Every element is 0 (an empty tensor is not zero)."""
        table = self.tensors
        if tensor == NO_TENSOR or not table.known[tensor] & KNOWN_COUNTS or not table.zero[tensor]:
            return False
        return table.zero[tensor] == table.numel(tensor)

    def gain(self, step: int) -> float:
        """‖sent‖ / ‖arrived‖, where sent is the largest contribution that goes on beyond the leaves, if one does, else to them.

        NaN when it cannot be told: nothing arrives, or a norm is unknown or not finite.
        """
        norms = (self.norm(tensor) for _, tensor in self.arrivals(self.node_at(step)) if tensor != NO_TENSOR)
        return self._gain(math.hypot(*norms), self.sent_range(step))

    @cached_property
    def gain_by_step(self) -> array[float]:
        """`gain` as a column (by step; place 0 is NaN), for scans."""
        squares = array("d", [0.0]) * (self.steps + 1)
        for step, tensor in zip(self.arrival_step, self.arrival_tensor, strict=True):
            if tensor != NO_TENSOR:
                squares[step] += self.norm(tensor) ** 2
        start = self.sent_start
        gains = (self._gain(math.sqrt(squares[step]), range(start[step], start[step + 1])) for step in range(1, self.steps + 1))
        return array("d", [math.nan, *gains])

    def _gain(self, came: float, sent: range) -> float:
        inner, outer = -1.0, -1.0
        for index in sent:
            norm = self.norm(self.contribution_tensor[index])
            if self.graph.is_accumulate(self.graph.target[self.contribution_edge[index]]):
                outer = max(outer, norm)
            else:
                inner = max(inner, norm)
        most = inner if inner >= 0 else outer
        return most / came if most >= 0 and 0 < came < math.inf and most < math.inf else math.nan

    def effect(self, hook: int) -> HookEffect | None:
        """What a hook, by its place in the graph's columns, was given and made of it; None where that was not recorded.

        Of a hook that sees several gradients the first that it changed, else the first.
        """
        found = self.effects(hook)
        return next((effect for effect in found if effect.before != effect.after), found[0] if found else None)

    def effects(self, hook: int) -> Sequence[HookEffect]:
        """The same for each gradient that the hook sees."""
        return self._effects.get(hook, ())

    @cached_property
    def _effects(self) -> dict[int, list[HookEffect]]:
        found: dict[int, list[HookEffect]] = {}
        for effect in self.columns.hook_effects:
            found.setdefault(effect.hook, []).append(effect)
        return found

    @cached_property
    def changed_steps(self) -> frozenset[int]:
        """The steps of the nodes at which a what-if of this pass changes a gradient."""
        return frozenset(self.step_of(change.node) for change in self.columns.changes)

    @cached_property
    def hooked_steps(self) -> frozenset[int]:
        """The steps at which a hook replaced or edited a gradient."""
        effects = self.columns.hook_effects
        edited = (one.step for one in effects if one.before != one.after and NO_TENSOR not in (one.before, one.after))
        return frozenset((*self.columns.hook_changed, *edited))

    def changes_between(self, first: int, last: int) -> str:
        """The letters `x` and `H` of the steps from `first` to `last`: there are few, however many steps there are."""
        marks = ((WHAT_IF, self.changed_steps), (BY_HOOK, self.hooked_steps))
        return "".join(letter for letter, steps in marks if any(first <= step <= last for step in steps))

    def flags(self, step: int) -> str:
        """Letters for one row: of what arrives `N` NaN, `I` inf, `0` all zero, `⟂` undefined; of what the step does `↓` `↑`.

        `x` says that the person changed what arrives, or one contribution to it (a what-if), `H` that a hook did.
        The arrows say that the step's `gain` lies below VANISHING_GAIN or above EXPLODING_GAIN.
        """
        slots: Sequence[int] = [tensor for _, tensor in self.arrivals(self.node_at(step))]
        defined = [tensor for tensor in slots if tensor != NO_TENSOR]
        letters = ""
        if any(map(self.has_nan, defined)):
            letters += NAN
        if any(map(self.has_inf, defined)):
            letters += INF
        if defined and all(map(self.is_zero, defined)):
            letters += ZERO
        if slots and not defined:
            letters += UNDEFINED
        if step in self.changed_steps:
            letters += WHAT_IF
        if step in self.hooked_steps:
            letters += BY_HOOK
        gain = self.gain(step)
        if gain < VANISHING_GAIN:
            letters += VANISHING
        elif gain > EXPLODING_GAIN:
            letters += EXPLODING
        return letters
