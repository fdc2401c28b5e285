"""Pane 5: leaves, findings, output, watch."""

from __future__ import annotations

from dataclasses import replace

import graphs
import pytest
from graphs import Drawing
from pane_app import PaneApp, until, view_of

from gradscope.findings.finding import Finding, Related
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Hook
from gradscope.model.tape import Tape
from gradscope.protocol.messages import Call
from gradscope.session.terminal import Terminal
from gradscope.session.view import State, Stop, View
from gradscope.tui.messages import FindingOpened, InputTyped, NodeWanted, WatchToggled
from gradscope.tui.widgets.leaves import Leaves
from gradscope.tui.widgets.output import Output

WRONG = (
    Finding(
        "nonfinite-origin", "error", "SqrtBackward0 makes the first NaN", "clamp before sqrt", 1, "SqrtBackward0", "/a/net.py", 12
    ),
    Finding("missing-gradient", "warning", "c gets no gradient", leaf="c", related=(Related("/a/net.py", 3, "detached here"),)),
)


def lower_lines(app: PaneApp) -> list[str]:
    lines = app.column(68)
    start = next(i for i, line in enumerate(lines) if line.startswith("Leaves"))
    return lines[start:]


async def test_leaves_as_in_the_picture() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert lower_lines(app)[:3] == [
            "Leaves 1  Findings 0  Output  Watch",
            "leaf    shape  .grad was so far          from",
            "x       [2]    None      0.5403 -4.1615  1/3",
        ]


async def test_leaves_at_the_start_and_the_end() -> None:
    graph, tape = graphs.two_outputs()
    app = PaneApp(view_of(graph, tape, 0))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert lower_lines(app)[2] == "x       [2]    None      ·               0/3"
        app.show(view_of(graph, tape, 4))
        await pilot.pause()
        assert lower_lines(app)[2] == "x       [2]    None      2.5403 35.8385  3/3"


async def test_leaves_that_had_a_grad_say_what_it_becomes() -> None:
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    app = PaneApp(view_of(graph, drawing.tape(graph, [(1.0, 10.0)], before={"x": (1.0, 2.0)}), 4))
    async with app.run_test(size=(140, 36)) as pilot:
        await pilot.pause()
        assert lower_lines(app)[1].split() == ["leaf", "shape", ".grad", "was", "so", "far", "from", "becomes"]
        assert lower_lines(app)[2].split()[-2:] == ["3.5403", "37.8385"]


async def test_small_leaves_show_their_elements_beside_big_ones() -> None:
    drawing = Drawing()
    op = drawing.node("CatBackward0", (46,))
    for name, size in (("a", 2), ("b", 1), ("c", 3), ("weight", 40)):
        drawing.edge(op, drawing.leaf(name, (size,), kind="tensor"), lambda value, size=size: value[:size])
    drawing.root(op, "out")
    graph = drawing.graph()
    app = PaneApp(view_of(graph, drawing.tape(graph, [tuple(0.5 * n for n in range(46))]), 5, 1))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert lower_lines(app)[1:6] == [
            "leaf    shape  was  so far                  from",
            "a       [2]    None 0 0.5000                1/1",
            "b       [1]    None 0                       1/1",
            "c       [3]    None 0 0.5000 1.0000         1/1",
            "weight  [40]   None ‖·‖ 71.66               1/1",
        ]


async def test_leaves_of_autograd_grad_have_what_is_returned() -> None:
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 10.0)], before={"x": (22.0, 23.0)})
    stop = Stop(Call(1, "grad", "a.py", 9, "<module>", "torch.autograd.grad(J, x)"), "call", graph=graph, passes=[tape])
    app = PaneApp(view_of(graph, tape, 4, stop=stop))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert lower_lines(app)[1:3] == ["leaf    shape  returned        from", "x       [2]    2.5403 35.8385  3/3"]


@pytest.mark.parametrize("width", [40, 80, 100, 110, 120, 140, 200])
async def test_no_column_of_the_leaves_is_cut(width: int) -> None:
    drawing = Drawing()
    op = drawing.node("LinearBackward0", (8, 8))
    drawing.edge(op, drawing.leaf("fc1.weight", (16, 16), owner="AdamW[0]"), lambda value: value)
    drawing.root(op)
    graph = drawing.graph()
    app = PaneApp(view_of(graph, drawing.tape(graph, [(3.0, 4.0)], before={"fc1.weight": (1.0, 1.0)}), 2, 1))
    async with app.run_test(size=(width, 24)) as pilot:
        app.lower.add_class("-below")
        await pilot.pause()
        leaves = app.query_one(Leaves)
        for line in (leaves.render_line(0).text, leaves.render_line(1).text):
            assert line.rstrip().endswith(("owner", "AdamW[0]", "from", "1/1"))


