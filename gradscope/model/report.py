"""All that was recorded in one run of a script, as one frozen value: what every export writes and what a snapshot gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.derivatives import Entry
from gradscope.model.saved import Looked, SavedTable
from gradscope.model.tape import Tape

Finding = TypeVar("Finding")
"""Reports are generic in what a finding is, since the model knows nothing of findings: elsewhere write `Report[Finding]`."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the script."""

    file: str
    line: int
    function: str = ""
    code: str = ""
    """The statement, joined to one line: `J.backward(gradient=v)`."""


@dataclass(frozen=True, slots=True)
class CallInfo:
    """One backward call, or a stop without one."""

    number: int
    """From 1; 0 where the person explored without a call of the script."""
    kind: str
    """`backward`, `grad`, or `none` for a stop without a call."""
    site: Site
    reason: str = "call"
    """Why the script stood still: `call`, `line`, `end`, `breakpoint`, `seed`, `no-graph`."""
    detail: str = ""
    """For `seed` and `no-graph` the text of torch's own error; for a breakpoint its condition."""
    retain_graph: bool = False
    create_graph: bool = False
    has_inputs: bool = False
    """The call named the tensors to differentiate for."""
    thread: str = "MainThread"


@dataclass(frozen=True, slots=True)
class Commit:
    """What the script's own call did when it ran."""

    exact: str
    """`true`, `false` or `unchecked`: whether each leaf's `.grad` became what the pass said."""
    reason: str = ""
    differing: tuple[str, ...] = ()
    """Names of the leaves that differ."""
    error: str = ""
    """`RuntimeError: …` when the call raised."""
    edited: bool = False
    """It ran with a seed that is not the script's own."""


@dataclass(frozen=True, slots=True)
class TensorData:
    """A whole tensor, without torch."""

    dtype: str
    """As safetensors writes it: `F32`, `BF16`, `I64`, …"""
    shape: tuple[int, ...]
    data: bytes
    """Little-endian, row-major."""


@dataclass(frozen=True)
class StopReport(Generic[Finding]):
    """One stop of the script, or one call recorded on the way."""

    call: CallInfo
    graph: BackwardGraph | None = None
    """None where nothing could be captured (`reason` and `findings` say why)."""
    tapes: tuple[Tape, ...] = ()
    """Pass 1, the script's own, first."""
    findings: tuple[Finding, ...] = ()
    """Worst first."""
    committed: Commit | None = None
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    """file -> its text, for the files that the graph's origins and the call speak of"""
    tensors: Mapping[tuple[int, int], TensorData] = field(default_factory=dict, repr=False)
    """(number of the tape, number of the tensor in it) -> the tensor itself, where it was fetched"""
    saved: SavedTable | None = None
    """What the nodes keep for backward, where it was read."""
    inspected: Mapping[int, Looked] = field(default_factory=dict, repr=False)
    """The nodes that were looked into."""


@dataclass(frozen=True)
class Report(Generic[Finding]):
    """One run of a script."""

    script: str
    """As typed; `-m package.module` for a module."""
    arguments: tuple[str, ...] = ()
    """The script's own."""
    python: str = ""
    torch: str = ""
    """Empty when the script never imported torch."""
    stops: tuple[StopReport[Finding], ...] = ()
    """In the order of the calls."""
    findings: tuple[Finding, ...] = ()
    """Those from outside any pass: an error in the forward, a step that found no gradient."""
    formulas: Mapping[str, Entry] = field(default_factory=dict, repr=False)
    """op -> its entry in torch's derivative table, for the nodes of all graphs; empty where it was not read"""
