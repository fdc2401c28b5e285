"""All keys, by group, and what the signs mean."""

from __future__ import annotations

from typing import ClassVar

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
    ("↓ ↑", "the step makes the gradient far smaller, far larger"),
    ("·", "no value yet"),
    ("◆", "a breakpoint"),
)

_WIDE = 110
_KEYS = 16


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
        yield Static(
            Content.assemble((" Keys", "bold"), ("   UPPER: the same backward, for n f m c a", "$text-muted")), id="help-title"
        )
        with VerticalScroll(id="help", can_focus=False), Horizontal():
            groups = [_group(group) for group in actions.GROUPS]
            yield Static(Content("\n\n").join(groups[:3]), classes="help-column")
            yield Static(Content("\n\n").join([*groups[3:], _signs()]), classes="help-column")
        yield Static(Content(" j k scroll · Esc close · ctrl+p runs any of these by name"), id="help-keys")

    def on_resize(self) -> None:
        self.set_class(self.size.width >= _WIDE, "-two")

    def action_scroll(self, lines: int) -> None:
        self.query_one("#help").scroll_relative(y=lines, animate=False)

    def action_close(self) -> None:
        self.dismiss(None)


def _group(group: str) -> Content:
    lines = [Content.styled(group, "bold $text-primary")]
    lines += [_line(" ".join(keys), text) for keys, text in actions.rows(group)]
    return Content("\n").join(lines)


def _signs() -> Content:
    return Content("\n").join([Content.styled("Signs", "bold $text-primary"), *(_line(sign, text) for sign, text in SIGNS)])


def _line(keys: str, text: str) -> Content:
    return Content.assemble("  ", (keys.ljust(_KEYS), "bold"), " ", (text, "$text-muted"))