def net(leaves: int = 3, op: str = "LinearBackward0") -> tuple[BackwardGraph, Tape]:
    drawing = Drawing()
    root = drawing.node(op, (8, 8))
    previous = root
    for place in range(leaves):
        drawing.edge(previous, drawing.leaf(f"layers.{place}.weight", (16, 16), owner="AdamW[0]"), lambda value: value)
        if place < leaves - 1:
            following = drawing.node("LinearBackward0", (8, 8), sequence=-place)
            drawing.edge(previous, following, lambda value: value)
            previous = following
    drawing.leaf("attn.bias", (16,), reached=False, owner="AdamW[0]")
    drawing.root(root)
    graph = drawing.graph()
    return graph, drawing.tape(graph, [(3.0, 4.0)])


async def test_big_leaves_show_norms_owner_and_what_is_not_used() -> None:
    app = PaneApp(view_of(*net(), playhead=3, selection=1))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert lower_lines(app)[:6] == [
            "Leaves 4  Findings 0  Output  Watch",
            "leaf            shape     ‖grad‖ from  owner",
            "layers.0.weight [16,16]    56.57 1/1   AdamW[0]",
            "layers.1.weight [16,16]    56.57 1/1   AdamW[0]",
            "layers.2.weight [16,16]        · 0/1   AdamW[0]",
            "attn.bias       [16]        None not used, AdamW[0]",
        ]


async def test_a_leaf_says_that_hooks_follow_in_the_scripts_own_call() -> None:
    graph, tape = net()
    node = graph.leaves[0].node
    graph.columns.hooks += [Hook(node, 0, "tensor", "look"), Hook(node, 0, "accumulate", "halve")]
    app = PaneApp(view_of(graph, tape, playhead=3, selection=1))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert lower_lines(app)[2:4] == [
            "layers.0.weight [16,16]    56.57 1/1   then 1 hook",
            "layers.1.weight [16,16]    56.57 1/1   AdamW[0]",
        ]


async def test_a_leaf_that_a_reentrant_checkpoint_may_reach_is_not_called_unused() -> None:
    app = PaneApp(view_of(*net(op="CheckpointFunctionBackward"), playhead=3, selection=1))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert lower_lines(app)[5] == "attn.bias       [16]           ? in a checkpoint?"


async def test_long_names_keep_their_end_and_cost_the_shape() -> None:
    drawing = Drawing()
    op = drawing.node("LinearBackward0", (8, 8))
    name = "model.decoder.layers.11.self_attention.query_projection.weight"
    drawing.edge(op, drawing.leaf(name, (1024, 1024), owner="AdamW[0]"), lambda value: value)
    drawing.root(op)
    graph = drawing.graph()
    app = PaneApp(view_of(graph, drawing.tape(graph, [(3.0,)]), 2, 1))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert lower_lines(app)[1:3] == [
            "leaf                         ‖grad‖ from  owner",
            "…n.query_projection.weight     3072 1/1   AdamW[0]",
        ]


async def test_many_leaves_stay_in_the_order_in_which_the_pass_reaches_them() -> None:
    graph, tape = net(40)
    app = PaneApp(view_of(graph, tape, 0, 1))
    seen: list[list[str]] = []
    async with app.run_test(size=(120, 36)) as pilot:
        for step in (0, 1, 2, tape.steps // 2, tape.steps):
            app.show(view_of(graph, tape, step, 1))
            await pilot.pause()
            rows = [row.split() for row in lower_lines(app)[2:]]
            seen.append([row[0] for row in rows])
            if step >= tape.steps // 2:
                last = max(place for place, leaf in enumerate(graph.reached) if tape.step_of(leaf.node) <= step)
                assert any(row[0] == f"layers.{last}.weight" and "1/1" in row for row in rows), "what is reached comes into sight"
        assert seen[0] == seen[1] == seen[2] == [f"layers.{place}.weight" for place in range(len(seen[0]))]
        for names in seen:
            places = [int(name.split(".")[1]) for name in names if name.startswith("layers")]
            assert places == list(range(places[0], places[0] + len(places)))
        app.lower.focus()
        await pilot.press("home")
        assert "layers.0.weight" in lower_lines(app)[2]
        await pilot.press("end")
        assert lower_lines(app)[-1].startswith("attn.bias")


async def test_a_leaf_with_several_names_shows_them_where_there_is_room() -> None:
    drawing = Drawing()
    op = drawing.node("MulBackward0", (4,))
    aliases = ("model.wte.weight", "lm_head.weight", "model.lm_head.weight")
    drawing.edge(op, drawing.leaf("wte.weight", (16, 16), aliases=aliases), lambda value: value)
    drawing.edge(op, drawing.leaf("bias", (16, 16), aliases=("model.bias",)), lambda value: value)
    drawing.root(op)
    graph = drawing.graph()
    app = PaneApp(view_of(graph, drawing.tape(graph, [(3.0, 4.0)]), 2, 1))
    async with app.run_test(size=(140, 36)) as pilot:
        await pilot.pause()
        text = "\n".join(lower_lines(app))
        assert "wte.weight = lm_head.weight " in text
        assert "bias  " in text
        assert "model." not in text
        await pilot.resize_terminal(100, 36)
        await pilot.pause()
        assert "wte.weight " in app.text()


async def test_enter_on_a_leaf_selects_its_node() -> None:
    graph, tape = net()
    app = PaneApp(view_of(graph, tape, 3, 1, findings=(replace(WRONG[1], leaf="attn.bias"),)))
    async with app.run_test(size=(120, 36)) as pilot:
        app.lower.focus()
        await pilot.press("down", "enter")
        assert app.told == [NodeWanted(graph.leaves[1].node)]
        await pilot.press("end", "enter")
        assert app.told[1:] == [FindingOpened(0)]


async def test_findings_worst_first_with_details() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2, findings=WRONG))
    async with app.run_test(size=(120, 50)) as pilot:
        app.lower.focus()
        app.lower.tab(1)
        await pilot.pause()
        await until(pilot, lambda: lower_lines(app)[1].endswith("net.py:12"))
        lines = lower_lines(app)
        assert lines[0] == "Leaves 1  Findings 2  Output  Watch"
        assert lines[1].startswith("E SqrtBackward0 makes the first NaN")
        assert lines[2].startswith("W c gets no gradient")
        assert lines[3] == "nonfinite-origin  error   SqrtBackward0 at"
        assert "try: clamp before sqrt" in lines
        await pilot.press("j")
        await pilot.pause()
        assert "net.py:3  detached here" in lower_lines(app)
        await pilot.press("enter")
        assert app.told == [FindingOpened(1)]


