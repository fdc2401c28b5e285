"""What all panes share: a top rule with number and title, and one way to be told what to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

if TYPE_CHECKING:
    from gradscope.session.view import View

MOVES = (
    Binding("down,j", "move(1)", show=False),
    Binding("up,k", "move(-1)", show=False),
    Binding("pagedown", "page(1)", show=False),
    Binding("pageup", "page(-1)", show=False),
    Binding("home,g", "edge(-1)", show=False),
    Binding("end,G", "edge(1)", show=False),
)
"""keys that move within a pane's own list"""


class Pane(Widget, can_focus=True):
    """A numbered part of the main screen.

    A pane draws from the `View` it is shown and from nothing else; what the person does in it leaves as a message
    (`gradscope.tui.messages`). `show` is called after every change of anything, so it compares with what it drew last and
    does little when nothing of its own changed.
    """

    NUMBER: ClassVar[int] = 0
    TITLE: ClassVar[str] = ""

    def __init__(self, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._title: str | None = None
        self.set_title(self.TITLE)

    def set_title(self, title: str) -> None:
        """Write the top rule: the pane's number and this text (no markup)."""
        if title != self._title:
            self._title = title
            text = Content(f"{self.NUMBER} {title}" if title else f"{self.NUMBER}")
            if not self.is_mounted:
                self.border_title = text
                return
            # setting `border_title` draws the whole pane anew, at each key where the title names the selection
            self._border_title = text
            left, top = self.content_offset
            self.refresh(Region(-left, -top, self.outer_size.width, 1))

    def show(self, view: View) -> None:
        """Draw this state."""
        raise NotImplementedError
