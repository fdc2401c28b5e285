"""One pass in the JSON report: seeds, steps with their contributions, leaves."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.export.json_graph import Fields, number, text
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Change, Failure
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR


def fields(graph: BackwardGraph | None, tape: Tape | None) -> Fields:
    """The pass that the script's own call makes; without a tape what is known of its leaves."""
    if graph is None:
        return {"seeds": [], "steps": [], "leaves": [], "failure": None, "notes": []}
    if tape is None:
        return {"seeds": [], "steps": [], "leaves": _leaves(graph, None), "failure": None, "notes": []}
    return {
        "seeds": _seeds(tape),
        "steps": _steps(tape),
        "leaves": _leaves(graph, tape),
        "failure": _failure(tape.failure) if tape.failure else None,
        "notes": tape.columns.notes,
    }


def edited(graph: BackwardGraph, tape: Tape) -> Fields:
    """A further pass over the same graph, with other seeds or with what-ifs."""
    return {
        "number": tape.number,
        "edited": tape.edited,
        "root": number(tape.columns.root),
        "changes": [_change(tape, change) for change in tape.columns.changes],
        **fields(graph, tape),
    }


def _change(tape: Tape, change: Change) -> Fields:
    return {
        "node": change.node,
        "input_nr": change.input_nr,
        "edge": number(change.edge),
        "text": change.text,
        "before": _summary(tape, change.before),
    }


def _seeds(tape: Tape) -> list[Fields]:
    return [
        {"edge": None, "root": seed.root, **_values(tape, seed.tensor), "expression": seed.expression, "given": seed.given}
        for seed in tape.seeds
    ]


def _steps(tape: Tape) -> Iterator[Fields]:
    for step in range(1, tape.ran + 1):
        node = tape.node_at(step)
        arrivals = tape.arrivals(node)
        result: Fields = {"step": step, "node": node, "arrived": _summary(tape, tape.arrived_at(step))}
        if any(input_nr for input_nr, _ in arrivals):
            result["arrivals"] = [{"input_nr": input_nr, **_values(tape, tensor)} for input_nr, tensor in arrivals]
        result["contributions"] = [{"edge": sent.edge, **_values(tape, sent.tensor)} for sent in tape.sent_by(step)]
        yield result


def _leaves(graph: BackwardGraph, tape: Tape | None) -> Iterator[Fields]:
    for i, leaf in enumerate(graph.leaves):
        yield {
            "name": leaf.name,
            "aliases": leaf.aliases,
            "kind": leaf.kind,
            "owner": text(leaf.owner),
            "node": number(leaf.node),
            "input_nr": leaf.input_nr,
            "shape": leaf.shape,
            "dtype": leaf.dtype,
            "before": _summary(tape, tape.leaf_before(i)) if tape else None,
            "contribution": _summary(tape, tape.leaf_total(i)) if tape else None,
            "after": _summary(tape, tape.leaf_after(i)) if tape else None,
        }


def _summary(tape: Tape, tensor: int) -> Fields | None:
    return None if tensor == NO_TENSOR else _values(tape, tensor)


_UNDEFINED: Fields = dict.fromkeys(("norm", "min", "max", "mean", "nan", "inf", "zero", "numel", "shape", "dtype", "values"))


def _values(tape: Tape, tensor: int) -> Fields:
    """The fields of a summary; all null for an undefined gradient."""
    if tensor == NO_TENSOR:
        return _UNDEFINED
    summary = tape.summary(tensor)
    return {
        "norm": summary.norm,
        "min": summary.min,
        "max": summary.max,
        "mean": summary.mean,
        "nan": summary.nan,
        "inf": summary.inf,
        "zero": summary.zero,
        "numel": summary.numel,
        "shape": summary.shape,
        "dtype": summary.dtype,
        "values": summary.values,
    }


def _failure(failure: Failure) -> Fields:
    return {
        "node": number(failure.node),
        "type": failure.type,
        "message": failure.message,
        "traceback": failure.traceback,
        "file": text(failure.file),
        "line": failure.line or None,
    }