async def test_watches_at_the_playhead() -> None:
    graph, tape = graphs.two_outputs()
    app = PaneApp(view_of(graph, tape, 1, 1, watches=(1, 3)))
    async with app.run_test(size=(120, 36)) as pilot:
        app.lower.focus()
        app.lower.open_tab("watch")
        await pilot.pause()
        assert lower_lines(app)[0] == "Leaves 1  Findings 0  Output  Watch 2"
        assert lower_lines(app)[1].split() == ["∂b", "b", "=", "x.sin()", "·"]
        app.show(view_of(graph, tape, 2, 1, watches=(1, 3)))
        await pilot.pause()
        assert lower_lines(app)[1].split() == ["∂b", "b", "=", "x.sin()", "1.0000", "10.0000"]
        assert lower_lines(app)[2].split() == ["x.grad", "1", "of", "3", "in", "0.5403", "-4.1615"]
        await pilot.press("down", "delete", "enter")
        assert app.told == [WatchToggled(3), NodeWanted(3)]


async def test_tabs_turn_and_are_clicked() -> None:
    app = PaneApp(view_of(*graphs.two_outputs(), playhead=2, selection=2))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        for name in ("findings", "output", "watch", "leaves"):
            app.lower.tab(1)
            assert app.lower.open_name == name
        app.lower.tab(-1)
        assert app.lower.open_name == "watch"
        await pilot.click("LowerPane TabBar", offset=(12, 0))
        assert app.lower.open_name == "findings"


async def test_output_has_the_scripts_colours_and_takes_keys() -> None:
    terminal = Terminal(10, 40)
    terminal.feed(b"plain \x1b[31mred\x1b[0m\r\nname? ")
    while terminal.catch_up():
        pass
    app = PaneApp(View(State.RUNNING, "a.py"))
    async with app.run_test(size=(120, 36)) as pilot:
        app.lower.attach(terminal)
        app.lower.open_tab("output")
        app.lower.focus()
        await pilot.pause()
        assert lower_lines(app)[1:3] == ["plain red", "name?"]
        red = [segment.style for segment in app.query_one(Output).render_line(0) if segment.text == "red"]
        assert [style.color.name for style in red if style is not None and style.color is not None] == ["red"]
        await pilot.press("q")
        assert app.told == []
        await pilot.press("enter", "A", "d", "enter", "up", "ctrl+d")
        assert app.told == [InputTyped(data) for data in (b"A", b"d", b"\r", b"\x1b[A", b"\x04")]
        await pilot.press("escape", "x")
        assert app.focused is app.lower
        assert len(app.told) == 5


async def test_output_follows_its_end() -> None:
    terminal = Terminal(10, 40)
    app = PaneApp(View(State.RUNNING, "a.py"))
    async with app.run_test(size=(120, 36)) as pilot:
        app.lower.attach(terminal)
        app.lower.open_tab("output")
        for number in range(100):
            terminal.feed(f"line {number}\r\n".encode())
        while terminal.catch_up():
            pass
        app.lower.output_came()
        await pilot.pause()
        assert [line for line in lower_lines(app) if line][-1] == "line 99"
        app.lower.focus()
        await pilot.press("home")
        await pilot.pause()
        assert lower_lines(app)[1] == "line 0"
        terminal.feed(b"more\r\n")
        terminal.catch_up()
        app.lower.output_came()
        await pilot.pause()
        assert lower_lines(app)[1] == "line 0"


@pytest.mark.parametrize("width", [60, 80, 101, 120, 200])
async def test_no_layout_breaks(width: int) -> None:
    app = PaneApp(view_of(*net(), playhead=3, selection=1, findings=WRONG, watches=(0,)))
    async with app.run_test(size=(width, 24)) as pilot:
        for _ in range(4):
            app.lower.tab(1)
            await pilot.pause()
