"""Backward graphs and tapes made by hand, without torch: a small engine in plain Python floats that fills the wire columns."""

from __future__ import annotations

import heapq
import math
import random
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gradscope.model.backward_graph import BackwardGraph, _period
from gradscope.model.columns import GraphColumns, Leaf, LocalDerivative, Mismatch, Root, Seed, TapeColumns
from gradscope.model.places import UNKNOWN, Origin
from gradscope.model.tape import Tape
from gradscope.model.tensors import INLINE_VALUES, NO_TENSOR, TensorColumns

Vector = tuple[float, ...]
Local = Callable[[Vector], Vector | None] | Vector | None
"""What an edge does to the gradient that arrives: an elementwise factor, a function, or None for an undefined gradient."""

FILE = "/home/ada/two_outputs.py"


class Table:
    """Fills `TensorColumns`."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[int, ...], int] = {}
        self._dtypes: dict[str, int] = {}
        self._ints = {name: array("i") for name in ("shape", "dtype", "device")}
        self._doubles = {name: array("d") for name in ("norm", "min", "max", "mean", "values")}
        self._longs = {name: array("q") for name in ("nan", "inf", "zero", "value_start")}
        self._known = bytearray()

    def add(self, values: Sequence[float], shape: tuple[int, ...] | None = None, dtype: str = "float32") -> int:
        """The number of a new tensor. `shape` other than (len(values),) makes the values samples of a bigger tensor."""
        shape = (len(values),) if shape is None else shape
        numel = math.prod(shape)
        finite = [value for value in values if not math.isnan(value)]
        repeats = numel // len(values) if values else 0
        self._ints["shape"].append(self._shapes.setdefault(shape, len(self._shapes)))
        self._ints["dtype"].append(self._dtypes.setdefault(dtype, len(self._dtypes)))
        self._ints["device"].append(0)
        self._doubles["norm"].append(math.sqrt(sum(value * value for value in values) * repeats))
        self._doubles["min"].append(min(finite, default=0.0))
        self._doubles["max"].append(max(finite, default=0.0))
        self._doubles["mean"].append(sum(values) / len(values) if values else math.nan)
        self._longs["nan"].append(sum(map(math.isnan, values)) * repeats)
        self._longs["inf"].append(sum(map(math.isinf, values)) * repeats)
        self._longs["zero"].append(sum(value == 0 for value in values) * repeats)
        inline = numel == len(values) <= INLINE_VALUES
        self._longs["value_start"].append(len(self._doubles["values"]) if inline else -1)
        if inline:
            self._doubles["values"].extend(values)
        self._known.append(15 if finite else 13)
        return len(self._known) - 1

    def columns(self) -> TensorColumns:
        packed = {name: column.tobytes() for group in (self._ints, self._doubles, self._longs) for name, column in group.items()}
        return TensorColumns(
            shapes=list(self._shapes),
            dtypes=list(self._dtypes),
            devices=["cpu"],
            known=bytes(self._known),
            held=bytes([1]) * len(self._known),
            **packed,
        )


@dataclass
class Drawing:
    """A graph under construction: `node`, `leaf`, `edge` and `root` add to it, `graph` and `tape` give the models."""

    ops: list[str] = field(default_factory=list)
    sequence: list[int] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    origin_of: list[int] = field(default_factory=list)
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    locals: dict[tuple[int, int], Local] = field(default_factory=dict)
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    roles: dict[tuple[int, int], str] = field(default_factory=dict)
    roots: list[Root] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    _origin_numbers: dict[Origin, int] = field(default_factory=dict)
    _slots: dict[int, int] = field(default_factory=dict)

    def origin(self, file: str, line: int, code: str = "", module: str = "", module_type: str = "", function: str = "") -> int:
        """The number of an origin, made if it is new."""
        target, _, right = code.partition(" = ")
        name = target if right.strip() else ""
        made = Origin(file, line, "forward" if module else "<module>", module, module_type, function, code, target=name)
        if made not in self._origin_numbers:
            self._origin_numbers[made] = len(self.origins)
            self.origins.append(made)
        return self._origin_numbers[made]

    def node(self, op: str, shape: tuple[int, ...] = (1,), origin: int = UNKNOWN, sequence: int | None = None) -> int:
        """A new node; without `sequence` the forward made it after all others so far."""
        self.ops.append(op)
        self.sequence.append(len(self.ops) if sequence is None else sequence)
        self.shapes.append(shape)
        self.origin_of.append(origin)
        return len(self.ops) - 1

    def leaf(self, name: str, shape: tuple[int, ...] = (1,), reached: bool = True, **more: object) -> int:
        """A leaf and, when reached, its AccumulateGrad (whose number is returned)."""
        node = self.node("AccumulateGrad", shape, sequence=-1) if reached else UNKNOWN
        options = {"aliases": (), "dtype": "float32", "device": "cpu", "kind": "parameter", **more}
        self.leaves.append(Leaf(node=node, input_nr=0, name=name, shape=shape, **options))  # type: ignore[arg-type]
        return node

    def edge(self, source: int, target: int, local: Local = (1.0,), input_nr: int = 0, role: str = "", text: str = "") -> None:
        """The source's next slot feeds the target."""
        slot = self._slots.get(source, 0)
        self._slots[source] = slot + 1
        self.edges.append((source, slot, target, input_nr))
        self.locals[source, slot] = local
        if role:
            self.roles[source, slot] = role
        if text:
            self.texts[source, slot] = text

    def root(self, node: int, name: str = "loss", input_nr: int = 0) -> None:
        self.roots.append(Root(node, input_nr, name, self.shapes[node], "float32", "cpu"))

    # ------------------------------------------------------------ models

    def graph(self) -> BackwardGraph:
        edges = sorted(self.edges)
        number = {(source, slot): edge for edge, (source, slot, _, _) in enumerate(edges)}
        ops, shapes = list(dict.fromkeys(self.ops)), list(dict.fromkeys(self.shapes))
        op_number = {op: place for place, op in enumerate(ops)}
        shape_number = {shape: place for place, shape in enumerate(shapes)}
        return BackwardGraph(
            GraphColumns(
                ops=ops,
                op=_ints(op_number[op] for op in self.ops),
                sequence_nr=array("q", self.sequence).tobytes(),
                shapes=shapes,
                shape=_ints(shape_number[shape] for shape in self.shapes),
                dtypes=["float32"],
                dtype=_ints([0] * len(self.ops)),
                origins=self.origins,
                origin=_ints(self.origin_of),
                occurrence=_ints(self._occurrences()),
                edge_source=_ints(edge[0] for edge in edges),
                edge_slot=_ints(edge[1] for edge in edges),
                edge_target=_ints(edge[2] for edge in edges),
                edge_input_nr=_ints(edge[3] for edge in edges),
                roots=self.roots,
                leaves=sorted(self.leaves, key=lambda leaf: leaf.node == UNKNOWN),
                local={
                    number[key]: LocalDerivative(factor, self.texts.get(key, ""))
                    for key, factor in self.locals.items()
                    if isinstance(factor, tuple)
                },
                edge_roles={number[key]: role for key, role in self.roles.items()},
            )
        )

    def _occurrences(self) -> list[int]:
        """Runs of a line: each made what the others made."""
        lines: dict[tuple[str, int], list[int]] = {}
        for node in sorted(range(len(self.ops)), key=self.sequence.__getitem__):
            if self.origin_of[node] != UNKNOWN:
                origin = self.origins[self.origin_of[node]]
                lines.setdefault((origin.file, origin.line), []).append(node)
        result = [0] * len(self.ops)
        for nodes in lines.values():
            length = _period([self.ops[node] for node in nodes])
            for place, node in enumerate(nodes):
                result[node] = place // length + 1
        return result

    def tape(
        self,
        graph: BackwardGraph,
        seeds: Sequence[Vector | None],
        inputs: Sequence[int] | None = None,
        before: dict[str, Vector] | None = None,
        number: int = 1,
        hooks: dict[int, Callable[[Vector], Vector]] | None = None,
        mismatches: Sequence[Mismatch] = (),
    ) -> Tape:
        """Run the pass: highest sequence number first among the ready, leaves before all else, as torch does.

        `inputs` are the only leaf nodes to reach; `hooks` replace what arrives at a node; a seed of None is undefined.
        """
        run = _Run(self, graph, _needed(graph, inputs))
        for root, seed in enumerate(seeds):
            run.deliver(graph.roots[root].node, graph.roots[root].input_nr, seed, step=0, edge=-1 - root)
        run.all(hooks or {})
        return Tape(run.columns(seeds, before or {}, number, list(mismatches), hooks or {}), graph)


