"""What only the running script knows, and findings need: who wrote where, what was cut off, what earlier calls did.

Facts are observations, never judgements: `findings` makes sentences of them. A call's stand in `GraphColumns.facts` and are
known before it runs, those of a pass in `TapeColumns.facts`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gradscope.model.places import UNKNOWN, CodePlace, Origin


@dataclass(frozen=True, slots=True)
class Cut:
    """A place at which a tensor with a graph became one without."""

    kind: str
    """`detach`, `data`, `no_grad`, `inference_mode`, `copy` (torch.tensor of a tensor), `parameter` (wrapped in Parameter again),
    `flat` (argmax, a comparison, a cast to integers: no derivative), `no_create_graph` (autograd.grad without create_graph),
    `checkpoint` (a reentrant one none of whose inputs needs a gradient); of casts `item`, `tolist`, `numpy`, `float`, `int`"""
    origin: Origin
    leaves: tuple[int, ...] = ()
    """The leaves, as places in `GraphColumns.leaves`, that lie behind what was cut off."""
    roots: tuple[int, ...] = ()
    """The roots that are known to have come of it."""
    certain: bool = True
    """False where it is one of several places that could be meant."""


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A backward call before this one."""

    number: int
    kind: str
    """`backward` or `grad`"""
    file: str
    line: int
    code: str = ""
    retain_graph: bool = False
    nodes: int = UNKNOWN
    """of its graph; UNKNOWN where it went by without being looked at"""
    old_nodes: int = UNKNOWN
    """those of them that were made before the call before it at the same line"""


@dataclass(frozen=True, slots=True)
class LeafHistory:
    """What was in the `.grad` of a leaf before the call, and who left it there. Only for leaves whose `.grad` is not None."""

    leaf: int
    filled_by: tuple[int, ...] = ()
    """Numbers of the earlier calls that added to what is there, as far as they were looked at."""
    unseen: int = 0
    """so many calls since the last clearing went by without being looked at, and may have added to it too"""
    zeroed: Origin | None = None
    """the last zero_grad that cleared it, where there was one"""
    stepped: Origin | None = None
    """the last step() of any optimizer after the first of the calls that filled it: what has been used and was kept"""
    stepped_by: str = ""
    """`SGD`: the optimizer of that step"""
    own_step: bool = False
    """that step was one of the optimizer which owns the leaf"""
    written: bool = False
    """the leaf itself has been written into since the last of the calls that filled it: a step, or an update by hand"""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """An elementwise function was given shapes of different rank, and its result is larger than either."""

    node: int
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    result: tuple[int, ...] = ()
    """the shape that both were expanded to"""


