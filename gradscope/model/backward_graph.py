"""The autograd graph of one backward call, read from its columns.

Nodes and edges are numbers; nothing here keeps an object a node, so that a million of them cost some tens of megabytes. Indexes
are built when first asked for. The networkx graph is built lazily too: questions about paths, ancestors and components are its.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from gradscope.model.columns import GraphColumns, Hook, Leaf, LocalDerivative, Root
from gradscope.model.places import UNKNOWN, Origin

if TYPE_CHECKING:
    import networkx

ACCUMULATE = "AccumulateGrad"


class BackwardGraph:
    """Reads `GraphColumns`. An edge goes from the node nearer the loss (source) to the node nearer the leaves (target)."""

    def __init__(self, columns: GraphColumns) -> None:
        self.columns = columns
        self._op = memoryview(columns.op).cast("i")
        self._sequence_nr = memoryview(columns.sequence_nr).cast("q")
        self._shape = memoryview(columns.shape).cast("i")
        self._dtype = memoryview(columns.dtype).cast("i")
        self._origin = memoryview(columns.origin).cast("i")
        self._occurrence = memoryview(columns.occurrence).cast("i")
        self.source = memoryview(columns.edge_source).cast("i")
        """by edge; edges are sorted by (source, slot)"""
        self.slot = memoryview(columns.edge_slot).cast("i")
        self.target = memoryview(columns.edge_target).cast("i")
        self.input_nr = memoryview(columns.edge_input_nr).cast("i")

    def __len__(self) -> int:
        return len(self._op)

    @property
    def edge_count(self) -> int:
        return len(self.source)

    # ------------------------------------------------------------ one node

    def op(self, node: int) -> str:
        """`SinBackward0`, `AccumulateGrad`."""
        return self.columns.ops[self._op[node]]

    def op_index(self, node: int) -> int:
        """Place in `columns.ops`."""
        return self._op[node]

    def short(self, node: int) -> str:
        """The name without `Backward0`: `Sin`."""
        return self._short_ops[self._op[node]]

    def shape(self, node: int) -> tuple[int, ...] | None:
        """Shape of the gradient that arrives at the first slot, where torch says it."""
        index = self._shape[node] if self._shape else UNKNOWN
        return None if index == UNKNOWN else tuple(self.columns.shapes[index])

    def dtype(self, node: int) -> str:
        """Empty where torch does not say."""
        index = self._dtype[node] if self._dtype else UNKNOWN
        return "" if index == UNKNOWN else self.columns.dtypes[index]

    def sequence_nr(self, node: int) -> int:
        return self._sequence_nr[node] if self._sequence_nr else UNKNOWN

    def origin_index(self, node: int) -> int:
        """Place in `columns.origins`, or UNKNOWN: equal for nodes that one line's calls made."""
        return self._origin[node] if self._origin else UNKNOWN

    def origin(self, node: int) -> Origin | None:
        """The forward call that made the node; for an AccumulateGrad the line that made its leaf, where that is known."""
        index = self.origin_index(node)
        if index == UNKNOWN:
            leaf = self.leaf_at(node)
            index = UNKNOWN if leaf is None else self.leaves[leaf].origin
        return None if index == UNKNOWN else self.columns.origins[index]

    def occurrence(self, node: int) -> int:
        """Which run of its line made the node: 1 for the first that made nodes of this graph, 2 for the next; 0 where unknown."""
        return self._occurrence[node] if self._occurrence else 0

    def occurrences(self, node: int) -> int:
        """In how many runs the node's line made nodes of this graph; 0 where unknown."""
        origin = self.origin_index(node)
        return 0 if origin == UNKNOWN else self._occurrences[self._code_of_origin[origin]]

    def alike(self, node: int) -> list[int]:
        """The nodes of this op that the node's line made, in forward order; itself alone where its line is unknown."""
        origin, op = self.origin_index(node), self._op[node]
        if origin == UNKNOWN:
            return [node]
        lines = self.line_of_origin
        found = [
            other
            for other, (at, kind) in enumerate(zip(self._origin, self._op, strict=True))
            if kind == op and at != UNKNOWN and lines[at] == lines[origin]
        ]
        return sorted(found, key=self._sequence_nr.__getitem__)

    def is_accumulate(self, node: int) -> bool:
        return self._op[node] == self._accumulate

    # ------------------------------------------------------------ edges

    def out_edges(self, node: int) -> range:
        """Edges toward the leaves, in slot order."""
        return range(self._out_start[node], self._out_start[node + 1])

    def in_edges(self, node: int) -> Sequence[int]:
        """Edges from the loss's side, by number (not in the order in which they deliver)."""
        start, edges = self._in_index
        return edges[start[node] : start[node + 1]]

    def role(self, edge: int) -> str:
        """The forward argument that the edge belongs to: `self`, `weight`; empty where unknown."""
        return self.columns.edge_roles.get(edge, "")

    def local(self, edge: int) -> LocalDerivative | None:
        return self.columns.local.get(edge)

    # ------------------------------------------------------------ roots and leaves

    @property
    def roots(self) -> list[Root]:
        return self.columns.roots

    @property
    def leaves(self) -> list[Leaf]:
        """Those in the graph first, then those the pass cannot reach."""
        return self.columns.leaves

    @cached_property
    def reached(self) -> list[Leaf]:
        """The leaves that are in the graph."""
        return [leaf for leaf in self.leaves if leaf.node != UNKNOWN]

    @cached_property
    def unreached(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.node == UNKNOWN]

    def leaf_at(self, node: int) -> int | None:
        """Index into `leaves` of the leaf whose gradient arrives at the node (the first, if several slots are leaves)."""
        places = self._leaves_by_node.get(node)
        return places[0] if places else None

    def leaves_at(self, node: int) -> Sequence[int]:
        """All leaves at the node: a node with several outputs can carry several `inputs=` tensors."""
        return self._leaves_by_node.get(node, ())

    def hooks_of(self, node: int) -> list[tuple[int, Hook]]:
        """The hooks of a node in the order in which they run, with their places in `columns.hooks`."""
        return self._hooks_by_node.get(node, [])

    # ------------------------------------------------------------ words

    def label(self, node: int) -> str:
        """`SinBackward0`; for a leaf `x  (leaf)`, for a tensor of `inputs=` `h  (input)`."""
        place = self.leaf_at(node)
        if place is None:
            return self.op(node)
        leaf = self.leaves[place]
        return f"{leaf.name}  ({'input' if leaf.kind == 'input' else 'leaf'})"

    def makes(self, node: int) -> str:
        """What of the forward made the node: the statement, `b = x.sin()`, or the part of it, `x[0] ** 2`.

        Empty for leaves and where unknown.
        """
        index = self.origin_index(node)
        if index == UNKNOWN:
            return ""
        origin = self.columns.origins[index]
        return origin.code if origin.target or not origin.expression else origin.expression

    def gradient_name(self, node: int) -> str:
        """What arrives at the node: `∂b`, for a leaf `x.grad`; empty where the forward gave the tensor no name of its own."""
        place = self.leaf_at(node)
        if place is not None:
            leaf = self.leaves[place]
            return f"∂{leaf.name}" if leaf.kind == "input" else f"{leaf.name}.grad"
        for root in self.roots:
            if root.node == node and root.name.isidentifier():
                return f"∂{root.name}"
        index = self.origin_index(node)
        if index == UNKNOWN or not self._makes_target[node]:
            return ""
        target = self.columns.origins[index].target
        return f"∂{target}" if target and self._may_be(node, target) else ""

    def _may_be(self, node: int, target: str) -> bool:
        """False for a tensor that was written into through a view, `flat[0] = 1`, and goes by another name itself."""
        now, base = self.columns.origins[self._origin[node]], node
        while self.op(base) == "CopySlices":
            edges = self.out_edges(base)
            if not edges or self.slot[edges[0]] != 0:
                return True
            base = self.target[edges[0]]
        before = self.origin_index(base)
        if before == UNKNOWN or base == node or not self._makes_target[base]:
            return True
        was = self.columns.origins[before]
        return was.target in ("", target) or (was.file, was.function) != (now.file, now.function)

    # ------------------------------------------------------------ networkx

    @cached_property
    def networkx(self) -> networkx.MultiDiGraph[int]:
        """The same graph for questions about paths. Nodes carry op, name, shape, dtype, file, line, function, module, leaf.

        Edges are keyed by slot and carry edge (its number) and input_nr. About 1.6 kB a node: built on first use only.
        """
        import networkx as nx

        graph: networkx.MultiDiGraph[int] = nx.MultiDiGraph()
        graph.add_nodes_from((node, self._attributes(node)) for node in range(len(self)))
        for edge in range(self.edge_count):
            ends = self.source[edge], self.target[edge]
            graph.add_edge(*ends, key=self.slot[edge], edge=edge, input_nr=self.input_nr[edge])
        return graph

    def _attributes(self, node: int) -> dict[str, Any]:
        origin, place = self.origin(node), self.leaf_at(node)
        leaf = "" if place is None else self.leaves[place].name
        return {
            "op": self.op(node),
            "name": leaf or self.short(node),
            "shape": self.shape(node),
            "dtype": self.dtype(node),
            "file": origin.file if origin else "",
            "line": origin.line if origin else 0,
            "function": origin.function if origin else "",
            "module": origin.module if origin else "",
            "leaf": leaf,
        }

    # ------------------------------------------------------------ indexes

    @cached_property
    def _accumulate(self) -> int:
        return self.columns.ops.index(ACCUMULATE) if ACCUMULATE in self.columns.ops else -1

    @cached_property
    def _short_ops(self) -> list[str]:
        return [short_op(op) for op in self.columns.ops]

    @cached_property
    def _leaves_by_node(self) -> dict[int, list[int]]:
        places: dict[int, list[int]] = {}
        for place, leaf in enumerate(self.leaves):
            if leaf.node != UNKNOWN:
                places.setdefault(leaf.node, []).append(place)
        return places

    @cached_property
    def _hooks_by_node(self) -> dict[int, list[tuple[int, Hook]]]:
        hooks: dict[int, list[tuple[int, Hook]]] = {}
        for place, hook in enumerate(self.columns.hooks):
            hooks.setdefault(hook.node, []).append((place, hook))
        return hooks

    @cached_property
    def line_of_origin(self) -> list[int]:
        """A number for each origin's line: the modules that share a line's code have origins of their own."""
        numbers: dict[tuple[str, int], int] = {}
        return [numbers.setdefault((origin.file, origin.line), len(numbers)) for origin in self.columns.origins]

    @cached_property
    def _code_of_origin(self) -> list[int]:
        """A number for each origin's line in its function: a comprehension has runs of its own on the line that it stands in."""
        numbers: dict[tuple[int, str], int] = {}
        pairs = zip(self.line_of_origin, self.columns.origins, strict=True)
        return [numbers.setdefault((line, origin.function), len(numbers)) for line, origin in pairs]

    @cached_property
    def _occurrences(self) -> list[int]:
        codes = self._code_of_origin
        most = [0] * len(codes)
        for origin, run in set(zip(self._origin, self._occurrence, strict=True)) if self._occurrence else ():
            if origin != UNKNOWN:
                most[codes[origin]] = max(most[codes[origin]], run)
        return most

    @cached_property
    def _out_start(self) -> array[int]:
        return _starts(self.source, len(self))

    @cached_property
    def _in_index(self) -> tuple[array[int], array[int]]:
        targets = self.target.tolist()
        edges = array("i", sorted(range(len(targets)), key=targets.__getitem__))
        return _starts(self.target, len(self)), edges

    @cached_property
    def _makes_target(self) -> bytearray:
        """1 for the nodes whose forward result is what their statement assigned.

        `b = (x * x).sin()` makes two nodes and one `b`. In forward order the nodes of one line follow each other, and the last of
        them made the name; a line that a loop runs again and again repeats its ops, and each round's last node made it.
        """
        made = bytearray(len(self))
        by_forward = sorted(
            (node for node in range(len(self)) if self.origin_index(node) != UNKNOWN), key=self._sequence_nr.__getitem__
        )
        start = 0
        for end in range(1, len(by_forward) + 1):
            if end < len(by_forward) and self._origin[by_forward[end]] == self._origin[by_forward[start]]:
                continue
            run = by_forward[start:end]
            period = _period([self._op[node] for node in run])
            for node in run[-1:] if period == 1 else run[period - 1 :: period]:
                made[node] = 1
            start = end
        return made


def short_op(op: str) -> str:
    """`Sin` for `SinBackward0`; names without the ending stay."""
    head, found, tail = op.rpartition("Backward")
    return head if found and head and (not tail or tail.isdigit()) else op


def _starts(keys: memoryview[int], count: int) -> array[int]:
    """For keys 0 … count-1: where each one's run begins once the keys are sorted; one more entry at the end."""
    amounts = Counter(keys)
    return array("i", accumulate((amounts[key] for key in range(count)), initial=0))


def _period(items: list[int]) -> int:
    """Length of the shortest pattern whose whole repeats give the list."""
    count = len(items)
    border = [0] * count
    for i in range(1, count):
        length = border[i - 1]
        while length and items[i] != items[length]:
            length = border[length - 1]
        border[i] = length + (items[i] == items[length])
    shortest = count - border[-1] if count else 0
    return shortest if shortest and count % shortest == 0 else count
