"""A list of any length: only the lines on the screen are drawn, and drawn lines are kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Offset, Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

KEPT_LINES = 512


class VirtualList(ScrollView, can_focus=False):
    """Rows 0 … count-1 below a fixed heading, one of them perhaps the cursor's.

    A subclass says how many rows there are (`set_count`), draws one (`draw`), and calls `redraw` when drawn lines no longer hold.
    Lines are kept by row and by `variant(row)`, so that what changes with the cursor alone costs two lines.
    """

    DEFAULT_CSS = """
    VirtualList { height: 1fr; width: 100%; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """

    HEADING = 0
    """how many lines stay at the top"""
    MARGIN = 1
    """rows kept in sight above and below the cursor"""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.count = 0
        self._below = 0
        self._kept: LRUCache[Hashable, Strip] = LRUCache(KEPT_LINES)
        self._base: Style | None = None
        """the widget's own style: it takes Textual long to say"""
        self._shown: dict[int, Strip] = {}
        """what stands on the screen, by line"""
        self._shown_at: tuple[Offset, Size] | None = None

    # ------------------------------------------------------------ for the subclass

    def draw(self, row: int, width: int) -> Strip:
        """One row."""
        raise NotImplementedError

    def draw_heading(self, line: int, width: int) -> Strip:
        """One line of the heading."""
        return Strip.blank(width)

    def draw_below(self, line: int, width: int) -> Strip:
        """One line below the last row."""
        return Strip.blank(width)

    def variant(self, row: int) -> Hashable:
        """What besides `redraw` can change how a row looks."""
        return None

    def clicked(self, row: int, column: int, event: events.Click) -> None:
        """A click on a row; `column` counts from the list's left edge."""

    # ------------------------------------------------------------ what callers use

    @property
    def page(self) -> int:
        """How many rows are on the screen."""
        return max(1, self.size.height - self.HEADING)

    @property
    def first_row(self) -> int:
        """The topmost row on the screen."""
        return int(self.scroll_offset.y)

    def set_count(self, count: int, below: int = 0) -> None:
        """There are this many rows, and this many lines under them."""
        if (count, below) == (self.count, self._below):
            return
        self.count, self._below = count, below
        old, new = self.virtual_size, Size(0, count + below + self.HEADING)
        height, room = self.styles.height, self.container_size.height
        if not room or height is None or height.is_auto or (old.height > room) != (new.height > room):
            self.virtual_size = new
            return
        # the same place with the same scroll bar: assigning `virtual_size` would lay out the whole screen anew
        self.set_reactive(Widget.virtual_size, new)
        self._scroll_update(new)
        for line in range(min(old.height, new.height), min(self.size.height, max(old.height, new.height))):
            self.refresh(Region(0, line, self.size.width, 1))

    def redraw(self) -> None:
        """Draw everything anew; only the lines that come out different are sent to the terminal."""
        self._kept.clear()
        if self._shown_at != (self.scroll_offset, self.size):
            self.refresh()
            return
        width, height = self.size
        for y in range(height):
            if self._strip(y, width) != self._shown.get(y):
                self.refresh(Region(0, y, width, 1))

    def redraw_rows(self, *rows: int) -> None:
        """Draw these rows anew: their variant changed."""
        for row in rows:
            line = row - self.first_row + self.HEADING
            if self.HEADING <= line < self.size.height:
                self.refresh(Region(0, line, self.size.width, 1))

    def show_row(self, row: int) -> None:
        """Scroll so that the row is in sight; to the middle when it was far away."""
        if self.size.height == 0:
            return
        top, page = self.first_row, self.page
        margin = min(self.MARGIN, (page - 1) // 2)
        if top + margin <= row <= top + page - 1 - margin:
            return
        if row < top - page or row > top + 2 * page:
            target = row - page // 2
        elif row < top + margin:
            target = row - margin
        else:
            target = row - page + 1 + margin
        last = max(0, self.count + self._below - page)
        target = min(max(0, target), last)
        if target != top:
            self.scroll_to(y=target, animate=False, force=True, immediate=True)

    # ------------------------------------------------------------ Textual's side

    def render_lines(self, crop: Region) -> list[Strip]:
        at = (self.scroll_offset, self.size)
        if self._shown_at != at:
            self._shown_at = at
            self._shown.clear()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        strip = self._strip(y, self.size.width)
        self._shown[y] = strip
        return strip

    def _strip(self, y: int, width: int) -> Strip:
        if y < self.HEADING:
            return self._line(("heading", y), width, lambda: self.draw_heading(y, width))
        row = y - self.HEADING + self.first_row
        if row < self.count:
            return self._line((row, self.variant(row)), width, lambda: self.draw(row, width))
        if row < self.count + self._below:
            return self._line(("below", row - self.count), width, lambda: self.draw_below(row - self.count, width))
        return self._line("blank", width, lambda: Strip.blank(width))

    def _line(self, key: Hashable, width: int, draw: Callable[[], Strip]) -> Strip:
        key = (key, width)
        strip = self._kept.get(key)
        if strip is None:
            if self._base is None:
                self._base = self.rich_style
            strip = draw().crop_extend(0, width, None).apply_style(self._base)
            self._kept[key] = strip
        return strip

    def notify_style_update(self) -> None:
        self._kept.clear()
        self._base = None
        super().notify_style_update()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self.HEADING:
            return
        row = offset.y - self.HEADING + self.first_row
        if row < self.count:
            self.clicked(row, offset.x, event)
