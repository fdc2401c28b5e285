"""The wire forms of a backward graph and of a tape: columns of packed numbers, small tables of strings.

The debuggee fills them, the socket and the snapshot carry them, `BackwardGraph` and `Tape` read them. Byte strings are
native-endian int32 columns unless a field says otherwise. Nodes are numbered from 0 in the order of capture (not of execution),
edges from 0 sorted by (source, slot).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gradscope.model.facts import CallFacts, PassFacts
from gradscope.model.places import UNKNOWN, CodePlace, Origin
from gradscope.model.tensors import TensorColumns


@dataclass(frozen=True, slots=True)
class Root:
    """A tensor that is differentiated."""

    node: int
    """Its grad_fn (an AccumulateGrad for a leaf); UNKNOWN when the tensor has no graph."""
    input_nr: int
    """Which of the node's gradient slots the seed goes to (the tensor's output_nr)."""
    name: str
    """The expression in the call: `loss`, `out[0]`; `root 0` when it cannot be told."""
    shape: tuple[int, ...]
    dtype: str
    device: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where a pass ends: an AccumulateGrad's variable, or a tensor of `inputs=`; also parameters that no pass reaches."""

    node: int
    """UNKNOWN for a leaf that is not in the graph."""
    input_nr: int
    name: str
    """Module path or variable name; `leaf 3` when nothing names it."""
    aliases: tuple[str, ...]
    """Its other names (tied weights have several owners)."""
    shape: tuple[int, ...]
    dtype: str
    device: str
    kind: str
    """`parameter`, `tensor` (any other leaf) or `input` (a non-leaf tensor of `inputs=`)."""
    owner: str = ""
    """Optimizer and parameter group: `SGD[0]`; empty when no optimizer holds it."""
    requires_grad: bool = True
    origin: int = UNKNOWN
    """Index into `GraphColumns.origins` of the line that made it, where known."""
    target: bool = True
    """False for a leaf of the graph that the call does not differentiate for, as it names others."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook that a pass runs. Hooks of a node are listed in the order in which they run."""

    node: int
    input_nr: int
    """the gradient slot that it sees; UNKNOWN for a hook of the whole node"""
    kind: str
    """`tensor`, `pre` and `post` (registered on the node), `module` and `module_pre` (a module's full backward hook and
    pre-hook: both run after the node, over what it sends), `accumulate` (after AccumulateGrad), `retain` (retain_grad),
    `unpack` (of what the node saved)"""
    name: str
    """`clip`, `Model.forward.<lambda>`"""
    place: CodePlace | None = None
    """None for a hook that is not written in Python"""


@dataclass(slots=True)
class GraphColumns:
    """A backward graph. `len(op) / 4` nodes, `len(edge_source) / 4` edges."""

    ops: list[str] = field(default_factory=list)
    """Node names without the `torch::autograd::`: `AddBackward0`, `AccumulateGrad`."""
    op: bytes = b""
    """index into `ops`"""
    sequence_nr: bytes = b""
    """int64: torch's `_sequence_nr()`; -1 for AccumulateGrad, whose number is 2**64-1"""
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    shape: bytes = b""
    """index into `shapes`: shape of the gradient that arrives at the node's first slot; UNKNOWN if torch does not say"""
    dtypes: list[str] = field(default_factory=list)
    dtype: bytes = b""
    origins: list[Origin] = field(default_factory=list)
    origin: bytes = b""
    """index into `origins`; UNKNOWN where the forward line is not known"""
    occurrence: bytes = b""
    """Which run of its line made the node: 1 for the first that made any node of this graph, in forward order. The nodes of one
    run have the same number, also those that it made through libraries. 0 where it is not known."""
    edge_source: bytes = b""
    edge_slot: bytes = b""
    """slot of the source's next_functions"""
    edge_target: bytes = b""
    edge_input_nr: bytes = b""
    """which gradient slot of the target the edge feeds"""
    roots: list[Root] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    """those in the graph first, then those the pass cannot reach"""
    foreign: dict[int, str] = field(default_factory=dict)
    """node -> why its backward runs Python that is not torch's: `MyFunction (model.py:12)`, `hook clip (a.py:3)`"""
    local: dict[int, LocalDerivative] = field(default_factory=dict)
    """edge -> local derivative, for elementwise nodes with few elements"""
    edge_roles: dict[int, str] = field(default_factory=dict)
    """edge -> the forward argument it belongs to: `self`, `other`, `weight`"""
    hooks: list[Hook] = field(default_factory=list)
    """of all nodes, by node and in the order in which they run"""
    backward_code: dict[int, CodePlace] = field(default_factory=dict)
    """node of a custom Function -> its backward"""
    facts: CallFacts = field(default_factory=CallFacts)


