"""The Step tab says what the pictures say, and says so when it does not know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import graphs
import pytest
from graphs import Drawing
from pane_app import view_of

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Change, Failure, Hook, Mismatch
from gradscope.model.rows import Folds, Rows
from gradscope.model.tape import Tape
from gradscope.protocol.messages import Call, Committed
from gradscope.session.view import State, Stop, View
from gradscope.tui.widgets import node_page

WIDTH = 51
"""of the pane at 120 columns"""


def page(view: View, width: int = WIDTH) -> list[str]:
    return [line.plain for line in node_page.write(view, width)]


def test_step_two_is_the_picture() -> None:
    view = view_of(*graphs.two_outputs(), playhead=2, selection=2)
    assert node_page.title(view) == "SinBackward0   b = x.sin()   step 2"
    assert page(view) == [
        "                   [0]       [1]",
        "arrives  ∂b     1.0000   10.0000   from Add, step 1",
        "× local         0.5403   -0.4161   cos(x)",
        "= sends  → x    0.5403   -4.1615   ×0.42 in norm",
        "",
        "x.grad  1 of 3 contributions",
        "  was             None",
        "+ Sin           0.5403   -4.1615   step 2  ◀ now",
        "· Mul  self                        step 3",
        "· Mul  other                       step 3",
        "= so far        0.5403   -4.1615",
    ]


def test_edited_seed_shows_the_difference() -> None:
    graph, first = graphs.two_outputs()
    tape = graphs.two_outputs_drawing().tape(graph, [(1.0, 1.0)], number=2)
    lines = page(view_of(graph, tape, 2, 2, against=first, edited=True))
    assert lines[1:4] == [
        "arrives  ∂b     1.0000    1.0000   Δ 0 -9.0000",
        "× local         0.5403   -0.4161   cos(x)",
        "= sends  → x    0.5403   -0.4161   Δ 0 3.7453",
    ]


def test_leaf_at_the_end_is_complete() -> None:
    lines = page(view_of(*graphs.two_outputs(), playhead=4, selection=4))
    assert lines[1] == "x.grad  3 of 3 contributions"
    assert lines[-3] == "= total         2.5403   35.8385"
    assert lines[-1] == "tensor float32 [2] cpu"
    assert not any("now" in line for line in lines)


def test_accumulation_into_an_older_grad() -> None:
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 10.0)], before={"x": (100.0, 200.0)})
    lines = page(view_of(graph, tape, 4, 4))
    assert "  was          100.0000   200.0000" in lines
    assert "  becomes      102.5403   235.8385   was + total" in lines


def changed_leaf(*hooks: float) -> tuple[BackwardGraph, Tape, Tape]:
    """A what-if makes (1, 1) of what x gets; hooks before it multiply."""
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    first = drawing.tape(graph, [(1.0, 10.0)])
    halved = drawing.tape(
        graph, [(1.0, 10.0)], hooks={3: lambda value: tuple(part * hooks[0] for part in value)} if hooks else {}
    )
    tape = drawing.tape(graph, [(1.0, 10.0)], number=2, hooks={3: lambda value: (1.0, 1.0)})
    would = tape.to(3)[-1].so_far
    if hooks:
        would = tape.contribution_tensor[0]  # another one
    tape.columns.hook_changed = []
    tape.columns.changes = [Change(3, 0, text="clip(1)", before=would)]
    return graph, halved if hooks else first, tape


def test_a_leaf_with_a_what_if_and_no_hooks() -> None:
    graph, first, tape = changed_leaf()
    lines = page(view_of(graph, tape, 4, 4, against=first))
    assert lines[-4:-1] == [
        "  instead of    2.5403   35.8385 x clip(1)",
        "= total         1.0000    1.0000 Δ -1.5403 -34.8385",
        "",
    ]
    assert not any("hooks" in line for line in lines)


def test_a_leaf_with_a_hook_and_a_what_if() -> None:
    graph, _, tape = changed_leaf(0.5)
    lines = page(view_of(graph, tape, 4, 4))
    assert lines[-5:-1] == [
        "= sum           2.5403   35.8385   before hooks",
        "  instead of    1.0000   10.0000   x clip(1)",
        "= total         1.0000    1.0000",
        "",
    ]


def test_a_leaf_with_a_hook() -> None:
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 10.0)], hooks={3: lambda value: (1.0, 2.0)})
    lines = page(view_of(graph, tape, 4, 4))
    place = lines.index("= sum           2.5403   35.8385   before hooks")
    assert lines[place + 1] == "= total         1.0000    2.0000"


def test_a_leaf_with_hooks_that_the_exploring_pass_does_not_run() -> None:
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    graph.columns.hooks = [Hook(3, -1, "pre", "triple"), Hook(3, 0, "tensor", "look")]
    tape = drawing.tape(graph, [(1.0, 10.0)])
    said = " ".join(" ".join(page(view_of(graph, tape, 4, 4))).split())
    assert "then triple runs, in your script's own call only: .grad may become another" in said
    graph.columns.hooks.append(Hook(3, 0, "accumulate", "halve"))
    graph.__dict__.pop("_hooks_by_node", None)
    assert "then 2 hooks run, in your script's" in " ".join(" ".join(page(view_of(graph, tape, 4, 4))).split())
    tape.columns.kind = "committed"
    assert "own call only" not in " ".join(page(view_of(graph, tape, 4, 4)))


def test_pending_node_shows_no_values() -> None:
    lines = page(view_of(*graphs.two_outputs(), playhead=0, selection=3))
    assert lines == ["○ not run yet   step 3", "", "∂a  0 of 1 contribution", "· Add                    step 1"]


def test_partial_node_shows_what_has_come() -> None:
    lines = page(view_of(*graphs.two_outputs(), playhead=2, selection=3))
    assert lines[-1] == "+ Add           1.0000   10.0000   step 1"


def test_seed_row() -> None:
    lines = page(view_of(*graphs.two_outputs(), playhead=2))
    assert lines[1] == "seed  J        1.0000  10.0000  given by the script"
    assert "  → AddBackward0   step 1" in lines
    assert lines[-1].startswith("sums ✓")


def test_several_slots_and_undefined_gradients() -> None:
    drawing = Drawing()
    op = drawing.node("LinalgBackward0", (2,))
    source = drawing.node("MulBackward0", (2,))
    drawing.edge(source, op, (2.0, 2.0), input_nr=0)
    drawing.edge(source, op, None, input_nr=1)
    drawing.edge(op, drawing.leaf("w", (2,)), lambda value: value)
    drawing.root(source, "loss")
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 2.0)])
    lines = page(view_of(graph, tape, 2, 2))
    assert lines[1] == "arrives  slot 0  2.0000  4.0000 from Mul, step 1"
    assert any(line.startswith("arrives  slot 1  ⟂ none") for line in lines)
    assert any("undefined: counts as zero" in line for line in lines)
    sent = page(view_of(graph, tape, 1, 1))
    assert any("⟂ none" in line for line in sent)


def big(seed: Sequence[float] = (1e-5, -3e-4)) -> tuple[BackwardGraph, Tape]:
    drawing = Drawing()
    op = drawing.node("SoftmaxBackward0", (8, 64, 384))
    drawing.edge(op, drawing.leaf("w", (8, 64, 384)), lambda value: tuple(v / 2 for v in value))
    drawing.root(op, "out")
    graph = drawing.graph()
    return graph, drawing.tape(graph, [tuple(seed)])


def test_big_tensor_is_summarised() -> None:
    view = view_of(*big(), playhead=2, selection=1)
    lines = page(view, 60)
    assert lines[0] == "arrives  float32 [8,64,384]  ‖·‖ 9.4e-02  max 1.0e-05"
    assert lines[1] == "  min -3e-04  mean -1e-04  0: 0  NaN: 0  inf: 0"
    assert "sends    → w   ‖·‖ 4.7e-02   ×0.5" in lines
    assert node_page.big_tensor(view, 64) == view.tape.arrived_at(1)  # type: ignore[union-attr]


def test_nan_in_a_big_tensor_is_counted() -> None:
    lines = page(view_of(*big((math.nan, 1.0)), playhead=2, selection=1))
    assert "NaN: 98304" in lines[1]


def test_small_tensor_needs_no_grid() -> None:
    assert node_page.big_tensor(view_of(*graphs.two_outputs(), playhead=2, selection=2), 64) == -1


def halved(size: int) -> View:
    drawing = Drawing()
    op = drawing.node("SinBackward0", (size,))
    drawing.edge(op, drawing.leaf("w", (size,)), tuple([0.5] * size))
    drawing.root(op, "out")
    graph = drawing.graph()
    return view_of(graph, drawing.tape(graph, [tuple(map(float, range(size)))]), 2, 1)


def test_elements_that_do_not_fit_become_norms() -> None:
    view = halved(16)
    assert page(view)[0].startswith("arrives  float32 [16]  ‖·‖ 35.21")
    assert node_page.big_tensor(view, 15) >= 0
    assert page(view, 160)[0].split() == [f"[{i}]" for i in range(16)]


def test_elements_lose_decimals_before_they_go_on_in_a_second_line() -> None:
    assert page(halved(5))[:2] == [
        "                 [0]    [1]    [2]    [3]    [4]",
        "arrives  ∂out      0  1.000  2.000  3.000  4.000",
    ]
    assert page(halved(6))[:7] == [
        "                  [0]     [1]     [2]",
        "                  [3]     [4]     [5]",
        "arrives  ∂out       0  1.0000  2.0000",
        "               3.0000  4.0000  5.0000 from seed",
        "× local        0.5000  0.5000  0.5000",
        "               0.5000  0.5000  0.5000",
        "= sends  → w        0  0.5000  1.0000",
    ]


def test_only_the_largest_tensors_of_a_page_become_norms() -> None:
    drawing = Drawing()
    op = drawing.node("AddmmBackward0", (2,))
    drawing.edge(op, drawing.leaf("weight", (40,)), lambda value: (value[0],) * 40)
    drawing.edge(op, drawing.leaf("bias", (2,)), (1.0, 1.0))
    drawing.root(op, "out")
    graph = drawing.graph()
    lines = page(view_of(graph, drawing.tape(graph, [(3.0, 4.0)]), 2, 1))
    assert lines[1].split()[:4] == ["arrives", "∂out", "3.0000", "4.0000"]
    assert lines[2].split()[:5] == ["sends", "→", "weight", "‖·‖", "18.97"]
    assert lines[4].split()[:5] == ["=", "sends", "→", "bias", "3.0000"]


def test_the_gradients_of_autograd_grad_are_returned() -> None:
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 10.0)], before={"x": (22.0, 23.0)})
    stop = Stop(Call(1, "grad", "a.py", 9, "<module>", "torch.autograd.grad(J, x)"), "call", graph=graph, passes=[tape])
    lines = page(view_of(graph, tape, 4, 4, stop=stop))
    assert lines[1] == "returned for x  3 of 3 contributions"
    assert lines[-3] == "= total         2.5403   35.8385"
    assert not any(word in line for line in lines for word in (".grad", "was", "becomes"))
    assert "returned for x  1 of 3 contributions" in page(view_of(graph, tape, 2, 2, stop=stop))


def test_a_leaf_that_the_call_does_not_name_has_no_grad_to_become() -> None:
    drawing = graphs.two_outputs_drawing()
    drawing.leaves[0] = replace(drawing.leaves[0], target=False)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 10.0)], before={"x": (22.0, 23.0)})
    lines = page(view_of(graph, tape, 4, 4))
    assert lines[1] == "∂x  3 of 3 contributions"
    assert not any("becomes" in line for line in lines)


def test_a_single_contribution_that_was_just_written_has_no_heading() -> None:
    lines = page(view_of(*graphs.two_outputs(), playhead=1, selection=1))
    assert lines[-1].startswith("= sends  → b") or lines[-1].startswith("= sends  → a")
    assert not any("contribution" in line for line in lines)


@pytest.mark.parametrize(
    ("exact", "line"),
    [
        ("true", "exact ✓  the call made each .grad what this says"),
        ("unchecked", "exact unchecked: hooks write into .grad themselves"),
        ("false", "exact ✗: hooks write into .grad themselves"),
    ],
)
def test_the_seed_row_says_why_something_is_unchecked(exact: str, line: str) -> None:
    graph, tape = graphs.two_outputs()
    stop = Stop(Call(1, "backward", "a.py", 9, "<module>", "J.backward()"), "call", graph=graph, passes=[tape])
    stop.committed = Committed(1, exact, "hooks write into .grad themselves")
    lines = page(view_of(graph, tape, stop=stop))
    assert "sums ✓  every sum was added again: the same bits" in lines
    assert line in lines


def test_long_reasons_go_on_in_further_lines() -> None:
    graph, tape = graphs.two_outputs()
    stop = Stop(Call(1, "grad", "a.py", 9, "<module>", "grad(J, x)"), "call", graph=graph, passes=[tape])
    stop.committed = Committed(1, "unchecked", "autograd.grad hands its gradients to the script and leaves .grad alone")
    lines = page(view_of(graph, tape, stop=stop))
    assert lines[-2:] == [
        "exact unchecked: autograd.grad hands its gradients",
        "  to the script and leaves .grad alone",
    ]


def test_hook_failure_mismatch_and_foreign_python_are_said() -> None:
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    tape = drawing.tape(
        graph,
        [(1.0, 10.0)],
        hooks={1: lambda value: tuple(2 * v for v in value)},
        mismatches=[Mismatch(1, 0, "sum differs in 1 element")],
    )
    graph.columns.foreign[1] = "hook clip (a.py:3)"
    tape.columns.failure = Failure(1, "RuntimeError", "boom", "")
    text = "\n".join(page(view_of(graph, tape, 4, 2)))
    assert "changed by a hook" in text
    assert "≠ sum differs in 1 element" in text
    assert "✗ the pass ends here: RuntimeError: boom" in text
    assert "runs Python of yours: hook clip (a.py:3)" in text


def test_many_contributions_are_cut() -> None:
    drawing = Drawing()
    leaf = drawing.leaf("w", (2,))
    op = drawing.node("AddBackward0", (2,))
    for _ in range(40):
        drawing.edge(op, leaf, (1.0, 1.0))
    drawing.root(op, "loss")
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 2.0)])
    done = page(view_of(graph, tape, 2, 2))
    assert "  … 35 earlier" in done
    assert "w.grad  40 of 40 contributions" in done
    assert "  … 37 more to come" in page(view_of(graph, tape, 0, 2))


@pytest.mark.parametrize("state", list(State))
def test_without_a_tape_the_state_is_said(state: State) -> None:
    assert page(View(state, "a.py")) == [node_page.WAITING[state.value]]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("width", [20, 31, 51, 62])
def test_random_graphs_never_overflow_the_pane(seed: int, width: int) -> None:
    drawing = graphs.random_drawing(seed)
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0 + root,) for root in range(len(graph.roots))])
    rows = Rows.build(graph, tape, Folds())
    for selection in range(len(rows)):
        for playhead in (0, tape.steps // 2, tape.steps):
            view = View(State.STOPPED, "a.py", graph=graph, tape=tape, rows=rows, playhead=playhead, selection=selection)
            lines = page(view, width)
            assert lines
            assert max(map(len, lines)) <= width