@dataclass(frozen=True, slots=True)
class Shared:
    """Two leaves whose elements lie on the same memory: tied there, not in the graph."""

    leaf: int
    other: str
    """name of the other one, which need not be in the graph"""
    origin: Origin | None = None
    """where the one was made of the other, where known"""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor of `inputs=` that is not in the graph, being a view that was made of one that is."""

    leaf: int
    base: str
    """name of the tensor that it is a view of; empty where nothing names it"""
    origin: Origin | None = None
    """the line that made the view"""


@dataclass(frozen=True, slots=True)
class StaleHook:
    """The tensor whose hook a node runs is made by another node by now: it was written in place after register_hook."""

    node: int
    name: str
    """of the tensor; empty where nothing names it"""
    origin: Origin | None = None
    """the line that wrote in place"""


@dataclass(frozen=True, slots=True)
class SeedGiven:
    """A seed as the script gives it."""

    shape: tuple[int, ...]
    dtype: str
    expression: str = ""


@dataclass(slots=True)
class CallFacts:
    """Those of a backward call."""

    cuts: list[Cut] = field(default_factory=list)
    """in the order in which they came, since the call before"""
    earlier: list[EarlierCall] = field(default_factory=list)
    """the last ones, the oldest first"""
    old_nodes: int = 0
    """nodes of this graph that were made before the last earlier call at the same line"""
    bridge: int = UNKNOWN
    """the newest of the nodes of this graph made before the last earlier call: what ties this graph to an older one"""
    histories: list[LeafHistory] = field(default_factory=list)
    broadcasts: list[Broadcast] = field(default_factory=list)
    shared: list[Shared] = field(default_factory=list)
    grad_mode_off: Origin | None = None
    """where gradients were switched off, if they were off when the roots were made and the call came after that"""
    optimizers: list[str] = field(default_factory=list)
    """`SGD`, `Adam`: those that live"""
    names: dict[int, str] = field(default_factory=dict)
    """node -> the variable that holds the tensor it made, for tensors of the call's frames that are alive"""
    flat_roots: dict[int, str] = field(default_factory=dict)
    """root without a graph -> what is known of it: `leaf` (requires no gradient itself), `flat` (an integer or bool dtype),
    `constant` (a derivative that autograd.grad gave with create_graph=True)"""
    views: list[View] = field(default_factory=list)
    trained: list[int] = field(default_factory=list)
    """leaves that this graph does not lead to and an earlier call did, as far as they were looked at"""
    awaited: list[int] = field(default_factory=list)
    """leaves that a DistributedDataParallel waits for in each backward"""
    stale_hooks: list[StaleHook] = field(default_factory=list)
    create_graph: bool = False
    """backward(create_graph=True): what it adds to `.grad` has a graph of its own"""


@dataclass(frozen=True, slots=True)
class Write:
    """A saved tensor that is not any more what it was when the node saved it."""

    node: int
    saved: str
    """the attribute of the node: `result`, `self`, `weight`"""
    name: str = ""
    """the tensor as the person calls it, where known"""
    leaf: int = UNKNOWN
    version_saved: int = UNKNOWN
    version_now: int = UNKNOWN
    origin: Origin | None = None
    """the last line that wrote into it"""
    function: str = ""
    """`Tensor.relu_`, `Tensor.__setitem__`, `SGD.step`"""
    silent: bool = False
    """its version did not change: torch notices nothing"""


@dataclass(frozen=True, slots=True)
class Freed:
    """A node whose saved tensors are gone."""

    node: int
    call: int
    """number of the earlier call that freed them; 0 where it is not known"""
    certain: bool = True


@dataclass(frozen=True, slots=True)
class BadValue:
    """A NaN or an infinity in the forward."""

    node: int
    """the first node in forward order whose result has one while nothing that it was made of had"""
    nan: int = 0
    inf: int = 0
    numel: int = 0
    index: tuple[int, ...] | None = None
    """of the first bad element of the result, where it is known"""
    value: float | None = None
    cause: str = ""
    """what it was made of there: `log of -1.0`, `mean over 0 elements`; empty where it is not known"""
    certain: bool = True
    """False where the node is the first that is known, and what came before it was not kept"""


@dataclass(frozen=True, slots=True)
class Mutated:
    """A custom backward, or a hook, wrote into the gradient that it was given."""

    node: int
    slot: int
    origin: Origin | None = None
    others: tuple[int, ...] = ()
    """nodes that were to get the same gradient and got the edited one"""
    hook: bool = False
    """a hook did it; told only where others got the edited one"""


@dataclass(slots=True)
class PassFacts:
    """Those of one pass."""

    writes: list[Write] = field(default_factory=list)
    """of the node that failed, and silent ones of any node"""
    freed: list[Freed] = field(default_factory=list)
    """of the node that failed"""
    forward: list[BadValue] = field(default_factory=list)
    mutated: list[Mutated] = field(default_factory=list)
    roots_bad: list[int] = field(default_factory=list)
    """roots whose own value is NaN or infinite"""


# ---------------------------------------------------------------- from outside a pass


