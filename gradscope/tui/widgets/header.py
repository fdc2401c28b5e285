"""The top line: which script and backward call, and where the person stands in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from textual.strip import Strip
from textual.widget import Widget

from gradscope.tui import colours
from gradscope.tui.edits import edits
from gradscope.tui.glyphs import CHECK, CROSS
from gradscope.tui.widgets.line import Line, fit

if TYPE_CHECKING:
    from gradscope.model.tape import Tape
    from gradscope.session.view import View


FAILURE_CELLS = 44


class Header(Widget, can_focus=False):
    """One line. When it is too narrow the call's text goes first; step, findings and pass never do."""

    def __init__(self, script: str, id: str | None = None) -> None:
        super().__init__(id=id)
        self._script = script
        self._call: tuple[str, str] = ("", "")
        self._status: tuple[Part, ...] = (Part("starting"),)
        self._warns = False

    def show(self, view: View) -> None:
        shown = (os.path.basename(view.script) or view.script, call_texts(view), status(view), warns(view))
        if shown != (self._script, self._call, self._status, self._warns):
            self._script, self._call, self._status, self._warns = shown
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        right = self._right(width)
        room = max(0, width - len(right) - 2)
        script = fit(self._script, min(len(self._script), room))
        call = next((text for text in (*self._call, "") if len(script) + 1 + len(text) < room), "")
        line = Line().add(" ").add(script, colours.strong).add(f" {call}" if call else "", colours.muted)
        line.to(width - len(right)).add(right, colours.strong_warning if self._warns else colours.strong_accent)
        return line.strip(width).apply_style(self.rich_style)

    def _right(self, width: int) -> str:
        """The status, its lesser parts shortened, then left out, where there is no room for them beside the script."""
        parts = list(self._status)
        while len(_joined(parts)) + len(self._script) + 3 > width and any(part.short for part in parts):
            parts = [Part(part.short or part.text, part.lesser) for part in parts]
        while len(_joined(parts)) + len(self._script) + 3 > width and any(part.lesser for part in parts):
            parts.remove(next(part for part in parts if part.lesser))
        return _joined(parts) + " "


class Part(NamedTuple):
    """A piece of the status line."""

    text: str
    lesser: bool = False
    """goes where there is no room: never step, findings or pass"""
    short: str = ""
    """says the same in less room"""


def _joined(parts: list[Part]) -> str:
    return " · ".join(part.text for part in parts)


def call_texts(view: View) -> tuple[str, str]:
    """The backward call in full, and short: `backward 1 J.backward(gradient=v) :14`, `backward 1 :14`."""
    stop = view.stop
    if stop is None:
        return "", ""
    call = stop.call
    if call.kind == "none":
        stands = "failed" if stop.reason == "error" else "stopped"
        where = f"{stands} at :{call.line}" if call.line else "at the script's end"
        return where, where
    name = f"{call.kind} {call.number}"
    return f"{name} {call.code} :{call.line}", f"{name} :{call.line}"


def status(view: View) -> tuple[Part, ...]:
    """The right half: step, findings, pass, exactness; and what is going on."""
    parts = [Part(_state(view), lesser=view.tape is not None)]
    if view.tape is not None:
        parts.append(Part(f"step {view.playhead:,}/{view.tape.steps:,}"))
    if view.busy is not None:
        parts.append(Part(_busy(view)))
    parts += [Part(_findings(view), lesser=not view.findings), Part(_pass(view)), _exact(view)]
    return tuple(part for part in parts if part.text)


def warns(view: View) -> bool:
    """Whether the status line has something to worry about, said in words there too."""
    failed = view.tape is not None and (view.tape.exact == "false" or view.tape.failure is not None)
    failed = failed or (view.stop is not None and view.stop.reason == "error")
    return bool(view.findings) or bool(edits(view)) or failed or view.state.value == "crashed"


def _state(view: View) -> str:
    if view.waiting:
        return "the script waits for input: o, then type"
    match view.state.value:
        case "starting":
            return "starting"
        case "running":
            return f"running · backward calls {view.calls:,}"
        case "crashed":
            return "crashed"
        case "ended":
            return f"ended, exit {view.exit.code if view.exit else 0}"
        case "snapshot":
            return "snapshot"
    return ""


def _busy(view: View) -> str:
    busy = view.busy
    assert busy is not None
    return f"{busy.what} {busy.done:,}/{busy.total:,}" if busy.total else f"{busy.what}…"


def _findings(view: View) -> str:
    count = len(view.findings)
    if count == 0:
        return "no findings" if view.tape is not None and not edits(view) else ""
    return f"{count} finding{'s' if count > 1 else ''} (a)"


def _pass(view: View) -> str:
    if view.stop is None or view.tape is None or (len(view.stop.passes) < 2 and not view.edited):
        return ""
    text = f"pass {view.tape.number} of {max([view.tape.number, *(tape.number for tape in view.stop.passes)])}"
    loud = edits(view)
    return f"{text}: {loud}" if loud else text


def _exact(view: View) -> Part:
    if view.tape is None and view.stop is not None and view.stop.reason == "error":
        words = f"{CROSS} {' '.join(view.stop.detail.split())}"
        return Part(fit(words, FAILURE_CELLS).rstrip(), lesser=True, short=f"{CROSS} {view.stop.detail.partition(':')[0]}")
    if view.tape is not None and view.tape.failure is not None:
        return Part(fit(_failure(view.tape), FAILURE_CELLS).rstrip(), lesser=True, short="the pass failed")
    return Part(_verdict(view), lesser=True)


def _failure(tape: Tape) -> str:
    """`✗ Bad: ValueError: too big`"""
    failure = tape.failure
    assert failure is not None
    node, leaf = failure.node, tape.graph.leaf_at(failure.node)
    where = tape.graph.leaves[leaf].name if leaf is not None else tape.graph.short(node) if node >= 0 else ""
    return " ".join(f"{CROSS} {where}{': ' * bool(where)}{failure.type}: {failure.message}".split())


def _verdict(view: View) -> str:
    tape, committed = view.tape, view.stop.committed if view.stop else None
    if tape is None:
        return ""
    if committed is not None and not edits(view):
        return {"true": f"exact {CHECK}", "false": f"NOT EXACT {CROSS}"}.get(committed.exact, "exact unchecked")
    return {"true": f"sums {CHECK}", "false": f"NOT EXACT {CROSS}"}.get(tape.exact, "sums unchecked")
