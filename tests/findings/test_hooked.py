"""Findings of hooks that change what a node sends, or a leaf's `.grad`; and of none where nothing was changed."""

from __future__ import annotations

import math

import graphs
import pytest

from gradscope.findings import diagnose
from gradscope.findings.finding import Finding, Related
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Hook, HookEffect
from gradscope.model.places import UNKNOWN, CodePlace
from gradscope.model.tape import Tape

FILE = "/home/ada/bug.py"
PLACE = CodePlace("/home/ada/hooks.py", 3, "clip")


def drawn(local: float = 3.0) -> tuple[BackwardGraph, Tape, int, int]:
    """loss -> Mul -> w, and the tape; Mul sends `local` times 1."""
    drawing = graphs.Drawing()
    leaf = drawing.leaf("w", (2,), owner="SGD[0]")
    node = drawing.node("MulBackward0", (2,), drawing.origin(FILE, 1, "y = w * 3"))
    drawing.edge(node, leaf, (local, local))
    drawing.root(node)
    graph = drawing.graph()
    return graph, drawing.tape(graph, [(1.0, 1.0)]), node, leaf


def told(kind: str, *, leaf: bool = False, local: float = 3.0, swapped: bool = False, none: bool = False) -> list[Finding]:
    """One hook of this kind made what was sent (3, 3) of what had arrived (1, 1)."""
    graph, tape, node, end = drawn(local)
    graph.columns.hooks = [Hook(end if leaf else node, UNKNOWN, kind, "clip", PLACE)]
    arrived, sent = tape.arrived(node), tape.contribution(len(tape) - 1).tensor
    before, after = (sent, arrived) if swapped else (arrived, sent)
    step = tape.step_of(end if leaf else node)
    tape.columns.hook_effects = [HookEffect(0, step, before, -1 if none else after)]
    return [one for one in diagnose(graph, tape) if one.kind in ("hook-changed", "nonfinite-origin", "zero-gradient")]


@pytest.mark.parametrize(
    ("kind", "who"), [("module", "a module's backward hook"), ("module_pre", "a module's backward pre-hook"), ("post", "a hook")]
)
def test_a_hook_after_a_node_is_told(kind: str, who: str) -> None:
    (found,) = told(kind)
    what = "MulBackward0 at line 1 (y = w * 3)"
    assert found.message == f"{who} changes what {what} sends: norm 1.41 before it, 4.24 after"
    assert (found.kind, found.severity, found.op, found.line) == ("hook-changed", "info", "MulBackward0", 1)
    assert found.hint == "clip (/home/ada/hooks.py:3) runs in each backward pass"
    assert found.related == (Related("/home/ada/hooks.py", 3, "the hook"),)


def test_a_hook_that_drops_what_is_sent() -> None:
    (found,) = told("post", none=True)
    assert found.message.endswith("sends: norm 1.41 before it, none after")


def test_several_hooks_of_one_node_are_one_finding() -> None:
    graph, tape, node, _ = drawn()
    graph.columns.hooks = [Hook(node, UNKNOWN, "module", name, PLACE) for name in ("clip", "scale", "look")]
    arrived, sent = tape.arrived(node), tape.contribution(len(tape) - 1).tensor
    tape.columns.hook_effects = [HookEffect(0, 1, arrived, sent), HookEffect(1, 1, sent, tape.seeds[0].tensor)]
    tape.columns.hook_effects.append(HookEffect(2, 1, sent, sent))
    (found,) = diagnose(graph, tape)
    assert found.message.startswith("2 hooks change what MulBackward0 at line 1 (y = w * 3) sends: ")
    assert found.hint == "clip (/home/ada/hooks.py:3), scale (/home/ada/hooks.py:3) run in each backward pass"


def test_a_hook_of_the_accumulated_gradient() -> None:
    (found,) = told("accumulate", leaf=True, swapped=True)
    message = "a hook changes the .grad of the leaf w once the pass has added to it: norm 4.24 before it, 1.41 after"
    assert (found.message, found.leaf) == (message, "w")


def test_an_optimizer_in_the_backward_pass_is_no_change() -> None:
    assert told("accumulate", leaf=True, none=True) == []
    assert [one.kind for one in told("accumulate", leaf=True, local=0.0)] == ["zero-gradient"]


def test_only_the_hooks_that_changed_what_arrives_are_named() -> None:
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 10.0)], hooks={1: lambda value: (value[0] / 2, value[1])})
    graph.columns.foreign[1] = "hook look (/home/ada/a.py:1), hook clip (/home/ada/hooks.py:3)"
    (untold,) = diagnose(graph, tape)
    assert untold.hint == "runs in each backward pass: hook look (/home/ada/a.py:1), hook clip (/home/ada/hooks.py:3)"
    graph.columns.hooks = [Hook(1, 0, "tensor", "look"), Hook(1, 0, "tensor", "clip", PLACE), Hook(1, UNKNOWN, "pre", "last")]
    before, after = tape.to(1)[0].tensor, tape.arrived(1)
    tape.columns.hook_effects = [
        HookEffect(0, 2, before, before),
        HookEffect(1, 2, before, after),
        HookEffect(2, 2, after, after),
    ]
    (found,) = diagnose(graph, tape)
    assert found.message.startswith("a hook changes the gradient that arrives at SinBackward0")
    assert found.hint == "clip (/home/ada/hooks.py:3) runs in each backward pass"
    assert found.related == (Related("/home/ada/hooks.py", 3, "the hook"),)
    tape.columns.hook_effects[2] = HookEffect(2, 2, after, before)
    (both,) = diagnose(graph, tape)
    assert both.message.startswith("2 hooks change the gradient that arrives at SinBackward0")
    assert both.hint == "clip (/home/ada/hooks.py:3), last run in each backward pass"


def test_what_only_looks_is_not_told() -> None:
    graph, tape, node, _ = drawn()
    graph.columns.hooks = [Hook(node, UNKNOWN, kind, "look") for kind in ("module", "post", "retain", "pre")]
    arrived = tape.arrived(node)
    tape.columns.hook_effects = [HookEffect(hook, 1, arrived, arrived) for hook in range(4)]
    assert diagnose(graph, tape) == []


def test_nan_and_zeros_of_a_hook_are_not_the_nodes() -> None:
    nan, changed = told("post", local=math.nan)
    assert nan.message == "a hook makes NaN in 2 of 2 elements in what MulBackward0 at line 1 (y = w * 3) sends"
    assert nan.hint == "look at the hook clip (/home/ada/hooks.py:3)"
    assert changed.kind == "hook-changed"
    zero, _ = told("module", local=0.0)
    assert zero.message.startswith(
        "a hook, clip (/home/ada/hooks.py:3), makes zero of what MulBackward0 at line 1 (y = w * 3) sends; "
    )
    assert zero.hint == "look at the hook"


def test_a_hook_that_hides_nan() -> None:
    hidden = next(one for one in told("post", local=math.nan, swapped=True) if one.kind == "hook-changed")
    assert hidden.severity == "warning"
    assert hidden.message.startswith(
        "clip (/home/ada/hooks.py:3) hides NaN in 2 of 2 elements in what MulBackward0 at line 1 (y = w * 3) sends"
    )