@dataclass(frozen=True, slots=True)
class SteppedParameter:
    """A parameter that requires a gradient, as an optimizer's step finds it."""

    name: str
    gradient: str
    """of its `.grad`: `none`, `zero` (only looked for after a zero_grad), `some`"""
    ever: bool
    """it had a gradient at this step or an earlier one of the optimizer"""
    held: bool
    """a live module or a variable of the person's holds it, not the optimizer alone"""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A call of an optimizer's step() without a closure, of which something is to be asked."""

    optimizer: str
    """`Adam`"""
    origin: Origin | None
    """the line that called it"""
    number: int
    """which step of this optimizer it is, from 1"""
    parameters: tuple[SteppedParameter, ...]
    """frozen ones apart"""
    calls: tuple[EarlierCall, ...] = ()
    """the last backward calls since this optimizer's step before, the oldest first"""
    calls_before: int = 0
    """number of the last backward call before the step; 0 where there was none"""
    zeroed: Origin | None = None
    """the zero_grad that came after the last backward call and cleared gradients of these parameters"""


@dataclass(frozen=True, slots=True)
class GradRead:
    """The person's code read `.grad` of a tensor that has a graph and keeps no gradient."""

    name: str
    """the variable; empty where none holds it"""
    origin: Origin | None
    """the line that read"""
    made: Origin | None = None
    """the line that made the tensor"""
    op: str = ""
    """the node that made it: `TanhBackward0`"""
    calls_before: int = 0
    """number of the last backward call before; with 0 nothing could have arrived yet"""
    call: int = 0
    """the backward call below, where the pass of the last recorded one reached the tensor's node"""
    node: int = UNKNOWN
    """the node, in the graph of that call"""
    norm: float | None = None
    """of the gradient that arrived at it there"""
    leaf: str = ""
    """the leaf of which casts, moves and views alone made it, where the gradient has gone; `leaf 0` for one without a name"""
    leaf_origin: Origin | None = None
    """the line that made that leaf, where known"""


@dataclass(frozen=True, slots=True)
class TensorThere:
    """A tensor that the line which raised works with."""

    name: str
    """as it is written there: `self.scale`; else what a person calls it; empty where nothing names it"""
    role: str = "argument"
    """`target` (what the line writes into, or calls a method of), `argument`, `inside` (a function of a library's holds it)"""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = ""
    leaf: bool = True
    requires_grad: bool = False
    inference: bool = False
    """made under torch.inference_mode()"""
    view_of: str = ""
    """name of the tensor that it is a view of, `?` where nothing names that one; empty where it is none"""
    op: str = ""
    """the node that made it: `BackwardHookFunctionBackward`"""
    gradient: str = ""
    """of its `.grad`: `none`, else dtype, shape, device and layout; empty for a non-leaf that keeps one"""
    origin: Origin | None = None
    """the line that made it"""


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """An exception that nothing in the script has caught."""

    type: str
    message: str
    site: Origin | None
    """the innermost of the person's own lines that it came through"""
    receiver: str = ""
    """what the line writes into, or calls a method of, as it is written: `w * 2`"""
    raised_there: bool = False
    """a raise statement of the person's own"""
    below: tuple[str, ...] = ()
    """functions of libraries that this line called, outermost first: `torch/optim/sgd.py SGD.step`"""
    tensors: tuple[TensorThere, ...] = ()
    """the target first"""
    hooked: str = ""
    """the module whose full backward hooks have wrapped what the line writes into"""
    hooks: tuple[CodePlace, ...] = ()
    """those hooks"""
    optimizer: str = ""
    """`SGD`: the one whose method raised"""
    stepped: tuple[TensorThere, ...] = ()
    """its parameters whose gradient does not fit them, or that it cannot take"""
    parameters: tuple[str, ...] = ()
    """names of the parameters of the DistributedDataParallel that raised, in its order; frozen ones apart"""
    call: int = 0
    """number of the backward call that raised it; 0 where it was none"""
