"""All keys, by group, and what the signs mean."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from gradscope.tui import actions

SIGNS = (
    ("● ○", "a node that has run; one that has not yet"),
    ("◇ ▽", "a leaf, where gradients gather; the seed, where they start"),
    ("▶ ›", "the playhead: the step just run; the selected row, where that is another"),
    ("▸ ▾", "folded, unfolded"),
    ("N I 0", "what arrives holds NaN, inf; is all zero"),
    ("⟂", "nothing arrives: the gradient is undefined"),
    ("x H", "what arrives was changed: by a what-if of yours, by a hook (the Hooks tab says which)"),
    ("↓ ↑", "the step makes the gradient far smaller, far larger"),
    ("E W", "a finding speaks of the row, line or leaf: an error, a warning (5 then [ ] shows them all)"),
    ("·", "no value yet"),
    ("◆", "a breakpoint"),
    ("sums ✓", "each sum in the record was added again and gives the same bits as the engine's"),
    ("exact ✓", "your script's own call then made the gradients that the record foretold, bit for bit"),
    ("unchecked", "it could not be compared, e.g. because the call failed: the seed's row (g) says why in the Node pane"),
)

_WIDE = 110
"""columns from which there is room for two"""
_KEYS = 14


class HelpScreen(ModalScreen[None]):
    """One column, or two where there is room."""

    BINDINGS: ClassVar = [
        Binding("escape,q,question_mark,f1,enter", "close", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("pagedown,space", "scroll(20)", show=False),
        Binding("pageup", "scroll(-20)", show=False),
    ]

    def compose(self) -> ComposeResult:
        title = Content.assemble((" Keys", "bold"), ("   UPPER: the same backward, for n f m c a", "$text-muted"))
        yield Static(title, id="help-title")
        with VerticalScroll(id="help", can_focus=False), Horizontal():
            yield Static(id="help-left", classes="help-column")
            yield Static(id="help-right", classes="help-column")
        yield Static(Content(" j k scroll · Esc close · ctrl+p runs any of these by name"), id="help-keys")

    def on_resize(self, event: events.Resize) -> None:
        wide = event.size.width >= _WIDE
        self.set_class(wide, "-two")
        width = (event.size.width - 4) // 2 - 2 if wide else event.size.width - 6
        groups = [_group(group, width) for group in actions.GROUPS]
        self.query_one("#help-left", Static).update(Content("\n\n").join(groups[:3]))
        self.query_one("#help-right", Static).update(Content("\n\n").join([*groups[3:], _signs(width)]))

    def action_scroll(self, lines: int) -> None:
        self.query_one("#help").scroll_relative(y=lines, animate=False)

    def action_close(self) -> None:
        self.dismiss(None)


def _group(group: str, width: int) -> Content:
    lines = [_line(" ".join(keys), text, width) for keys, text in actions.rows(group)]
    return Content("\n").join([Content.styled(group, "bold $text-primary"), *lines])


def _signs(width: int) -> Content:
    return Content("\n").join([Content.styled("Signs", "bold $text-primary"), *(_line(*sign, width) for sign in SIGNS)])


def _line(keys: str, text: str, width: int) -> Content:
    """Keys and text side by side, further lines of the text under its first."""
    first, *further = textwrap.wrap(text, max(20, width - _KEYS - 3))
    text = "\n".join([first, *(" " * (_KEYS + 3) + line for line in further)])
    return Content.assemble("  ", (keys.ljust(_KEYS), "bold"), " ", (text, "$text-muted"))