@dataclass(frozen=True, slots=True)
class LocalDerivative:
    """The factor by which an elementwise node multiplies what arrives, element by element."""

    values: tuple[float, ...]
    text: str = ""
    """`cos(x)`, where a short form is known."""


@dataclass(frozen=True, slots=True)
class Seed:
    """The gradient given for a root."""

    root: int
    tensor: int
    """Number in the tape's tensors."""
    expression: str
    """What was typed, or the argument in the script's call; empty for the implicit 1 of a scalar."""
    given: bool
    """False for the implicit 1."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception that ended a pass."""

    node: int
    """The node that was running; UNKNOWN when the engine does not tell."""
    type: str
    message: str
    traceback: str
    """As Python prints it, without gradscope's frames."""
    file: str = ""
    """The person's own code that raised it: a custom backward, a hook. Empty where torch did."""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A place where the record is not what the engine handed on: never hidden."""

    node: int
    input_nr: int
    what: str


@dataclass(frozen=True, slots=True)
class HookEffect:
    """What one hook was given in a pass, and what it made of it."""

    hook: int
    """index into `GraphColumns.hooks`"""
    step: int
    before: int
    """Number in the tape's tensors; NO_TENSOR where undefined or not known."""
    after: int
    """The same number as `before` where the hook changed nothing."""
    slot: int = 0
    """Which of the gradients that the hook sees: of a hook of the whole node there is an effect for each."""


@dataclass(frozen=True, slots=True)
class Change:
    """A what-if: a gradient that the person changed in a pass. Never part of the script's own call."""

    node: int
    input_nr: int
    """what arrives at this slot of this node is changed, after all contributions and hooks"""
    edge: int = UNKNOWN
    """else the contribution over this edge alone; `node` and `input_nr` are then its target"""
    text: str = ""
    """as typed: `*0.5`, `zeros`, `clip(1)`, any expression"""
    before: int = -1
    """number in the tape's tensors of what it would have been; NO_TENSOR before the pass has run"""


@dataclass(slots=True)
class TapeColumns:
    """The record of one pass."""

    number: int = 1
    """1 is the script's own call; each seed edit adds one."""
    kind: str = "explored"
    """`explored` or `committed`"""
    root: int = UNKNOWN
    """With `S`, the node whose tensor was seeded instead of the call's roots; else UNKNOWN."""
    root_input_nr: int = 0
    edited: bool = False
    """True when a seed is not the script's own."""
    seeds: list[Seed] = field(default_factory=list)
    step_node: bytes = b""
    """node of step 1, 2, …; a leaf's step stands where its last contribution was delivered"""
    contribution_step: bytes = b""
    """in delivery order: the step that delivered it; 0 for seeds"""
    contribution_edge: bytes = b""
    """the edge it came over; -1-r for the seed of root r"""
    contribution_tensor: bytes = b""
    """NO_TENSOR for an undefined gradient"""
    contribution_so_far: bytes = b""
    """the sum of the contributions to the same slot up to and with this one, added left to right in the gradient's dtype"""
    arrival_step: bytes = b""
    """sorted: one row for each step and gradient slot of its node"""
    arrival_input_nr: bytes = b""
    arrival_tensor: bytes = b""
    """what the node's function was handed, after hooks; NO_TENSOR for undefined"""
    tensors: TensorColumns = field(default_factory=TensorColumns)
    leaf_before: bytes = b""
    """for each leaf of the graph: tensor number of its `.grad` before the call, NO_TENSOR for None"""
    leaf_after: bytes = b""
    """for each leaf: its `.grad` after the call (before + total as AccumulateGrad adds them); NO_TENSOR for None"""
    exact: str = "unchecked"
    """`true`, `false` or `unchecked`"""
    exact_reason: str = ""
    mismatches: list[Mismatch] = field(default_factory=list)
    hook_changed: list[int] = field(default_factory=list)
    """steps whose arriving gradient a person's hook replaced or edited"""
    failure: Failure | None = None
    notes: list[str] = field(default_factory=list)
    """what a person must know of this pass: foreign Python that ran once more, side effects noticed, what was not held"""
    printed: str = ""
    """what the script's own code wrote during the exploring pass"""
    seconds: float = 0.0
    hook_effects: list[HookEffect] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    """the what-ifs of this pass, in the order in which they were made"""
    facts: PassFacts = field(default_factory=PassFacts)