class _Run:
    def __init__(self, drawing: Drawing, graph: BackwardGraph, needed: set[int]) -> None:
        self.drawing, self.graph, self.needed = drawing, graph, needed
        self.table = Table()
        self.sums: dict[tuple[int, int], Vector | None] = {}
        self.slots: dict[int, set[int]] = {}
        """by node: where something was delivered"""
        self.so_far: dict[tuple[int, int], int] = {}
        self.rows: dict[str, list[int]] = {name: [] for name in ("step", "edge", "tensor", "so_far")}
        self.arrivals: list[tuple[int, int, int]] = []
        self.steps: list[int] = []
        self.totals: dict[int, Vector | None] = {}

    def deliver(self, node: int, input_nr: int, value: Vector | None, step: int, edge: int) -> None:
        key = (node, input_nr)
        tensor = NO_TENSOR if value is None else self.table.add(value, self._shape(node, value))
        old = self.sums.get(key)
        total = value if old is None else old if value is None else tuple(a + b for a, b in zip(old, value, strict=True))
        if value is not None and total is not None:
            self.so_far[key] = tensor if old is None else self.table.add(total, self._shape(node, total))
        self.sums[key] = total
        self.slots.setdefault(node, set()).add(input_nr)
        for name, item in (("step", step), ("edge", edge), ("tensor", tensor), ("so_far", self.so_far.get(key, NO_TENSOR))):
            self.rows[name].append(item)

    def _shape(self, node: int, value: Vector) -> tuple[int, ...]:
        shape = self.drawing.shapes[node]
        return shape if math.prod(shape) % len(value) == 0 else (len(value),)

    def all(self, hooks: dict[int, Callable[[Vector], Vector]]) -> None:
        graph = self.graph
        below = _below({root.node for root in graph.roots}, graph) & self.needed
        left = {node: sum(graph.source[edge] in below for edge in graph.in_edges(node)) for node in below}
        ready: list[tuple[float, int]] = []

        def offer(node: int) -> None:
            if node in below and not left[node]:
                heapq.heappush(ready, (-math.inf if graph.is_accumulate(node) else -self.drawing.sequence[node], node))

        for node in sorted({root.node for root in graph.roots}):
            offer(node)
        while ready:
            _, node = heapq.heappop(ready)
            self._step(node, hooks.get(node))
            for edge in graph.out_edges(node):
                target = graph.target[edge]
                if target in below:
                    left[target] -= 1
                    offer(target)

    def _step(self, node: int, hook: Callable[[Vector], Vector] | None) -> None:
        graph = self.graph
        self.steps.append(node)
        step, slots = len(self.steps), sorted(self.slots.get(node, {0}))
        for input_nr in slots:
            value = self.sums.get((node, input_nr))
            tensor = self.so_far.get((node, input_nr), NO_TENSOR)
            if hook is not None and value is not None:
                value = self.sums[node, input_nr] = hook(value)
                tensor = self.table.add(value, self._shape(node, value))
            self.arrivals.append((step, input_nr, tensor))
        arrived = self.sums.get((node, slots[0]))
        self.totals[node] = arrived
        for edge in graph.out_edges(node):
            if graph.target[edge] in self.needed:
                local = self.drawing.locals[node, graph.slot[edge]]
                self.deliver(graph.target[edge], graph.input_nr[edge], _sent(arrived, local), step, edge)

    def columns(
        self,
        seeds: Sequence[Vector | None],
        before: dict[str, Vector],
        number: int,
        mismatches: list[Mismatch],
        hooks: dict[int, Callable[[Vector], Vector]],
    ) -> TapeColumns:
        old, new = [], []
        for leaf in self.graph.reached:
            was, total = before.get(leaf.name), self.totals.get(leaf.node)
            old.append(NO_TENSOR if was is None else self.table.add(was))
            both = total if was is None else was if total is None else tuple(a + b for a, b in zip(was, total, strict=True))
            new.append(NO_TENSOR if both is None else self.table.add(both))
        return TapeColumns(
            number=number,
            edited=number > 1,
            seeds=[Seed(root, self.rows["tensor"][root], "", given=True) for root in range(len(seeds))],
            step_node=_ints(self.steps),
            contribution_step=_ints(self.rows["step"]),
            contribution_edge=_ints(self.rows["edge"]),
            contribution_tensor=_ints(self.rows["tensor"]),
            contribution_so_far=_ints(self.rows["so_far"]),
            arrival_step=_ints(row[0] for row in self.arrivals),
            arrival_input_nr=_ints(row[1] for row in self.arrivals),
            arrival_tensor=_ints(row[2] for row in self.arrivals),
            tensors=self.table.columns(),
            leaf_before=_ints(old),
            leaf_after=_ints(new),
            exact="false" if mismatches else "true",
            mismatches=mismatches,
            hook_changed=[self.steps.index(node) + 1 for node in hooks if node in self.steps],
        )


