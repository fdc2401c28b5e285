"""Runs exploring passes for tests, and reads their tapes through the model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradscope.debuggee.capture import Captured, capture
from gradscope.debuggee.commit import Recorded, Verdict
from gradscope.debuggee.explore import explore
from gradscope.debuggee.graph_columns import graph_columns
from gradscope.debuggee.pass_facts import PassFinder, Witnesses
from gradscope.debuggee.subject import Subject
from gradscope.debuggee.tape_builder import Held
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import TapeColumns
from gradscope.model.tape import Tape


@dataclass
class Pass:
    captured: Captured
    columns: TapeColumns
    held: Held
    verdict: Verdict | None = None

    def __post_init__(self) -> None:
        self.graph = BackwardGraph(graph_columns(self.captured))
        self.tape = Tape(self.columns, self.graph)

    def tensor(self, number: int) -> torch.Tensor | None:
        return None if number < 0 else self.held.tensor(number)

    def total(self, leaf: int) -> torch.Tensor | None:
        return self.tensor(self.tape.leaf_total(leaf))

    def after(self, leaf: int) -> torch.Tensor | None:
        return self.tensor(self.tape.leaf_after(leaf))

    def ops(self) -> list[str]:
        return [self.graph.op(self.tape.node_at(step)) for step in range(1, self.tape.ran + 1)]


def explored(roots: Any, seeds: Any = None, inputs: Sequence[Any] = (), **options: Any) -> Pass:
    roots = [roots] if isinstance(roots, torch.Tensor) else list(roots)
    if seeds is None:
        seeds = [torch.ones_like(root) for root in roots]
    elif isinstance(seeds, torch.Tensor):
        seeds = [seeds]
    captured = capture(roots, inputs)
    tape, held = explore(captured, seeds, **options)
    finder(captured).after(tape)
    return Pass(captured, tape, held)


def recorded(root: torch.Tensor, seed: torch.Tensor | None = None, inputs: Sequence[Any] = (), **options: Any) -> Pass:
    """Records a real backward call."""
    captured = capture([root], inputs)
    found = finder(captured)
    found.before(freeing=True)
    watch = Recorded(captured, [torch.ones_like(root) if seed is None else seed], create_graph=options.get("create_graph", False))
    error = None
    with watch:
        try:
            root.backward(seed, inputs=list(inputs) or None, **options)
        except Exception as raised:
            error = raised
    tape, held = watch.finish(error)
    found.after(tape)
    return Pass(captured, tape, held)


def finder(captured: Captured, witnesses: Witnesses | None = None) -> PassFinder:
    """Finds the facts of passes over this graph, for whoever calls from a test."""
    subject = Subject(captured, graph_columns(captured), [], sys._getframe(2))
    return PassFinder(captured, lambda: subject, witnesses)
