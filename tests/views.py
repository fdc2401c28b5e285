"""Views made by hand, for the screen to draw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphs import FILE, gpt_like, two_outputs_drawing
from keeping import Kept, inspected, table

from gradscope.model.columns import Change, Hook, HookEffect
from gradscope.model.places import CodePlace
from gradscope.model.tape import Tape
from gradscope.protocol.messages import Call
from gradscope.session.stepping import Walk
from gradscope.session.view import Exit, State, Stop, View

SOURCE = """\
import torch

# Both outputs meet in x: its gradient gathers three contributions.
# The seed [1, 10] says how much each output counts.
#
#
#

x = torch.tensor([1., 2.], requires_grad=True)
a = x * x
b = x.sin()
J = a + b
v = torch.tensor([1., 10.])
J.backward(gradient=v)
""".splitlines()

SOURCES = {FILE: SOURCE}

CALL = Call(1, "backward", FILE, 14, "<module>", "J.backward(gradient=v)")


def view_of(walk: Walk, passes: list[Tape], call: Call = CALL, script: str = "two_outputs.py", **more: Any) -> View:
    """A stop as the session would show it."""
    stop = Stop(call, "call", graph=walk.graph, passes=passes)
    settings: dict[str, Any] = {
        **{"state": State.STOPPED, "script": script, "calls": 1, "where": (call.file, call.line), "stop": stop},
        **{"stop_number": 1, "stops": 1, "graph": walk.graph, "tape": walk.tape, "against": walk.against, "rows": walk.rows},
        **{"playhead": walk.playhead, "selection": walk.selection, "edited": walk.tape.edited, "sources": SOURCES},
        **{"search": walk.search, "matches": walk.matches},
    }
    return View(**{**settings, **more})


def two_outputs_view(step: int = 2, selection: int | None = None, **more: Any) -> View:
    """The pictured example after a step; the selection stands there too unless told."""
    drawing = two_outputs_drawing()
    graph = drawing.graph()
    walk = Walk(graph, drawing.tape(graph, [(1.0, 10.0)]), 40)
    walk.to_step(step)
    if selection is not None:
        walk.select(selection)
    return view_of(walk, [walk.tape], **more)


def edited_view(step: int = 2) -> View:
    """The same with the seed [1, 1] in a second pass."""
    drawing = two_outputs_drawing()
    graph = drawing.graph()
    passes = [drawing.tape(graph, [(1.0, 10.0)]), drawing.tape(graph, [(1.0, 1.0)], number=2)]
    walk = Walk(graph, passes[0], 40)
    walk.to_step(step)
    walk.show(passes[1], passes[0])
    return view_of(walk, passes)


def what_if_view(step: int = 2) -> View:
    """The same with what arrives at Sin halved by the person, in a second pass."""
    drawing = two_outputs_drawing()
    graph = drawing.graph()
    passes = [drawing.tape(graph, [(1.0, 10.0)])]
    passes.append(drawing.tape(graph, [(1.0, 10.0)], number=2, hooks={1: lambda value: tuple(part / 2 for part in value)}))
    columns = passes[1].columns
    columns.edited, columns.hook_changed = False, []
    columns.changes = [Change(1, 0, text="*0.5", before=next(one.tensor for one in passes[1].to(1)))]
    walk = Walk(graph, passes[0], 40)
    walk.to_step(step)
    walk.show(passes[1], passes[0])
    return view_of(walk, passes)


def kept_view(step: int = 3) -> View:
    """The pictured example with what its nodes keep, and a hook that halves what arrives at Sin."""
    drawing = two_outputs_drawing()
    graph = drawing.graph()
    graph.columns.hooks = [Hook(1, 0, "tensor", "halve", CodePlace(FILE, 12, "halve"))]
    tape = drawing.tape(graph, [(1.0, 10.0)], hooks={1: lambda value: tuple(part / 2 for part in value)})
    tape.columns.hook_effects = [HookEffect(0, 2, next(one.tensor for one in tape.to(1)), tape.arrived(1))]
    walk = Walk(graph, tape, 40)
    walk.to_step(step)
    kept = [Kept(0, "other", 0), Kept(0, "self", 0), Kept(0, "mask", 1, (4, 1024)), Kept(1, "self", 0)]
    looked = inspected(0, [((1.0, 2.0), (2,))] * 2, [("dim", "-1")])
    saved = table(kept, [(8, "leaf x"), (16384, "")])
    return view_of(walk, [tape], saved=saved, inspected={0: looked})


def gpt_view(rows: int = 6, screen_rows: int = 12) -> View:
    """A transformer, folded, after this many visible rows."""
    graph, tape = gpt_like()
    walk = Walk(graph, tape, screen_rows)
    for _ in range(rows):
        walk.step(1)
    call = Call(1, "backward", "/home/ada/train_gpt.py", 88, "<module>", "loss.backward()")
    return view_of(walk, [tape], call, "train_gpt.py", sources={})


def waiting_view(state: State, **more: Any) -> View:
    """No stop yet."""
    return replace(View(state, "two_outputs.py", sources=SOURCES), **more)


def crashed_view() -> View:
    """The script died before its first backward call."""
    traceback = 'Traceback (most recent call last):\n  File "two_outputs.py", line 10, in <module>\nRuntimeError: [broken]\n'
    return waiting_view(State.CRASHED, exit=Exit(1, 0, "RuntimeError: [broken]", traceback))