def _sent(arrived: Vector | None, local: Local) -> Vector | None:
    if arrived is None or local is None:
        return None
    if callable(local):
        return local(arrived)
    if len(local) == 1:
        return tuple(value * local[0] for value in arrived)
    return tuple(a * b for a, b in zip(arrived, local, strict=True))


def _below(nodes: set[int], graph: BackwardGraph) -> set[int]:
    seen, todo = set(nodes), list(nodes)
    while todo:
        for edge in graph.out_edges(todo.pop()):
            if graph.target[edge] not in seen:
                seen.add(graph.target[edge])
                todo.append(graph.target[edge])
    return seen


def _needed(graph: BackwardGraph, inputs: Sequence[int] | None) -> set[int]:
    """The nodes that lie on a way to the wanted leaves."""
    if inputs is None:
        return set(range(len(graph)))
    seen, todo = set(inputs), list(inputs)
    while todo:
        for edge in graph.in_edges(todo.pop()):
            if graph.source[edge] not in seen:
                seen.add(graph.source[edge])
                todo.append(graph.source[edge])
    return seen


def _ints(items: object) -> bytes:
    return array("i", items).tobytes()  # type: ignore[arg-type]


# ---------------------------------------------------------------- graphs that tests share


def two_outputs_drawing() -> Drawing:
    """x = [1, 2]; a = x * x; b = x.sin(); J = a + b: the graph of the pictured screen."""
    x = (1.0, 2.0)
    drawing = Drawing()
    leaf_line = drawing.origin(FILE, 9, "x = torch.tensor([1., 2.], requires_grad=True)")
    mul = drawing.node("MulBackward0", (2,), drawing.origin(FILE, 10, "a = x * x", function="Tensor.mul"), sequence=0)
    sin = drawing.node("SinBackward0", (2,), drawing.origin(FILE, 11, "b = x.sin()", function="Tensor.sin"), sequence=1)
    add = drawing.node("AddBackward0", (2,), drawing.origin(FILE, 12, "J = a + b", function="Tensor.add"), sequence=2)
    leaf = drawing.leaf("x", (2,), kind="tensor", origin=leaf_line)
    drawing.edge(add, mul, (1.0, 1.0), role="self", text="1")
    drawing.edge(add, sin, (1.0, 1.0), role="other", text="1")
    drawing.edge(mul, leaf, x, role="self", text="other")
    drawing.edge(mul, leaf, x, role="other", text="self")
    drawing.edge(sin, leaf, tuple(map(math.cos, x)), role="self", text="cos(x)")
    drawing.root(add, "J")
    return drawing


