"""The `.safetensors` export: the gradients themselves, under names that tell their place in the pass.

    call1.pass1.leaf.fc1.weight           what the pass adds to a leaf
    call1.pass1.leaf.fc1.weight.before    its `.grad` before the call; `.after` likewise
    call1.pass1.seed0                     the seed of root 0
    call1.pass1.step2.arrived             what the function of step 2's node was handed; `.arrived1` at its gradient slot 1
    call1.pass1.step2.sent0               what it sent over its slot 0

A tensor that has several places is written once, under the first of these names; the metadata's `same` maps its other names to
that one, and `missing` lists the names whose tensors were not at hand. A second leaf of the same name gets `#2` at its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

from gradscope.export.naming import call_names, unique
from gradscope.export.raw import from_values
from gradscope.export.safetensors_form import chunks as safetensors_chunks
from gradscope.findings.finding import Finding
from gradscope.model.report import Report, StopReport, TensorData
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR


def chunks(report: Report[Finding]) -> Iterator[bytes]:
    """The file in pieces."""
    tensors: dict[str, TensorData] = {}
    same: dict[str, str] = {}
    missing: list[str] = []
    for call, stop in zip(call_names(report), report.stops, strict=True):
        for tape in stop.tapes:
            written: dict[int, str] = {}
            for name, tensor in _places(f"{call}.pass{tape.number}", tape):
                if tensor in written:
                    same[name] = written[tensor]
                elif (data := _data(stop, tape, tensor)) is not None:
                    tensors[name] = data
                    written[tensor] = name
                else:
                    missing.append(name)
    metadata = {
        "format": "gradscope",
        "script": report.script,
        "torch": report.torch,
        "same": json.dumps(same),
        "missing": json.dumps(missing),
    }
    return safetensors_chunks(tensors, metadata)


def _places(prefix: str, tape: Tape) -> Iterator[tuple[str, int]]:
    """Each place of the pass that holds a tensor, the likeliest to be asked for first."""
    for name, tensor in chain(_leaf_places(tape), _step_places(tape)):
        if tensor != NO_TENSOR:
            yield f"{prefix}.{name}", tensor


def _leaf_places(tape: Tape) -> Iterator[tuple[str, int]]:
    for i, name in enumerate(unique(f"leaf.{leaf.name}" for leaf in tape.graph.leaves)):
        yield name, tape.leaf_total(i)
        yield f"{name}.before", tape.leaf_before(i)
        yield f"{name}.after", tape.leaf_after(i)


def _step_places(tape: Tape) -> Iterator[tuple[str, int]]:
    for seed in tape.seeds:
        yield f"seed{seed.root}", seed.tensor
    for step in range(1, tape.ran + 1):
        for place, (input_nr, tensor) in enumerate(tape.arrivals(tape.node_at(step))):
            yield f"step{step}.arrived" if place == 0 else f"step{step}.arrived{input_nr}", tensor
        for sent in tape.sent_by(step):
            yield f"step{step}.sent{tape.graph.slot[sent.edge]}", sent.tensor


def _data(stop: StopReport[Finding], tape: Tape, tensor: int) -> TensorData | None:
    return stop.tensors.get((tape.number, tensor)) or from_values(tape.summary(tensor))
