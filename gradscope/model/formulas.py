"""What a node computes in the backward pass, readable: the entry of torch's own derivative table, for one node of a graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.derivatives import Entry
from gradscope.model.edge_names import sent_name
from gradscope.model.elementwise import delivered
from gradscope.model.formula_nodes import BY_HAND, LINEAR, NODES
from gradscope.model.notation import Written, rewritten, write
from gradscope.model.places import CodePlace

NOT_READ = "torch's derivative table is not read yet"

_COMPILED = ("CompiledFunction", "CppFunction", "CppNode", "DifferentiableGraph")


@dataclass(frozen=True, slots=True)
class Formula:
    """What one node makes of what arrives."""

    op: str
    forward: str = ""
    """`mm(self, mat2)`; empty where unknown"""
    outputs: list[tuple[str, str]] = field(default_factory=list)
    """argument of the forward, and its gradient: `mat2`, `selfᵀ @ grad`"""
    source: str = ""
    """`derivatives.yaml of torch 2.13.0`, `backward of MyFn (f.py:12)`; empty where there is no formula"""
    why_not: str = ""
    """why there is none"""
    where: list[str] = field(default_factory=list)
    """what names in it mean: `xhat = (input - mean) * rstd`"""
    names: dict[str, str] = field(default_factory=dict)
    """argument of the forward -> what the person calls that tensor"""
    edges: dict[str, list[int]] = field(default_factory=dict)
    """argument of the forward -> the edges that carry its gradient"""
    code: CodePlace | None = None
    """the person's own backward, in place of a formula"""


class Formulas:
    """The table of one torch version, or of the nodes of a snapshot."""

    def __init__(self, table: Mapping[str, Entry], torch: str = "", why_not: str = "") -> None:
        self.table = table
        self.torch = torch
        self.why_not = why_not
        """why there is no table"""

    def of(
        self,
        graph: BackwardGraph,
        node: int,
        known: Mapping[str, str] | None = None,
        sent: Mapping[int, tuple[int, ...]] | None = None,
    ) -> Formula:
        """The formula of a node.

        Args:
            known: what is known of the forward's other arguments, as Python writes it: `alpha` -> `1`. They are put in.
            sent: by edge, the shapes of what a pass sent, where that is known: the graph has most of them, not all.
        """
        op = graph.op(node)
        if node in graph.columns.backward_code:
            return _custom(graph, node)
        if op in BY_HAND:
            return _by_hand(graph, node, sent or {})
        entry = self.table.get(op)
        if entry is None:
            return Formula(op, why_not=self._missing(graph, node))
        return self._from_table(graph, node, entry, known or {}, sent or {})

    def entries(self, graph: BackwardGraph) -> dict[str, Entry]:
        """What a snapshot of the graph has to carry."""
        return {op: self.table[op] for op in graph.columns.ops if op in self.table}

    def _from_table(
        self, graph: BackwardGraph, node: int, entry: Entry, known: Mapping[str, str], sent: Mapping[int, tuple[int, ...]]
    ) -> Formula:
        edges = edges_by_argument(graph, node, entry)
        complex_ = _is_complex(graph, node)
        outputs, where, refused = [], list[str](), ""
        for arguments, cpp in entry.derivatives:
            for place, argument in enumerate(arguments):
                if edges and argument not in edges:
                    continue  # nothing goes there in this graph
                said = written(graph.op(node), argument, cpp, place, len(arguments), is_complex=complex_, known=known)
                refused = refused or said.refused
                if not said.refused:
                    carrying, others = edges.get(argument, ()), len(entry.inputs) > 1
                    said = _delivered(graph, node, argument, said, carrying, sent, may_broadcast=others)
                    outputs.append((argument, said.text))
                    where += said.where
        order = [name for name, _ in entry.inputs]
        outputs.sort(key=lambda output: order.index(output[0]) if output[0] in order else len(order))
        return Formula(
            graph.op(node),
            forward=spoken(entry.forward),
            outputs=outputs,
            source=f"derivatives.yaml of torch {self.torch}".rstrip(),
            why_not="" if outputs else refused or "torch's table has no derivative for what is needed here",
            where=list(dict.fromkeys([*where, *_defaults(entry, outputs)])),
            names=_names(graph, edges),
            edges=edges,
        )

    def _missing(self, graph: BackwardGraph, node: int) -> str:
        op = graph.op(node)
        if op.startswith(_COMPILED):
            return "compiled code: its backward was made by torch's compiler, and is in no table"
        if node in graph.columns.foreign:
            return f"not torch's: {graph.columns.foreign[node]}"
        if self.why_not or not self.table:
            return self.why_not or NOT_READ
        if not re.search(r"Backward\d", op):
            return f"{op} is no operation of torch's table: a class of its own, in Python or in C++"
        return f"torch {self.torch} lists no derivative of {op}: its C++ is written by hand"


def spoken(forward: str) -> str:
    """`mm(Tensor self, Tensor mat2) -> Tensor` -> `mm(self, mat2)`: names and defaults, no types."""
    found = re.match(r"([\w.]+)\((.*)\) -> ", forward)
    if found is None:
        return forward
    parts = re.split(r", (?![^\[(]*[\])])", found[2])
    arguments = (re.sub(r"^[^ =]+ (?=\w)", "", part) for part in parts if part)
    return f"{found[1].partition('.')[0]}({', '.join(arguments)})"