def two_outputs(seed: Vector = (1.0, 10.0)) -> tuple[BackwardGraph, Tape]:
    """Steps: 1 Add, 2 Sin, 3 Mul, 4 x."""
    drawing = two_outputs_drawing()
    graph = drawing.graph()
    return graph, drawing.tape(graph, [seed])


def chain(count: int) -> tuple[BackwardGraph, Tape]:
    """`count` nodes in a row (Sin from one line of a loop), then the leaf `x`; every factor is 1."""
    ints = array("i", range(count + 1))
    origin = Origin("/home/ada/chain.py", 4, "<module>", torch_function="Tensor.sin", code="y = y.sin()", target="y")
    leaf = Leaf(count, 0, "x", (), (), "float32", "cpu", "tensor")
    edges = ints[:-1]
    graph = BackwardGraph(
        GraphColumns(
            ops=["SinBackward0", "AccumulateGrad"],
            op=_ints([0] * count + [1]),
            sequence_nr=array("q", [*range(count, 0, -1), -1]).tobytes(),
            shapes=[()],
            shape=_ints([0] * (count + 1)),
            dtypes=["float32"],
            dtype=_ints([0] * (count + 1)),
            origins=[origin],
            origin=_ints([0] * count + [UNKNOWN]),
            occurrence=_ints([*range(count, 0, -1), 0]),
            edge_source=edges.tobytes(),
            edge_slot=_ints([0] * count),
            edge_target=ints[1:].tobytes(),
            edge_input_nr=_ints([0] * count),
            roots=[Root(0, 0, "y", (), "float32", "cpu")],
            leaves=[leaf],
        )
    )
    table = Table()
    one = table.add((1.0,), ())
    tensors = _ints([one] * (count + 1))
    return graph, Tape(
        TapeColumns(
            seeds=[Seed(0, one, "", given=False)],
            step_node=ints.tobytes(),
            contribution_step=ints.tobytes(),
            contribution_edge=_ints(range(-1, count)),
            contribution_tensor=tensors,
            contribution_so_far=tensors,
            arrival_step=_ints(range(1, count + 2)),
            arrival_input_nr=_ints([0] * (count + 1)),
            arrival_tensor=tensors,
            tensors=table.columns(),
            leaf_before=_ints([NO_TENSOR]),
            leaf_after=_ints([one]),
            exact="true",
        ),
        graph,
    )


