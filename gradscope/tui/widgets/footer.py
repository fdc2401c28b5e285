"""The bottom line: the keys that matter now, from the registry of actions, and what the last action had to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from gradscope.tui import colours
from gradscope.tui.actions import Hint, hints
from gradscope.tui.messages import ActionWanted
from gradscope.tui.widgets.line import Line, cells, fit

if TYPE_CHECKING:
    from gradscope.session.view import View


class Footer(Widget, can_focus=False):
    """Drops the least important keys where the line is short, `?` and `q` never. A click on a key works as the key."""

    typing = reactive(False)
    """keys go into a line of the main screen"""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hints = hints("starting", {"moving"})
        self._notice = ""

    def show(self, view: View) -> None:
        now = hints(view.state.value, facts(view))
        if (now, view.notice) != (self._hints, self._notice):
            self._hints, self._notice = now, view.notice
            self.refresh()

    def say(self, notice: str) -> None:
        """Something to say while there is no view to say it."""
        self._notice = notice
        self.refresh()

    def render_line(self, y: int) -> Strip:
        notice, kept = self._parts()
        line = Line().add(notice, colours.strong_warning)
        for hint in kept:
            line.add(f" {hint.shown}", colours.strong_accent).add(f" {hint.label}", colours.muted)
        return line.strip(self.size.width).apply_style(self.rich_style)

    def on_click(self, event: events.Click) -> None:
        notice, kept = self._parts()
        end = cells(notice)
        for hint in kept:
            end += hint.cells
            if event.x < end:
                if event.x >= end - hint.cells:
                    self.post_message(ActionWanted(hint.call))
                return

    def _parts(self) -> tuple[str, list[Hint]]:
        """The notice, cut if it must be, and the keys that fit beside it."""
        width = self.size.width
        notice = f" {self._notice} ·" if self._notice else ""
        kept = hints("", {"typing"}) if self.typing else list(self._hints)
        while sum(hint.cells for hint in kept) + cells(notice) > width and any(hint.rank for hint in kept):
            kept.remove(max(kept, key=lambda hint: hint.rank))
        room = max(0, width - sum(hint.cells for hint in kept))
        return (fit(notice, room) if cells(notice) > room else notice), kept


def facts(view: View) -> set[str]:
    """What holds of `gradscope.tui.actions.FACTS`."""
    holds = set()
    if view.matches:
        holds.add("matches")
    if view.tape is not None and any(view.tape.tensors.numel(seed.tensor) > 1 for seed in view.tape.seeds):
        holds.add("vector")
    if view.tape is not None and view.tape.columns.changes:
        holds.add("changed")
    if view.has_run:
        holds.add("has run")
    if view.state.value in ("starting", "running"):
        holds.add("moving")
    return holds
