"""What the two processes say to each other.

Reports go from the debuggee to the session, requests the other way. Fields are only ever appended, always with a default, so that
a newer side can talk to an older one; `VERSION` in `Hello` says which protocol is spoken.
"""

from __future__ import annotations

import msgspec

from gradscope.findings.finding import Finding
from gradscope.model.checks import CheckResult
from gradscope.model.columns import Change, GraphColumns, TapeColumns
from gradscope.model.saved import SavedColumns
from gradscope.model.tensors import TensorColumns

VERSION = 1


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True, tag_field="_"):
    pass


# ---------------------------------------------------------------- what both use


class Call(_Message, frozen=True):
    """One call by the script of backward() or autograd.grad()."""

    number: int
    """From 1; 0 where the person explores without a call of the script."""
    kind: str
    """`backward`, `grad`, or `none` for a stop without a call."""
    file: str
    line: int
    function: str
    code: str
    """The statement, joined to one line: `J.backward(gradient=v)`."""
    retain_graph: bool = False
    create_graph: bool = False
    has_inputs: bool = False
    """The call named the tensors to differentiate for."""
    thread: str = "MainThread"


class SeedText(_Message, frozen=True):
    """A seed as a person gives it: an expression, or the cells of the grid."""

    text: str
    """`1,10`, `ones`, `onehot(3)`, `*2`, `mean`, any expression in the script's names; empty for the script's own seed."""


# ---------------------------------------------------------------- debuggee → session


class Hello(_Message, frozen=True):
    """First message: the debuggee lives. The session answers with `Configure`."""

    version: int
    pid: int
    python: str


class TorchImported(_Message, frozen=True):
    version: str


class CallPassed(_Message, frozen=True):
    """Backward calls go by without a stop; sent at most some times a second."""

    calls: int
    file: str
    line: int


class Stopped(_Message, frozen=True):
    """The script stands still and its thread serves requests until `Resume`. `Captured` and `Recorded` follow when they can."""

    call: Call
    reason: str
    """`call` (a backward call), `line` (--stop-at FILE:LINE), `end` (the script ended without a call), `error` (an exception
    that nothing caught has ended it), `breakpoint`, `seed` (torch would refuse the call's seed),
    `no-graph` (torch would refuse its root)"""
    detail: str = ""
    """For `seed` and `no-graph` the text of torch's own error; for a breakpoint its condition; for `error` the exception."""
    findings: list[Finding] = []
    traceback: str = ""
    """of `error`, as python has printed it"""


class LiveTensor(_Message, frozen=True):
    """A tensor with a graph that a person can pick as a root."""

    name: str
    where: str
    """`main() in train.py:12`"""
    shape: tuple[int, ...]
    dtype: str
    op: str


class LiveTensors(_Message, frozen=True):
    """At a stop without a call: what could be differentiated, the likeliest root first."""

    tensors: list[LiveTensor]


class Captured(_Message, frozen=True):
    graph: GraphColumns


class Progress(_Message, frozen=True):
    what: str
    done: int
    total: int


class Recorded(_Message, frozen=True):
    """One pass, whole. `findings` are those that only the debuggee can tell."""

    tape: TapeColumns
    findings: list[Finding] = []
    request: int = 0
    """The request that asked for it; 0 for the pass of the stop itself and for recorded commits."""


class Committed(_Message, frozen=True):
    """The script's own call has run. Checks each leaf's `.grad` against what the pass said."""

    call: int
    exact: str
    reason: str
    differing: list[str] = []
    """names of the leaves that differ"""
    error: str = ""
    """`RuntimeError: …` when the call raised"""
    edited: bool = False


class TensorSlice(_Message, frozen=True):
    """Part of a tensor, dense and row-major."""

    request: int
    shape: tuple[int, ...]
    """of the slice"""
    values: list[float | int | bool]
    """a complex element takes two places, real and imaginary"""


class TensorBytes(_Message, frozen=True):
    """A whole tensor for an export. `dtype` as safetensors writes it (`F32`, `BF16`, `I64`, …), bytes little-endian row-major."""

    tape: int
    tensor: int
    dtype: str
    shape: tuple[int, ...]
    data: bytes


class TensorsDone(_Message, frozen=True):
    """All that `FetchTensors` asked for has been sent, `missing` apart."""

    request: int
    missing: list[int] = []


class SavedRead(_Message, frozen=True):
    """What every node of the graph keeps for backward. Answers `ReadSaved`."""

    request: int
    saved: SavedColumns


class Inspected(_Message, frozen=True):
    """What one node keeps, looked into. Answers `Inspect`."""

    request: int
    node: int
    tensors: TensorColumns
    """a row for each saved tensor of the node that can be read, in the order of `SavedColumns`"""
    places: list[int]
    """for each row of `tensors` its place among the node's saved tensors"""
    attributes: list[tuple[str, str]]
    """name and value of all else that it keeps: `dim`, `(1, 2)`"""
    notes: list[str] = []
    """what could not be read, and why"""


class Checked(_Message, frozen=True):
    """Answers `Check`."""

    request: int
    result: CheckResult


