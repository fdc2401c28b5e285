"""The Formula tab's page, from recordings of real torch and from views made by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from derivative_tables import table
from graphs import Drawing
from views import two_outputs_view, view_of

from gradscope.debuggee import inspecting
from gradscope.debuggee.capture import capture
from gradscope.debuggee.explore import explore
from gradscope.debuggee.graph_columns import graph_columns
from gradscope.debuggee.saved_tensors import read_saved
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.formulas import Formulas
from gradscope.model.places import CodePlace
from gradscope.model.saved import SavedTable
from gradscope.model.tape import Tape
from gradscope.protocol import messages as m
from gradscope.session.stepping import Walk
from gradscope.session.view import View
from gradscope.tui.widgets.formula_page import write
from gradscope.tui.widgets.jumps import goal_of

FORMULAS = Formulas(table(), "2.13.0")


def seen(root: torch.Tensor, step: int | None = None, **more: Any) -> View:
    """A recorded pass over a real graph, every node looked into."""
    captured = capture([root])
    graph = BackwardGraph(graph_columns(captured))
    tape = Tape(explore(captured, [torch.ones_like(root)])[0], graph)
    walk = Walk(graph, tape, 40)
    walk.to_step(tape.steps if step is None else step)
    asked: Any = SimpleNamespace(captured=captured)
    nodes = [node for node in range(len(graph)) if not graph.is_accumulate(node)]
    inspected = {node: inspecting.answer(asked, None, m.Inspect(0, node)) for node in nodes}
    saved = SavedTable(read_saved(captured))
    return view_of(walk, [tape], **{"saved": saved, "inspected": inspected, "formulas": FORMULAS, **more})


def page(view: View, op: str, width: int = 78) -> list[str]:
    return [line.plain for line in write(view, node_of(view, op), width)]


def node_of(view: View, op: str) -> int:
    graph = view.graph
    assert graph is not None
    return next(node for node in range(len(graph)) if graph.op(node) == op)


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float32, requires_grad=True)


def test_a_formula_with_its_numbers() -> None:
    view = seen((leaf(1, 2) * leaf(3, 5)).sum())
    assert page(view, "MulBackward0") == [
        "  mul(self, other)",
        "  self = leaf 0, other = leaf 1",
        "",
        "∂self = grad * other   → leaf 0 [2]",
        "∂other = grad * self   → leaf 1 [2]",
        "",
        "                   [0]       [1]",
        "grad            1.0000    1.0000   arrives",
        "other           3.0000    5.0000   saved",
        "self            1.0000    2.0000   saved",
        "∂self           3.0000    5.0000   sent → leaf 0",
        "∂other          1.0000    2.0000   sent → leaf 1",
        "",
        "from derivatives.yaml of torch 2.13.0",
    ]


def test_arguments_that_are_no_tensors_are_put_in() -> None:
    lines = page(seen((leaf(1, 2) ** 3).sum()), "PowBackward0")
    assert "∂self = grad * (3 * self²)   → leaf 0 [2]" in lines
    lines = page(seen(torch.ones(2, 3, requires_grad=True).sum(1, keepdim=True).sum()), "SumBackward1")
    assert "∂self = grad.expand(self.shape)   → leaf 0 [2,3]" in lines
    lines = page(seen(torch.ones(2, 3, requires_grad=True).std()), "StdBackward0")
    assert "∂self = grad / result * (self - self.mean()) / (n - correction)" in " ".join(lines)


def test_a_bound_that_was_not_given_is_left_out() -> None:
    lines = page(seen(leaf(-1, 2).clamp(min=0).sum()), "ClampBackward1")
    assert "∂self = where(self >= 0, grad, 0)   → leaf 0 [2]" in lines
    lines = page(seen(leaf(-1, 2).clamp(min=0, max=1.5).sum()), "ClampBackward1")
    assert "∂self = where((self >= 0) & (self <= 1.5), grad, 0)   → leaf 0 [2]" in lines
    lines = page(seen((leaf(-1, 2) / leaf(3, 4)).sum()), "DivBackward0")
    assert "∂self = grad / other   → leaf 0 [2]" in lines


def test_before_a_node_has_run_there_is_nothing_that_arrives() -> None:
    lines = page(seen(leaf(1, 2).sin().sum(), step=1), "SinBackward0")
    assert "∂self = grad * cos(self)   → leaf 0 [2]" in lines
    assert "○ not run yet   step 2" in lines
    assert not any(line.startswith("grad ") for line in lines)
    assert "self            1.0000    2.0000   saved" in lines


def test_big_tensors_have_norms() -> None:
    lines = page(seen(torch.full((10, 10), 2.0, requires_grad=True).exp().sum()), "ExpBackward0")
    assert "grad        ‖·‖ 10.00   [10,10]   arrives" in lines


def test_lines_lead_to_their_targets() -> None:
    view = seen((leaf(1, 2) * leaf(3, 5)).sum())
    lines = write(view, node_of(view, "MulBackward0"), 78)
    goals = {line.plain: goal_of(line) for line in lines if goal_of(line) is not None}
    graph = view.graph
    assert graph is not None
    assert list(goals) == ["∂self = grad * other   → leaf 0 [2]", "∂other = grad * self   → leaf 1 [2]"]
    assert [graph.leaf_at(goal) for goal in goals.values() if isinstance(goal, int)] == [0, 1]


def test_long_formulas_are_wrapped() -> None:
    view = seen(torch.nn.functional.gelu(leaf(1, 2)).var())
    for width in (40, 24):
        lines = write(view, node_of(view, "VarBackward0"), width)
        assert max(line.cell_length for line in lines) <= width
        assert "correction)" in " ".join(line.plain for line in lines)


def test_a_leaf() -> None:
    view = seen(leaf(1, 2).sin().sum())
    assert page(view, "AccumulateGrad")[:2] == ["leaf 0.grad = leaf 0.grad + grad", "  leaf 0.grad counts as 0 where it is None"]
    returned = replace(view, stop=replace(view.stop, call=m.Call(1, "grad", "", 1, "", ""))) if view.stop else view
    assert page(returned, "AccumulateGrad")[0] == "∂leaf 0 = grad   no .grad changes in this call"


def test_the_persons_own_statement_and_names() -> None:
    view = replace(two_outputs_view(step=4), formulas=FORMULAS)
    lines = page(view, "MulBackward0")
    assert lines[0] == "a = x * x"
    assert any("→ x" in line for line in lines)


# ---------------------------------------------------------------- where there is no formula


def custom(sources: dict[str, list[str]]) -> View:
    drawing = Drawing()
    node, weight = drawing.node("MyReluBackward"), drawing.leaf("w")
    drawing.edge(node, weight)
    drawing.root(node)
    graph = drawing.graph()
    graph.columns.backward_code[node] = CodePlace("/home/ada/net.py", 3, "MyRelu.backward", 4)
    walk = Walk(graph, drawing.tape(graph, [(2.0,)]), 40)
    walk.to_step(1)
    return view_of(walk, [walk.tape], sources=sources, formulas=FORMULAS)


def test_a_custom_function_shows_its_backward() -> None:
    text = ["class MyRelu:", "    @staticmethod", "    def backward(ctx, g):", "        return g * 2", "", "x = 1"]
    lines = page(custom({"/home/ada/net.py": text}), "MyReluBackward")
    assert lines[:5] == [
        "  input 0 = w",
        "backward of MyRelu (net.py:3)",
        "",
        "3  def backward(ctx, g):",
        "4      return g * 2",
    ]
    assert "its source is not here: /home/ada/net.py:3" in page(custom({}), "MyReluBackward")


def test_what_is_not_known_is_said() -> None:
    view = seen(leaf(1, 2).sin().sum(), formulas=None)
    assert "torch's derivative table is being read" in " ".join(page(view, "SinBackward0"))
    view = replace(view, formulas=Formulas({}, "2.13.0", "torch's derivative table cannot be read: no torchgen"))
    assert "no formula: torch's derivative table cannot be read: no torchgen" in page(view, "SinBackward0")
    drawing = Drawing()
    drawing.root(drawing.node("CppFunction"))
    graph = drawing.graph()
    walk = Walk(graph, drawing.tape(graph, [(1.0,)]), 40)
    assert "compiled" in page(view_of(walk, [walk.tape], formulas=FORMULAS), "CppFunction")[0]
