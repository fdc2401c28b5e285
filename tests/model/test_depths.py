"""Folding everything by depth, and modules that run in several stretches of steps."""

from __future__ import annotations

import graphs

from gradscope.model.folds import Folds
from gradscope.model.rows import Rows
from gradscope.session.stepping import Walk


def labels(walk: Walk) -> list[str]:
    return ["  " * walk.rows.depth(row) + walk.rows.label(row) for row in range(1, len(walk.rows))]


def test_a_transformer_level_by_level() -> None:
    graph, tape = graphs.gpt_like()
    walk = Walk(graph, tape, 30)
    while walk.fold_depth(-1) != "all is folded":
        pass
    assert labels(walk) == [
        "cross_entropy",
        "lm_head Linear +1",
        "ln_f LayerNorm +2",
        "h.5…h.0 Block ×6 +72",
        "AddBackward0",
        "wpe wte Embedding ×2 +2",
    ]
    assert walk.fold_depth(1) == "open to depth 1"
    assert labels(walk)[3:10] == [
        *("h.5 Block", "  AddBackward0", "  mlp +4", "  ln_2 LayerNorm +2", "  AddBackward0", "  attn Attention +4"),
        "  ln_1 LayerNorm +2",
    ]
    said = ""
    while (last := walk.fold_depth(1)) != "all is unfolded":
        said = last
    assert said == "all unfolded"
    assert len(walk.rows) == tape.steps + 1
    walk.fold_depth(-1)
    assert walk.folds.outline


def test_the_default_is_one_of_the_levels() -> None:
    graph, tape = graphs.gpt_like()
    folds = Folds.default(graph, tape, 30)
    less = folds.by_depth(graph, tape, -1)
    assert less is not None
    assert less.by_depth(graph, tape, 1) == folds
    assert folds.depth == less.depth + 1


def test_without_modules_calls_and_leaves_fold() -> None:
    walk = Walk(*graphs.two_outputs())
    walk.fold_depth(-1)
    assert labels(walk) == ["AddBackward0", "SinBackward0", "MulBackward0 +1"]
    assert walk.fold_depth(-1) == "all is folded"
    assert walk.fold_depth(1) == "all unfolded"
    assert len(walk.rows) == 5


def test_the_selection_stays_on_its_step() -> None:
    graph, tape = graphs.gpt_like()
    walk = Walk(graph, tape, 30)
    walk.to_step(60)
    for change in (1, 1, 1, -1, -1, -1, -1):
        walk.fold_depth(change)
        assert walk.selection == walk.rows.row_of_step(60)
    assert walk.playhead == 60


def shared_norm() -> graphs.Drawing:
    """out = head(norm(body(norm(x)))): one module runs twice, with another between."""
    drawing = graphs.Drawing()
    x, weight = drawing.leaf("x"), drawing.leaf("norm.weight")
    for line, module in ((3, "norm"), (4, "body"), (3, "norm"), (5, "head")):
        for op in ("MulBackward0", "SinBackward0"):
            origin = drawing.origin("/home/ada/net.py", line, module=module, module_type=module.capitalize())
            node = drawing.node(op, origin=origin)
            drawing.edge(node, x)
            x = node
            if module == "norm" and op == "MulBackward0":
                drawing.edge(node, weight)
    drawing.root(x)
    return drawing


def test_a_module_that_runs_twice_says_which_time_a_row_is() -> None:
    drawing = shared_norm()
    graph = drawing.graph()
    rows = Rows.build(graph, drawing.tape(graph, [(1.0,)]), Folds(outline=True, leaves=True))
    assert [(rows.first(row), rows.last(row), rows.label(row)) for row in range(1, len(rows))] == [
        (1, 2, "head Head"),
        (3, 4, "norm Norm (1 of 2)"),
        (5, 6, "body Body"),
        (7, 10, "norm Norm (2 of 2) +2"),
    ]


def test_a_cell_that_runs_in_every_round_is_rolled_under_its_own_name() -> None:
    drawing = graphs.Drawing()
    x = drawing.leaf("x")
    origin = drawing.origin("/home/ada/net.py", 3, module="cell", module_type="Cell")
    between = drawing.origin("/home/ada/net.py", 9)
    for _ in range(6):
        for op, made in (("TanhBackward0", origin), ("CatBackward0", between)):
            node = drawing.node(op, origin=made)
            drawing.edge(node, x)
            x = node
    drawing.root(x)
    graph = drawing.graph()
    rows = Rows.build(graph, drawing.tape(graph, [(1.0,)]), Folds(outline=True, leaves=True))
    assert [rows.label(row) for row in range(1, len(rows))] == ["Cat Cell ×6 +1"]