class Debugged(_Message, frozen=True):
    """The person has left pdb. Answers `Debug`."""

    request: int
    node: int
    error: str = ""
    """`ValueError: …` when the backward raised"""


class Source(_Message, frozen=True):
    file: str
    text: str


class Refused(_Message, frozen=True):
    """A request that could not be met: what, why, what to do."""

    request: int
    what: str
    why: str
    hint: str = ""
    findings: list[Finding] = []
    seed: str = ""
    """the text of `--gradient`, where that is what was refused"""


class Resumed(_Message, frozen=True):
    """The script runs again."""


class Diagnosed(_Message, frozen=True):
    """Findings from outside a pass."""

    findings: list[Finding]


class Died(_Message, frozen=True):
    """The script ends with an uncaught exception (SystemExit apart)."""

    type: str
    message: str
    traceback: str
    file: str = ""
    line: int = 0


class Ending(_Message, frozen=True):
    """The script has run to its end; the process is about to exit."""

    calls: int


Report = (
    Hello
    | TorchImported
    | CallPassed
    | Stopped
    | LiveTensors
    | Captured
    | Progress
    | Recorded
    | Committed
    | TensorSlice
    | TensorBytes
    | TensorsDone
    | SavedRead
    | Inspected
    | Checked
    | Debugged
    | Source
    | Refused
    | Resumed
    | Diagnosed
    | Died
    | Ending
)


# ---------------------------------------------------------------- session → debuggee


class Configure(_Message, frozen=True):
    """The session's answer to `Hello`; the script starts after it."""

    stop_at: str = "first"
    """`first`, `never`, a call's number, or FILE:LINE"""
    breaks: list[str] = []
    """conditions as `--break` takes them; a backward call whose pass meets one stops"""
    gradient: str = ""
    """seed for the first stop"""
    record: int = 0
    """headless: how many backward calls to record while they run (-1 for all); 0 for none"""
    send_tensors: bool = False
    """send the tensors themselves after each recorded call"""
    once: bool = False
    origins: bool = True
    budget: int = 0
    """bytes of gradients to hold per device; 0 for a quarter of what is free"""
    saved: bool = False
    """headless: tell of each recorded call what its nodes keep"""


class Explore(_Message, frozen=True):
    """Run one more pass with these seeds (one per root; missing ones are the script's own)."""

    request: int
    seeds: list[SeedText]
    root: int = -1
    """Seed the tensor that this node made instead of the call's roots."""
    root_input_nr: int = 0
    base: int = 0
    """the pass whose seeds `*2` scales; 0 for the last one"""
    changes: list[Change] = []
    """what-ifs, applied to each gradient when it is complete; `Change.before` is ignored"""
    same_seeds: bool = False
    """Take the seeds of the pass `base` (and what it seeds) instead of `seeds`."""


class PickRoot(_Message, frozen=True):
    """Take a live tensor (by its place in `LiveTensors`) as the root."""

    request: int
    tensor: int
    seed: SeedText


class Fetch(_Message, frozen=True):
    """A slice of a tensor of a tape: for each dimension (start, stop, step) with step ≥ 1."""

    request: int
    tape: int
    tensor: int
    index: list[tuple[int, int, int]]


class FetchTensors(_Message, frozen=True):
    request: int
    tape: int
    tensors: list[int]


class ReadSaved(_Message, frozen=True):
    request: int


class Inspect(_Message, frozen=True):
    request: int
    node: int


class FetchSaved(_Message, frozen=True):
    """A slice of a saved tensor, by its place among those of its node. Answered by `TensorSlice`."""

    request: int
    node: int
    place: int
    index: list[tuple[int, int, int]]


class Check(_Message, frozen=True):
    """Check one node against numbers that do not come from its own backward."""

    request: int
    node: int
    tape: int


class Debug(_Message, frozen=True):
    """Run the backward of a custom Function's node under pdb, in the script's terminal, on what arrived at it in a pass."""

    request: int
    node: int
    tape: int


class ReadSource(_Message, frozen=True):
    file: str


class SetBreaks(_Message, frozen=True):
    breaks: list[str]


class Resume(_Message, frozen=True):
    """Let the script's call run. The next stop is the next backward call, `stop_at` says otherwise."""

    edited: bool = False
    """use the seeds of a pass instead of the script's own"""
    stop_at: str = "next"
    """`next`, `never`, a call's number, FILE:LINE, or `break` (only where a condition is met)"""
    tape: int = 0
    """with `edited`, the pass whose seeds to use; 0 for the last one"""
    errors: bool = True
    """stop too where an exception ends the script"""


class Cancel(_Message, frozen=True):
    """Give up the pass that is running."""


class StopSoon(_Message, frozen=True):
    """Stop at the next backward call."""


Request = (
    Configure
    | Explore
    | PickRoot
    | Fetch
    | FetchTensors
    | FetchSaved
    | ReadSaved
    | Inspect
    | Check
    | Debug
    | ReadSource
    | SetBreaks
    | Resume
    | Cancel
    | StopSoon
)