def _defaults(entry: Entry, outputs: Sequence[tuple[str, str]]) -> list[str]:
    """What numbers in a formula are that nobody may have given: `alpha = 1`."""
    used = set(re.findall(r"\w+", " ".join(text for _, text in outputs)))
    given = re.findall(r"(\w+)=(-?\d[\d.e-]*)(?=[,)])", entry.forward)
    said = ", ".join(f"{name} is {value}" for name, value in given if name in used)
    return [f"{said} where the call gives no other"] if said else []


def edges_by_argument(graph: BackwardGraph, node: int, entry: Entry) -> dict[str, list[int]]:
    """Argument -> the edges that carry its gradient.

    A node has one slot for each differentiable tensor, in the order of the arguments, and for a list one for each of its tensors.
    Where two lists make it impossible to tell, empty.
    """
    lists = [place for place, (_, kind) in enumerate(entry.inputs) if "[]" in kind]
    if len(lists) > 1:
        return {}
    edges: dict[str, list[int]] = {}
    first = lists[0] if lists else len(entry.inputs)
    for edge in graph.out_edges(node):
        slot = graph.slot[edge]
        place = slot if slot < first else first
        if lists and first < len(entry.inputs) - 1 and slot >= first:
            return {}  # arguments behind a list: where it ends is not known
        if place < len(entry.inputs):
            edges.setdefault(entry.inputs[place][0], []).append(edge)
    return edges


def written(
    op: str, argument: str, cpp: str, place: int, of: int, *, is_complex: bool = False, known: Mapping[str, str] | None = None
) -> Written:
    """The readable gradient of one argument: the `place`-th of the `of` results of an entry of the table."""
    whole = NODES.get(op, {}).get(argument)
    if whole is not None and (not is_complex or op in LINEAR):
        return rewritten(whole, is_complex=is_complex, known=known)
    return write(cpp, place, of, is_complex=is_complex, known=known)


def _delivered(
    graph: BackwardGraph,
    node: int,
    argument: str,
    said: Written,
    edges: Sequence[int],
    sent: Mapping[int, tuple[int, ...]],
    *,
    may_broadcast: bool,
) -> Written:
    """What the engine hands on of it: summed to the argument's shape, and its real part for a real argument."""
    arrives = graph.shape(node)
    if not said.elementwise or arrives is None or len(edges) != 1:
        return said
    target, first = graph.target[edges[0]], graph.input_nr[edges[0]] == 0
    shape = graph.shape(target) if first else None
    if shape is None:
        shape = sent.get(edges[0])
    dtypes = (graph.dtype(node), graph.dtype(target) if first else "")
    takes_real = dtypes[0].startswith("complex") and dtypes[1].startswith(("float", "bfloat"))
    text, remark = delivered(said.text, argument, arrives, shape, takes_real=takes_real, may_broadcast=may_broadcast)
    return replace(said, text=text, where=[*said.where, *([remark] if remark else [])])


def _custom(graph: BackwardGraph, node: int) -> Formula:
    place = graph.columns.backward_code[node]
    name = graph.op(node).removesuffix("Backward")
    edges = {f"input {graph.slot[edge]}": [edge] for edge in graph.out_edges(node)}
    return Formula(
        graph.op(node),
        source=f"backward of {name} ({place.file.rpartition('/')[2]}:{place.line})",
        why_not="its backward is Python, not an entry of torch's table",
        names=_names(graph, edges),
        edges=edges,
        code=place,
    )


def _by_hand(graph: BackwardGraph, node: int, sent: Mapping[int, tuple[int, ...]]) -> Formula:
    hand = BY_HAND[graph.op(node)]
    edges = {hand.outputs[graph.slot[edge]][0]: [edge] for edge in graph.out_edges(node) if graph.slot[edge] < len(hand.outputs)}
    place = graph.leaf_at(node)
    names = _names(graph, edges) if place is None else {"variable": graph.leaves[place].name}
    outputs, where = [], list(hand.where)
    for name, text in hand.outputs:
        if not edges or name in edges:
            said = Written(text, elementwise=name in hand.elementwise)
            said = _delivered(graph, node, name, said, edges.get(name, ()), sent, may_broadcast=True)
            outputs.append((name, said.text))
            where += said.where
    return Formula(
        graph.op(node),
        forward=hand.forward,
        outputs=outputs,
        source=f"torch/csrc/autograd/{hand.source}",
        where=where,
        names=names,
        edges=edges,
    )


def _names(graph: BackwardGraph, edges: Mapping[str, Sequence[int]]) -> dict[str, str]:
    named = {}
    for argument, carried in edges.items():
        names = [target_name(graph, edge) for edge in carried]
        if any(names):
            named[argument] = ", ".join(name or "…" for name in names[:4]) + (", …" if len(names) > 4 else "")
    return named


def target_name(graph: BackwardGraph, edge: int) -> str:
    """What the person calls the tensor that an edge's gradient is of; empty where it has no name."""
    target, name = graph.target[edge], sent_name(graph, edge)
    if not name and graph.op(target) == "TBackward0" and graph.out_edges(target):
        turned = target_name(graph, graph.out_edges(target)[0])  # of a linear layer: its weight, transposed
        return f"{turned}ᵀ" if turned else ""
    return name


def _is_complex(graph: BackwardGraph, node: int) -> bool:
    """Whether complex numbers meet at the node: then conjugates matter."""
    nodes = [node, *(graph.target[edge] for edge in graph.out_edges(node))]
    return any(graph.dtype(one).startswith("complex") for one in nodes)
