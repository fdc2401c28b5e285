"""Breakpoint conditions: `nan`, `op:Sin*`, `train.py:41`, `norm>1e3`, … Parsed from text, met or not by each step of a pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from gradscope.model.backward_graph import BackwardGraph, short_op
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import KNOWN_COUNTS, KNOWN_NORM, NO_TENSOR

KINDS = (
    "nan",
    "inf",
    "zero",
    "undefined",
    "op:NAME",
    "leaf:NAME",
    "module:PATH",
    "FILE:LINE",
    "norm>X",
    "norm<X",
    "gain>X",
    "gain<X",
    "finding:KIND",
    "step:N",
    "shape:[2,3]",
)


_OF_GRAPH = ("op:", "leaf:", "module:", "step:", "shape:")


class Diagnosed(Protocol):
    """What a condition needs of a finding."""

    @property
    def kind(self) -> str: ...
    @property
    def node(self) -> int: ...


Test = Callable[[int], bool]
"""Whether a step meets the condition; made once for a pass."""
Prepare = Callable[[BackwardGraph, Tape, Iterable[Diagnosed]], Test]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a step of a pass.

    `nan`, `inf`, `zero` and `undefined` speak of every gradient that arrives at the step's node or that it sends; `norm` and
    `shape` of what arrives, `gain` of ‖sent‖ / ‖arrived‖.
    """

    text: str
    """As typed, without spaces around it."""
    prepare: Prepare
    """For repeated questions about one pass."""

    def meets(self, graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed], step: int) -> bool:
        return 1 <= step <= tape.steps and self.prepare(graph, tape, findings)(step)

    @property
    def of_gradients(self) -> bool:
        """Only a pass can meet it. Of the others the graph knows."""
        return not self.text.startswith(_OF_GRAPH) and re.fullmatch(r".*:\s*\d+", self.text) is None

    def met(self, graph: BackwardGraph, tape: Tape, findings: Sequence[Diagnosed] = ()) -> bool:
        """Whether a pass meets it: at a step, in its forward, or by a finding that belongs to no step (`missing-gradient`)."""
        if self.text in ("nan", "inf") and any(getattr(bad, self.text) for bad in tape.columns.facts.forward):
            return True
        kind = self.text.removeprefix("finding:").strip()
        of_pass = kind != self.text and any(finding.kind == kind for finding in findings)
        return of_pass or bool(self.steps(graph, tape, findings))

    def steps(self, graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed] = ()) -> list[int]:
        """The steps that meet it, ascending. Remembered with the tape, but for what depends on the findings."""
        if self.text.startswith("finding:"):
            return self._steps(graph, tape, findings)
        known: dict[str, list[int]] = tape.derived.setdefault("conditions", {})
        if self.text not in known:
            known[self.text] = self._steps(graph, tape, findings)
        return known[self.text]

    def _steps(self, graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> list[int]:
        return list(filter(self.prepare(graph, tape, findings), range(1, tape.steps + 1)))


def parse(text: str, findings: Collection[str] = ()) -> Condition:
    """Read one condition.

    Args:
        text: as typed.
        findings: the kinds of findings that there are; empty where it does not matter.

    Raises:
        ValueError: it is none; the message says what is wrong and, in its second line, which kinds there are.
    """
    text = text.strip()
    compared = re.fullmatch(r"(norm|gain)\s*([<>])\s*(\S+)", text)
    if compared:
        return Condition(text, _compared(text, *compared.groups()))
    if text in _WORDS:
        return Condition(text, _WORDS[text])
    word, colon, rest = text.partition(":")
    if colon and word in _NAMED:
        if not rest.strip():
            raise _wrong(text, f"nothing stands after {word}:")
        if word == "finding" and findings and rest.strip() not in findings:
            kinds = ", ".join(sorted(findings))
            raise ValueError(f"cannot read the condition {text!r}: no finding is called so\nkinds of findings are {kinds}")
        return Condition(text, _NAMED[word](text, rest.strip()))
    file, colon, line = text.rpartition(":")
    if colon and file and line.isdigit():
        return Condition(text, _at_line(file, int(line)))
    raise _wrong(text, "it is not one of the kinds" if text else "it is empty")


def _wrong(text: str, why: str) -> ValueError:
    return ValueError(f"cannot read the condition {text!r}: {why}\nconditions are {', '.join(KINDS)}")


# ---------------------------------------------------------------- what a gradient is


def _nan(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
    return _touched(tape, _nonzero(tape.tensors.nan, tape.tensors.known)).__contains__


def _inf(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
    return _touched(tape, _nonzero(tape.tensors.inf, tape.tensors.known)).__contains__


def _zero(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
    zeros = _nonzero(tape.tensors.zero, tape.tensors.known)
    return _touched(tape, {tensor for tensor in zeros if tape.is_zero(tensor)}).__contains__


def _undefined(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
    return _touched(tape, {NO_TENSOR}).__contains__


def _nonzero(counts: memoryview[int], known: memoryview[int]) -> set[int]:
    return {tensor for tensor, count in enumerate(counts) if count and known[tensor] & KNOWN_COUNTS}


def _touched(tape: Tape, tensors: Collection[int]) -> set[int]:
    """The steps at which one of the tensors arrives or is sent."""
    if not tensors:
        return set()
    arrived = zip(tape.arrival_step, tape.arrival_tensor, strict=True)
    sent = zip(tape.contribution_step, tape.contribution_tensor, strict=True)
    return {step for pairs in (arrived, sent) for step, tensor in pairs if tensor in tensors}


def _compared(text: str, what: str, sign: str, number: str) -> Prepare:
    try:
        bound = float(number)
    except ValueError:
        raise _wrong(text, f"{number!r} is no number") from None
    beyond: Callable[[float], bool] = bound.__lt__ if sign == ">" else bound.__gt__

    def norm(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
        norms, known, arrived = tape.tensors.norm, tape.tensors.known, tape.arrived_by_step

        def test(step: int) -> bool:
            tensor = arrived[step]
            return tensor != NO_TENSOR and bool(known[tensor] & KNOWN_NORM) and beyond(norms[tensor])

        return test

    def gain(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
        gains = tape.gain_by_step
        return lambda step: beyond(gains[step])

    return norm if what == "norm" else gain


def _shape(text: str, rest: str) -> Prepare:
    if not re.fullmatch(r"[\[(]?\s*(\d+\s*(,\s*\d+\s*)*,?)?\s*[\])]?", rest):
        raise _wrong(text, "a shape is written like [2,3], that of a scalar like []")
    wanted = tuple(map(int, re.findall(r"\d+", rest)))

    def prepare(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
        arrived, shape = tape.arrived_by_step, tape.tensors.shape
        return lambda step: arrived[step] != NO_TENSOR and shape(arrived[step]) == wanted

    return prepare


# ---------------------------------------------------------------- which node


def _op(text: str, rest: str) -> Prepare:
    pattern = rest.lower()

    def prepare(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
        wanted = [
            any(fnmatchcase(name.lower(), pattern) for name in (op, short_op(op), op.rstrip("0123456789")))
            for op in graph.columns.ops
        ]
        return lambda step: wanted[graph.op_index(tape.node_at(step))]

    return prepare


def _leaf(text: str, rest: str) -> Prepare:
    pattern = path_parts(rest)

    def prepare(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
        nodes = {
            leaf.node
            for leaf in graph.reached
            if any(_ends_with(path_parts(name), pattern) for name in (leaf.name, *leaf.aliases))
        }
        return {tape.step_of(node) for node in nodes}.__contains__

    return prepare


def _module(text: str, rest: str) -> Prepare:
    pattern = path_parts(rest)

    def prepare(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
        return _made_by(
            graph, tape, [_matches(path_parts(origin.module)[: len(pattern)], pattern) for origin in graph.columns.origins]
        )

    return prepare


def _at_line(file: str, line: int) -> Prepare:
    wanted = file.replace("\\", "/").removeprefix("./")

    def prepare(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
        return _made_by(
            graph,
            tape,
            [origin.line == line and f"/{origin.file}".endswith(f"/{wanted.lstrip('/')}") for origin in graph.columns.origins],
        )

    return prepare


def _finding(text: str, rest: str) -> Prepare:
    def prepare(graph: BackwardGraph, tape: Tape, findings: Iterable[Diagnosed]) -> Test:
        nodes = {finding.node for finding in findings if finding.kind == rest and finding.node != UNKNOWN}
        return {tape.step_of(node) for node in nodes if node < len(graph)}.__contains__

    return prepare


def _step(text: str, rest: str) -> Prepare:
    if not rest.isdigit() or not int(rest):
        raise _wrong(text, "steps are numbered from 1")
    wanted = int(rest)
    return lambda graph, tape, findings: wanted.__eq__


def _made_by(graph: BackwardGraph, tape: Tape, wanted: list[bool]) -> Test:
    """Steps whose node comes from one of the wanted origins."""
    nodes, origin_of = tape.step_node, graph.origin_index

    def test(step: int) -> bool:
        origin = origin_of(nodes[step - 1])
        return origin != UNKNOWN and wanted[origin]

    return test


def path_parts(path: str) -> list[str]:
    """`a[0].w` and `a.0.w` have the parts a, 0, w."""
    return [part for part in re.split(r"[.\[\]]+", path) if part]


def _matches(parts: list[str], pattern: list[str]) -> bool:
    return len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))


def _ends_with(parts: list[str], pattern: list[str]) -> bool:
    return len(pattern) > 0 and _matches(parts[-len(pattern) :], pattern)


_WORDS: dict[str, Prepare] = {"nan": _nan, "inf": _inf, "zero": _zero, "undefined": _undefined}
_NAMED: dict[str, Callable[[str, str], Prepare]] = {
    "op": _op,
    "leaf": _leaf,
    "module": _module,
    "finding": _finding,
    "step": _step,
    "shape": _shape,
}
