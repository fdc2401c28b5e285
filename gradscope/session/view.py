"""What the screen shows, as one frozen value: the session makes it, every pane draws from it, nothing else is asked."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from gradscope.errors import GradscopeError
from gradscope.findings.finding import Finding
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.checks import CheckResult
from gradscope.model.columns import Leaf
from gradscope.model.formulas import Formulas
from gradscope.model.rows import Rows
from gradscope.model.saved import SavedTable
from gradscope.model.search import Matches
from gradscope.model.tape import Tape
from gradscope.protocol.messages import Call, Committed, Inspected, LiveTensor


class State(Enum):
    """Where the session stands; the registry of actions says which keys live in each."""

    STARTING = "starting"
    """the process is up, torch is not imported or no backward call was met"""
    RUNNING = "running"
    STOPPED = "stopped"
    ENDED = "ended"
    """the script is over; its stops stay browsable"""
    CRASHED = "crashed"
    """the script died of an uncaught exception or of a signal"""
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class RefusedSeed:
    """What `--gradient` said for the first stop, and why it is no seed there."""

    text: str
    error: GradscopeError


@dataclass(slots=True)
class Stop:
    """One stop of the script, with everything recorded there. Only the session changes it."""

    call: Call
    reason: str
    detail: str = ""
    graph: BackwardGraph | None = None
    passes: list[Tape] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """of the whole stop, worst first: those of the debuggee and those computed here"""
    live: list[LiveTensor] = field(default_factory=list)
    committed: Committed | None = None
    refusal: str = ""
    """why nothing could be explored here, for the screen"""
    refused_seed: RefusedSeed | None = None
    traceback: str = ""
    """of the exception that has ended the script, at a stop of the reason `error`"""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the script ended."""

    code: int
    """as a shell reports it: 128+N for signal N"""
    signal: int = 0
    message: str = ""
    """`RuntimeError: …`, `killed by signal 11 (SIGSEGV)`; empty for a clean end"""
    traceback: str = ""


def signal_name(number: int) -> str:
    """`SIGSEGV`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "real-time"  # SIGRTMIN+n has no name of its own


@dataclass(frozen=True, slots=True)
class Busy:
    """The debuggee works on a request."""

    what: str
    done: int = 0
    total: int = 0
    typing: bool = False
    """it waits for what is typed into the script's terminal: pdb runs there"""


HAS_RUN = "this call has run already and was recorded as it ran: nothing can be tried on it"
HAS_RUN_AT_BREAK = "this call has run, and met the condition: to try seeds on it, R with --stop-at {number} stops before it"


def tries_nothing(stop: Stop | None) -> str:
    """Why nothing can be tried on a call that has run, and what to do about it."""
    if stop is None or stop.reason != "breakpoint":
        return HAS_RUN
    return HAS_RUN_AT_BREAK.format(number=stop.call.number)


@dataclass(frozen=True, slots=True)
class View:
    """Everything the panes need. `rows`, `tape`, `graph` are None until something was recorded."""

    state: State
    script: str
    """its path as typed"""
    calls: int = 0
    """backward calls met so far"""
    where: tuple[str, int] = ("", 0)
    """file and line of the last backward call met"""
    stop: Stop | None = None
    stop_number: int = 0
    """1 for the oldest stop kept"""
    stops: int = 0
    graph: BackwardGraph | None = None
    tape: Tape | None = None
    against: Tape | None = None
    """the pass that Δ columns compare with; None shows no Δ"""
    rows: Rows | None = None
    """visible rows: row 0 is the seed"""
    playhead: int = 0
    """after this step; 0 is the start"""
    selection: int = 0
    """a row of `rows`"""
    findings: tuple[Finding, ...] = ()
    finding: int = -1
    """the one that `a` or Enter led to last, in `findings`"""
    sources: dict[str, list[str]] = field(default_factory=dict)
    """file -> its lines, as far as they have been read"""
    watches: tuple[int, ...] = ()
    """pinned nodes"""
    saved: SavedTable | None = None
    """what the nodes keep for backward, once it was asked for"""
    inspected: Mapping[int, Inspected] = field(default_factory=dict)
    """node -> what it keeps, looked into, as far as it was asked for"""
    checks: Mapping[int, CheckResult] = field(default_factory=dict)
    """node -> what a check of it found"""
    formulas: Formulas | None = None
    """what nodes compute; None until torch's derivative table was read"""
    breaks: tuple[str, ...] = ()
    """conditions, in the order they were set"""
    met: Sequence[int] = ()
    """the steps of the pass at which one of them is met, ascending"""
    search: str = ""
    matches: Matches | tuple[int, ...] = ()
    """which rows match the search"""
    playing: bool = False
    edited: bool = False
    """the pass shown has a seed that is not the script's own"""
    busy: Busy | None = None
    exit: Exit | None = None
    waiting: bool = False
    """the script stands still until something is typed into its terminal"""
    notice: str = ""
    """one line that the last action has to say: `at the end: r resumes your script`"""

    @property
    def has_run(self) -> bool:
        """The script stands after the call, not before it (`--once`, reentrant checkpoint): nothing can be tried on it."""
        return self.state is State.STOPPED and self.tape is not None and self.tape.columns.kind == "committed"

    @property
    def tries_nothing(self) -> str:
        """Why nothing can be tried on a call that has run, and what to do about it."""
        return tries_nothing(self.stop)

    @property
    def returns(self) -> bool:
        """The call is `autograd.grad()`: the gradients are returned, no `.grad` changes."""
        return self.stop is not None and self.stop.call.kind == "grad"

    def accumulates(self, leaf: Leaf) -> bool:
        """Whether what the pass brings to a leaf is added to a `.grad`."""
        return leaf.target and not self.returns

    def gradient_of(self, leaf: Leaf) -> str:
        """What a leaf's gradient is called: `x.grad`; `∂x` where it is returned, or goes nowhere."""
        return f"{leaf.name}.grad" if self.accumulates(leaf) and leaf.kind != "input" else f"∂{leaf.name}"
