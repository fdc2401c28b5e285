"""The Hooks tab as text, and the marks of what hooks and what-ifs changed."""

from __future__ import annotations

import graphs
from pane_app import view_of

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Change, Hook, HookEffect
from gradscope.model.places import UNKNOWN, CodePlace
from gradscope.model.tape import Tape
from gradscope.session.view import View
from gradscope.tui.widgets import hooks_page
from gradscope.tui.widgets.jumps import goal_of

MUL, SIN, ADD, X = range(4)

CLIP = CodePlace("/home/ada/model.py", 12, "clip")
HOOKS = [
    Hook(MUL, UNKNOWN, "post", "count", CodePlace("/home/ada/model.py", 30, "count")),
    Hook(SIN, 0, "tensor", "clip", CLIP),
    Hook(SIN, 0, "retain", "retain_grad"),
    Hook(X, 0, "accumulate", "step_now", CodePlace("/home/ada/model.py", 40, "step_now")),
]


def hooked() -> tuple[BackwardGraph, Tape]:
    """A hook halves what arrives at Sin, in step 2; one of Mul, in step 3, changes nothing."""
    drawing = graphs.two_outputs_drawing()
    graph = drawing.graph()
    tape = drawing.tape(graph, [(1.0, 10.0)], hooks={SIN: lambda value: (value[0] / 2, value[1] / 2)})
    graph.columns.hooks = list(HOOKS)
    before = next(one.tensor for one in tape.to(SIN))
    after = tape.arrived(SIN)
    mul = tape.arrived(MUL)
    tape.columns.hook_effects = [HookEffect(1, 2, before, after), HookEffect(2, 2, after, after), HookEffect(0, 3, mul, mul)]
    return graph, tape


def view(selection: int, playhead: int = 2) -> View:
    return view_of(*hooked(), playhead=playhead, selection=selection)


def text(shown: View) -> list[str]:
    return [line.plain.rstrip() for line in hooks_page.write(shown, 60)]


def test_a_node_with_what_each_hook_saw_and_made_of_it() -> None:
    assert text(view(2)) == [
        "tensor hook  clip",
        "  /home/ada/model.py:12",
        "                   [0]       [1]",
        "  before        1.0000   10.0000",
        "  after         0.5000    5.0000   changed",
        "",
        "retain_grad",
        "  stores        0.5000    5.0000",
    ]


def test_nothing_is_shown_before_it_has_run() -> None:
    assert text(view(3))[:3] == ["node hook  count", "  /home/ada/model.py:30", "  ○ not run yet   step 3"]
    assert text(view(3, playhead=3))[3] == "  saw           1.0000   10.0000   changed nothing"


def test_a_hook_of_the_accumulated_gradient_runs_in_the_call_only() -> None:
    assert text(view(4, playhead=4))[-1] == "  runs only in your script's own call, once .grad is there"


def test_so_do_hooks_of_the_node_that_accumulates() -> None:
    graph, tape = hooked()
    graph.columns.hooks = [Hook(X, UNKNOWN, "pre", "triple"), Hook(X, UNKNOWN, "post", "count"), Hook(SIN, UNKNOWN, "pre", "odd")]
    tape.columns.hook_effects = []
    late = "runs only in your script's own call, beside AccumulateGrad: .grad may become another"
    shown = " ".join(" ".join(text(view_of(graph, tape, playhead=4, selection=4))).split())
    assert shown == f"node pre-hook triple {late} node hook count {late}"
    assert text(view_of(graph, tape, playhead=4, selection=2))[-1] == "  what it saw was not recorded"
    tape.columns.kind = "committed"
    assert text(view_of(graph, tape, playhead=4, selection=4))[-1] == "  what it saw was not recorded"


def test_the_seeds_row_lists_all_and_leads_to_their_nodes() -> None:
    lines = hooks_page.write(view(0), 72)
    assert [line.plain.rstrip() for line in lines] == [
        "4 hooks, by step",
        "Sin           tensor hook  clip (model.py:12)   ‖·‖ 10.05 → 5.025",
        "Sin           retain_grad   stores ‖·‖ 5.025",
        "Mul           node hook  count (model.py:30)   ○",
        "x             post-accumulate hook  step_now (model.py:40)",
    ]
    assert [goal_of(line) for line in lines] == [None, SIN, SIN, MUL, X]


def test_a_row_without_hooks_says_where_there_are_some() -> None:
    assert text(view(1)) == ["no hooks here", "all 4 of the graph: the seed's row (g)"]
    assert text(view_of(*graphs.two_outputs(), selection=1)) == ["no hooks here"]


def test_counts_beside_the_tab() -> None:
    assert [hooks_page.count(view(row)) for row in range(5)] == [4, 0, 2, 1, 1]


def test_the_tape_marks_what_was_changed() -> None:
    _, tape = hooked()
    assert [tape.flags(step) for step in (1, 2, 3, 4)] == ["", "H", "", ""]
    tape.columns.changes = [Change(SIN, 0, text="*0.5"), Change(X, 0, 3, "zeros")]
    del tape.__dict__["changed_steps"]
    assert [tape.flags(step) for step in (1, 2, 3, 4)] == ["", "xH", "", "x"]


def test_a_big_fold_marks_what_was_changed_in_it() -> None:
    _, tape = hooked()
    tape.columns.changes = [Change(X, 0, text="zeros")]
    assert [tape.changes_between(*ends) for ends in ((1, 1), (1, 3), (3, 3), (1, 4))] == ["", "H", "", "xH"]


def test_help_explains_the_marks() -> None:
    from gradscope.tui.screens.help import SIGNS

    assert dict(SIGNS)["x H"].startswith("what arrives was changed: by a what-if of yours, by a hook")