def random_drawing(seed: int, nodes: int = 12, leaves: int = 3, roots: int = 2) -> Drawing:
    """A random DAG: repeated edges, undefined gradients, nodes with two gradient slots, unused outputs, leaves of any fan-in."""
    rng = random.Random(seed)
    drawing = Drawing()
    made = [drawing.leaf(f"w{place}") for place in range(leaves)]
    slots = {node: 1 for node in made}
    for place in range(nodes):
        origin = drawing.origin("/home/ada/random_dag.py", 1 + place % 5, f"t{place % 5} = f()")
        node = drawing.node(rng.choice(["MulBackward0", "AddBackward0", "SinBackward0"]), origin=origin)
        for _ in range(rng.randint(1, 3)):
            target = rng.choice(made)
            local: Local = None if rng.random() < 0.1 else (rng.choice([0.0, 0.5, -1.0, 2.0, 3.0]),)
            drawing.edge(node, target, local, input_nr=rng.randrange(slots[target]))
        slots[node] = rng.choice([1, 1, 1, 2])
        made.append(node)
    for node in rng.sample(made, roots):
        drawing.root(node, f"r{node}", input_nr=rng.randrange(slots[node]))
    return drawing


MODEL_FILE, TRAIN_FILE = "/home/ada/model.py", "/home/ada/train_gpt.py"


