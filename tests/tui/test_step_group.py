"""A folded group is one node: what comes into it, what goes out of it."""

from __future__ import annotations

import graphs
from pane_app import PaneApp

from gradscope.model.rows import Folds, Rows
from gradscope.session.view import State, View
from gradscope.tui.widgets import node_page


def gpt(label: str, playhead: str) -> View:
    graph, tape = graphs.gpt_like()
    rows = Rows.build(graph, tape, Folds.default(graph, tape, 30))
    row = next(row for row in range(len(rows)) if rows.label(row).startswith(label))
    step = {"before": rows.first(row) - 1, "inside": rows.first(row), "after": rows.last(row)}[playhead]
    return View(State.STOPPED, "a.py", graph=graph, tape=tape, rows=rows, playhead=step, selection=row)


def page(view: View) -> list[str]:
    return [line.plain for line in node_page.write(view, 51)]


def test_module_after_it_has_run() -> None:
    view = gpt("lm_head", "after")
    assert node_page.title(view) == "lm_head Linear +1   steps 4-8"
    assert page(view) == [
        "arrives  float32 [8,64,384]  ‖·‖ 443.4  max 1.000",
        "  min 1.000  mean 1.000  0: 0  NaN: 0  inf: 0",
        "  from View, step 3",
        "sends    → ln_f             ‖·‖ 443.4     ×1",
        "         → lm_head.weight   ‖·‖ 158.0     1 of 1",
    ]


def test_module_while_the_playhead_is_in_it() -> None:
    lines = page(gpt("lm_head", "inside"))
    assert lines[0] == "● step 4 of 4-8"
    assert not any("sends" in line for line in lines)


def test_module_before_it_runs_shows_no_values() -> None:
    assert page(gpt("lm_head", "before")) == ["○ not run yet   steps 4-8"]


def test_repeated_blocks() -> None:
    view = gpt("h.4…h.0", "after")
    assert node_page.title(view) == "h.4…h.0 Block ×5 +60   steps 55-269"
    lines = page(view)
    assert any(line.endswith("1 of 1") for line in lines)
    assert any("more" in line for line in lines)


def folded(drawing: graphs.Drawing, label: str, folds: Folds | None = None) -> list[str]:
    """The page of a group of a hand-made graph, after it has run."""
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0,)])
    rows = Rows.build(graph, tape, folds or Folds(outline=True, leaves=True))
    row = next(row for row in range(len(rows)) if rows.label(row).startswith(label))
    view = View(State.STOPPED, "a.py", graph=graph, tape=tape, rows=rows, playhead=rows.last(row), selection=row)
    return page(view)


def words(lines: list[str]) -> list[str]:
    """The lines without their columns."""
    return [" ".join(line.split()) for line in lines]


def in_module(drawing: graphs.Drawing, op: str, module: str, *targets: tuple[int, float]) -> int:
    origin = drawing.origin("/home/ada/net.py", 3, module=module, module_type=module.capitalize())
    node = drawing.node(op, origin=origin)
    for target, factor in targets:
        drawing.edge(node, target, (factor,))
    return node


def test_where_it_comes_from_is_named_with_its_module() -> None:
    drawing = graphs.Drawing()
    inner = in_module(drawing, "SinBackward0", "body", (drawing.leaf("x"), 3.0))
    inner = in_module(drawing, "ExpBackward0", "body", (inner, 2.0))
    drawing.root(in_module(drawing, "SumBackward0", "head", (in_module(drawing, "MulBackward0", "head", (inner, 0.5)), 1.0)))
    assert words(folded(drawing, "body")) == ["[0]", "arrives 0.5000 from head Mul, step 2", "sends → x 3.0000 1 of 1"]


def test_what_comes_from_outside_is_told_apart_from_what_the_group_sends_itself() -> None:
    """x gathers from the skip connection outside and from the branch inside the same module."""
    drawing = graphs.Drawing()
    last = in_module(drawing, "SinBackward0", "body", (drawing.leaf("x"), 1.0))
    branch = in_module(drawing, "ExpBackward0", "body", (last, 2.0))
    drawing.root(in_module(drawing, "AddBackward0", "head", (branch, 1.0), (last, 5.0)))
    assert words(folded(drawing, "body")) == [
        "[0]",
        "arrives Exp 1.0000 from head Add, step 1",
        "arrives Sin 5.0000 from head Add, step 1, a part",
        "sends → x 7.0000 1 of 1",
    ]


def test_where_several_arrive_the_gain_is_of_all() -> None:
    drawing = graphs.Drawing()
    below = drawing.node("CosBackward0")
    drawing.edge(below, drawing.leaf("x"))
    left = in_module(drawing, "SinBackward0", "body", (below, 2.0))
    right = in_module(drawing, "ExpBackward0", "body", (below, 2.0))
    drawing.root(in_module(drawing, "AddBackward0", "head", (left, 3.0), (right, 4.0)))
    assert words(folded(drawing, "body")) == [
        "[0]",
        "arrives Exp 4.0000 from head Add, step 1",
        "arrives Sin 3.0000 from head Add, step 1",
        "sends → Cos 8.0000",
        "→ Cos 6.0000",
        "gain ×2 all that goes on, to all that arrives",
    ]


def test_of_many_parameters_the_largest_are_shown() -> None:
    drawing = graphs.Drawing()
    leaves = [drawing.leaf(f"w{number:02}") for number in range(20)]
    inner = in_module(drawing, "CatBackward0", "body", *((leaf, 1.0 + number) for number, leaf in enumerate(leaves)))
    drawing.root(in_module(drawing, "SumBackward0", "head", (in_module(drawing, "SinBackward0", "body", (inner, 1.0)), 1.0)))
    lines = words(folded(drawing, "body"))
    assert lines[2] == "sends → w08 9.0000 1 of 1"
    assert [line.split()[1] for line in lines[3:14]] == [f"w{number:02}" for number in range(9, 20)]
    assert lines[14:] == ["… 8 more, smaller"]


def test_a_module_that_runs_twice_says_so() -> None:
    drawing = graphs.Drawing()
    x = drawing.leaf("x")
    for module in ("norm", "body", "norm"):
        x = in_module(drawing, "SinBackward0", module, (x, 2.0))
        x = in_module(drawing, "MulBackward0", module, (x, 1.0))
    drawing.root(x)
    assert folded(drawing, "norm")[0] == "steps 1-2 are stretch 1 of 2 of this module: each"


def test_every_row_of_a_folded_tape_can_be_shown() -> None:
    graph, tape = graphs.gpt_like()
    for screen in (10, 30, 1000):
        rows = Rows.build(graph, tape, Folds.default(graph, tape, screen))
        for row in range(len(rows)):
            for step in (0, rows.first(row), rows.last(row), tape.steps):
                view = View(State.STOPPED, "a.py", graph=graph, tape=tape, rows=rows, playhead=step, selection=row)
                assert page(view)
                assert max(map(len, page(view))) <= 51


def test_a_group_of_a_hundred_thousand_steps_is_cut() -> None:
    graph, tape = graphs.chain(30_000)
    rows = Rows.build(graph, tape, Folds.default(graph, tape, 30))
    row = max(range(len(rows)), key=lambda row: rows.last(row) - rows.first(row))
    view = View(State.STOPPED, "a.py", graph=graph, tape=tape, rows=rows, playhead=tape.steps, selection=row)
    assert page(view)


async def test_folded_group_in_the_pane() -> None:
    app = PaneApp(gpt("lm_head", "after"))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert app.column(66)[0].startswith("│─3 lm_head Linear +1   steps 4-8─")
