"""Calls, Functions, hooks, views, modules: each row of the table that is about them."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from harness import Row, check, outcome
from played import calls_in, gradscope
from rows import rows_of
from rows_calls import leaf
from rows_hooks import only_once

from gradscope.debuggee.foreign import TELLS_HOOKS
from gradscope.model.tape import Tape
from gradscope.protocol import messages as m

MODULES = ("rows_calls", "rows_functions", "rows_hooks", "rows_views", "rows_training")


@pytest.mark.parametrize("row", rows_of(*MODULES), ids=lambda row: row.name)
def test_row(row: Row) -> None:
    check(row)


def test_a_backward_that_cannot_be_repeated_says_so() -> None:
    """Tried out all the same, it fails from the second time on: the screen says why, and what to do."""
    if not TELLS_HOOKS:
        return  # this torch does not show unpack hooks: nothing is tried out
    with gradscope(stop_at="first") as link:
        raised = outcome(only_once).raised
    (seen,) = calls_in(link.reports)
    assert [tape.exact for tape in seen.tapes] == ["true", "unchecked", "unchecked"]
    assert [len(tape.notes) for tape in seen.tapes] == [0, 1, 1]
    assert "--once" in seen.tapes[1].notes[0]
    assert raised[0] == "FileNotFoundError"
    assert seen.committed is not None
    assert "the call raised FileNotFoundError, and the pass that was explored before it did not" in seen.committed.reason


def test_a_batched_call_takes_a_seed_of_ones_own() -> None:
    """The Jacobian of x² has rows [2, 0] and [0, 4]; the seed [1, 10] gives [2, 40], though the call's own is not explored."""
    asked = [m.Explore(5, [m.SeedText("1,10")]), m.Explore(6, [m.SeedText("")])]
    x = leaf()
    with gradscope(more=asked, stop_at="first") as link:
        (rows,) = torch.autograd.grad(x * x, x, torch.eye(2), is_grads_batched=True)
    (seen,) = calls_in(link.reports)
    assert seen.graph is not None
    tape = Tape(seen.tapes[-1], seen.graph)
    summary = tape.tensors.summary(tape.leaf_total(0))
    assert rows.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert summary.values == (2.0, 40.0)
    assert "this root has no seed" in seen.refused[-1].what


def test_what_makes_hook_tables_is_still_a_class() -> None:
    """Torch asks of a value whether it is one, by the name that is ours meanwhile."""
    with gradscope(stop_at="never"):
        name = torch._tensor.OrderedDict
        assert isinstance(name([(1, 2)]), OrderedDict)
        assert isinstance(OrderedDict(), name)
        assert not isinstance({}, name)