class _Gpt:
    """Draws the forward of a small transformer, one method a layer; nodes are numbered in forward order."""

    def __init__(self, blocks: int) -> None:
        self.drawing = Drawing()
        self.shape = (8, 64, 384)
        x = self.op("AddBackward0", 57, "x = tok + pos", [self.embedding("wte", (65, 384)), self.embedding("wpe", (64, 384))])
        for number in range(blocks):
            x = self.block(f"h.{number}", x)
        x = self.norm("ln_f", x, 66)
        logits = self.linear("lm_head", x, 67, (65, 384), bias=False)
        self.shape = (512, 65)
        flat = self.op("ViewBackward0", 41, LOSS, [logits], file=TRAIN_FILE, function="torch.nn.functional.cross_entropy")
        soft = self.op("LogSoftmaxBackward0", 41, LOSS, [flat], file=TRAIN_FILE, function="torch.nn.functional.cross_entropy")
        self.shape = ()
        loss = self.op("NllLossBackward0", 41, LOSS, [soft], file=TRAIN_FILE, function="torch.nn.functional.cross_entropy")
        self.drawing.root(loss, "loss")

    def op(
        self,
        op: str,
        line: int,
        code: str,
        inputs: Sequence[int],
        module: str = "",
        kind: str = "",
        gain: float = 1.0,
        file: str = MODEL_FILE,
        function: str = "",
    ) -> int:
        node = self.drawing.node(op, self.shape, self.drawing.origin(file, line, code, module, kind, function))
        for target in inputs:
            self.drawing.edge(node, target, (gain,))
        return node

    def parameter(self, name: str, shape: tuple[int, ...]) -> int:
        return self.drawing.leaf(name, shape, owner="AdamW[0]")

    def embedding(self, name: str, shape: tuple[int, ...]) -> int:
        code = "return F.embedding(input, self.weight)"
        return self.op("EmbeddingBackward0", 20, code, [self.parameter(f"{name}.weight", shape)], name, "Embedding")

    def norm(self, path: str, x: int, line: int) -> int:
        leaves = [self.parameter(f"{path}.weight", (384,)), self.parameter(f"{path}.bias", (384,))]
        return self.op("NativeLayerNormBackward0", line, "return F.layer_norm(x)", [x, *leaves], path, "LayerNorm")

    def linear(self, path: str, x: int, line: int, shape: tuple[int, ...], bias: bool = True) -> int:
        code = "return F.linear(input, self.weight, self.bias)"
        turned = self.op("TBackward0", line, code, [self.parameter(f"{path}.weight", shape)], path, "Linear")
        flat = self.op("ViewBackward0", line, code, [x], path, "Linear")
        if not bias:
            product = self.op("MmBackward0", line, code, [flat, turned], path, "Linear")
        else:
            bias_leaf = self.parameter(f"{path}.bias", shape[:1])
            product = self.op("AddmmBackward0", line, code, [bias_leaf, flat, turned], path, "Linear")
        return self.op("ViewBackward0", line, code, [product], path, "Linear")

    def block(self, path: str, x: int) -> int:
        attended = self.attention(f"{path}.attn", self.norm(f"{path}.ln_1", x, 63))
        x = self.op("AddBackward0", 63, "x = x + self.attn(self.ln_1(x))", [x, attended], path, "Block")
        changed = self.mlp(f"{path}.mlp", self.norm(f"{path}.ln_2", x, 64))
        return self.op("AddBackward0", 64, "x = x + self.mlp(self.ln_2(x))", [x, changed], path, "Block")

    def attention(self, path: str, x: int) -> int:
        mixed = self.linear(f"{path}.c_attn", x, 30, (1152, 384))
        parts = self.op("SplitBackward0", 31, "q, k, v = qkv.split(n, dim=2)", [mixed], path, "Attention")
        heads = []
        for line, name in enumerate("kqv", 32):
            code = f"{name} = {name}.view(B, T, h, n).transpose(1, 2)"
            view = self.op("ViewBackward0", line, code, [parts], path, "Attention")
            heads.append(self.op("TransposeBackward0", line, code, [view], path, "Attention"))
        code = "y = F.scaled_dot_product_attention(q, k, v)"
        attended = self.op("ScaledDotProductFlashAttentionBackward0", 35, code, heads, path, "Attention", gain=0.05)
        back = self.op("TransposeBackward0", 36, "y = y.transpose(1, 2).view(B, T, C)", [attended], path, "Attention")
        back = self.op("ViewBackward0", 36, "y = y.transpose(1, 2).view(B, T, C)", [back], path, "Attention")
        return self.linear(f"{path}.c_proj", back, 37, (384, 384))

    def mlp(self, path: str, x: int) -> int:
        wide = self.linear(f"{path}.c_fc", x, 45, (1536, 384))
        bent = self.op("GeluBackward0", 46, "x = self.act(x)", [wide], f"{path}.act", "GELU")
        return self.linear(f"{path}.c_proj", bent, 47, (384, 1536))


LOSS = "loss = F.cross_entropy(logits.view(-1, 65), y.view(-1))"


def gpt_like(blocks: int = 6) -> tuple[BackwardGraph, Tape]:
    """A transformer's backward pass: modules wte, wpe, h.0 … with ln_1, attn, ln_2, mlp, then ln_f, lm_head and the loss."""
    drawing = _Gpt(blocks).drawing
    drawing.leaf("h.5.attn.bias", (1,), reached=False, owner="AdamW[0]")
    graph = drawing.graph()
    return graph, drawing.tape(graph, [(1.0,)])


def recurrent(rounds: int) -> tuple[BackwardGraph, Tape]:
    """h = torch.tanh(h @ W + b) in a loop: no modules, 3 nodes a round, two leaves used in each round."""
    drawing = Drawing()
    weight, bias = drawing.leaf("W"), drawing.leaf("b")
    origin = drawing.origin("/home/ada/rnn.py", 7, "h = torch.tanh(h @ W + b)")
    h = drawing.leaf("h0", kind="tensor")
    for _ in range(rounds):
        product = drawing.node("MmBackward0", origin=origin)
        drawing.edge(product, h, (0.9,))
        drawing.edge(product, weight, (0.5,))
        added = drawing.node("AddBackward0", origin=origin)
        drawing.edge(added, product)
        drawing.edge(added, bias)
        h = drawing.node("TanhBackward0", origin=origin)
        drawing.edge(h, added, (0.99,))
    drawing.root(h, "h")
    graph = drawing.graph()
    return graph, drawing.tape(graph, [(1.0,)])
