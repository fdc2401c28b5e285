"""All values of a gradient, full screen: a grid through any two dimensions, an index to type, jumps to what matters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static

from gradscope.model.tape import Tape
from gradscope.model.tensors import Summary, Value
from gradscope.session.view import View
from gradscope.tui import indexing, node_tensors, numbers
from gradscope.tui.colours import ACCENT, ERROR, MUTED, TEXT, WARNING
from gradscope.tui.indexing import Index, Selection
from gradscope.tui.messages import FetchWanted, TensorFetched
from gradscope.tui.widgets.slice_grid import Slice
from gradscope.tui.widgets.tabs import TabBar
from gradscope.tui.widgets.value_grid import MAP, NUMBERS, ValueGrid

CHUNK = 1 << 16
"""elements that a search asks for at once"""

KEYS = (
    ("Esc", "back"),
    ("0-9", "index"),
    ("m", "map"),
    ("f", "digits"),
    (">", "greatest"),
    ("a", "NaN"),
    ("z", "zero"),
    ("n N", "matrix"),
    ("[ ]", "gradient"),
    ("←↓↑→", "move"),
)
"""In the order in which they are kept where the line is short."""

TYPING = (("Enter", "go there"), ("Esc", "leave the line"))

INDEX_STARTS = "0123456789:-.["
"""characters that open the line for an index"""


@dataclass(slots=True)
class Search:
    """A walk through a whole tensor, chunk by chunk."""

    what: str
    meets: Callable[[Value], bool]
    after: tuple[int, ...] | None
    """only what lies behind this element"""
    chunks: Iterator[Index]
    done: int = 0


class ValuesScreen(Screen[None]):
    """Shows one of the selected row's gradients."""

    DEFAULT_CSS = """
    ValuesScreen { layout: vertical; }
    ValuesScreen #values-head, ValuesScreen #values-cell, ValuesScreen #values-keys { height: 1; padding: 0 1; }
    ValuesScreen #values-head, ValuesScreen #values-keys { background: $panel; }
    ValuesScreen TabBar { margin: 0 1; }
    ValuesScreen #values-index { height: 1; padding: 0 1; }
    ValuesScreen #values-index Static { width: auto; }
    ValuesScreen #values-index Input { width: 30; display: none; }
    ValuesScreen.-typing #values-index Input { display: block; }
    """

    BINDINGS: ClassVar = [
        Binding("escape,q,v", "leave", show=False),
        Binding("right_square_bracket", "other(1)", show=False),
        Binding("left_square_bracket", "other(-1)", show=False),
        Binding("n", "matrix(1)", show=False),
        Binding("N", "matrix(-1)", show=False),
        Binding("m", "map", show=False),
        Binding("f", "digits", show=False),
        Binding("greater_than_sign", "greatest", show=False),
        Binding("a", "search('nonfinite')", show=False),
        Binding("z", "search('zero')", show=False),
        Binding("i", "type_index", show=False),
    ]

    def __init__(self, view: View, name: str = "") -> None:
        super().__init__()
        self._tape: Tape | None = view.tape
        self._tensors = node_tensors.tensors(view)
        names = [known for known, _ in self._tensors]
        self._at = names.index(name) if name in names else 0
        self._search: Search | None = None
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield Static(id="values-head")
        yield TabBar()
        with Horizontal(id="values-index"):
            yield Static()
            yield Input(compact=True, select_on_focus=False)
        yield ValueGrid()
        yield Static(id="values-cell")
        yield Static(id="values-keys")

    def on_mount(self) -> None:
        self._open(self._at)
        self.query_one(ValueGrid).focus()

    # ------------------------------------------------------------ which gradient

    @property
    def _tensor(self) -> int:
        return self._tensors[self._at][1]

    @property
    def _summary(self) -> Summary:
        assert self._tape is not None
        return self._tape.summary(self._tensor)

    def _open(self, place: int) -> None:
        head = self.query_one("#values-head", Static)
        self._draw_keys()
        if not self._tensors or self._tape is None:
            head.update(Content.styled("nothing has arrived here yet: step on with n", MUTED))
            return
        old = self.query_one(ValueGrid).selection
        self._at = place % len(self._tensors)
        summary = self._summary
        head.update(heading(self._tensors[self._at][0], summary, self.app.size.width - 2))
        self.query_one(TabBar).show([(str(i), name) for i, (name, _) in enumerate(self._tensors)], str(self._at))
        selection = old if old.shape == summary.shape else Selection.whole(summary.shape)
        self._stop_search()
        self.query_one(ValueGrid).show(self._tensor, summary, selection)

    def on_resize(self) -> None:
        if self._tensors and self._tape is not None:
            head = heading(self._tensors[self._at][0], self._summary, self.app.size.width - 2)
            self.query_one("#values-head", Static).update(head)
        self._draw_keys()

    def _draw_keys(self) -> None:
        keys = TYPING if self.has_class("-typing") else KEYS
        self.query_one("#values-keys", Static).update(key_line(keys, self.app.size.width - 2))

    def action_other(self, direction: int) -> None:
        self._open(self._at + direction)

    @on(TabBar.Chosen)
    def _choose(self, event: TabBar.Chosen) -> None:
        event.stop()
        self._open(int(event.tab))

    # ------------------------------------------------------------ which part

    def action_matrix(self, direction: int) -> None:
        if self._tensors:
            grid = self.query_one(ValueGrid)
            grid.show(self._tensor, self._summary, grid.selection.moved(direction))

    def action_map(self) -> None:
        grid = self.query_one(ValueGrid)
        grid.switch(mode=NUMBERS if grid.mode == MAP else MAP)

    def action_digits(self) -> None:
        grid = self.query_one(ValueGrid)
        grid.switch(mode=NUMBERS, in_full=not grid.in_full)

    def on_key(self, event: events.Key) -> None:
        if not self.has_class("-typing") and event.character and event.character in INDEX_STARTS and event.key not in ("[", "]"):
            if event.key.endswith("square_bracket"):
                return
            event.stop()
            self._type(event.character)

    def action_type_index(self) -> None:
        self._type("")

    def _type(self, start: str) -> None:
        if self._tensors:
            self.add_class("-typing")
            line = self.query_one(Input)
            line.value = start
            line.cursor_position = len(start)
            line.focus()
            self._describe()
            self._draw_keys()

    @on(Input.Submitted)
    def _go(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            selection = indexing.parse(event.value, self._summary.shape)
        except ValueError as error:
            self._say(str(error))
            return
        self._problem = ""
        self._stop_typing()
        self.query_one(ValueGrid).show(self._tensor, self._summary, selection)

    def action_leave(self) -> None:
        if self.has_class("-typing"):
            self._stop_typing()
            self._say("")
        elif self._search is not None:
            self._stop_search()
            self._say("search given up")
        else:
            self.dismiss(None)

    def _stop_typing(self) -> None:
        self.remove_class("-typing")
        self.query_one(ValueGrid).focus()
        self._describe()
        self._draw_keys()

    # ------------------------------------------------------------ jumps

    def action_greatest(self) -> None:
        if not self._tensors:
            return
        summary = self._summary
        if summary.min is None or summary.max is None:
            self._say(
                "the greatest modulus of a complex tensor is not known" if "complex" in summary.dtype else "no number in it"
            )
            return
        greatest = max(abs(summary.min), abs(summary.max))
        self._begin(f"|g| = {numbers.exact(greatest)}", lambda value: abs(value) == greatest)

    def action_search(self, what: str) -> None:
        if not self._tensors:
            return
        summary = self._summary
        if what == "zero":
            if summary.zero == 0:
                self._say("no element is zero")
            else:
                self._begin("zero", lambda value: value == 0)
        elif summary.nan == 0 and summary.inf == 0:
            self._say("every element is finite")
        else:
            self._begin("NaN or infinity", _is_nonfinite)

    def _begin(self, what: str, meets: Callable[[Value], bool]) -> None:
        """Look for the first element; from an element that is one, for the next."""
        grid, summary = self.query_one(ValueGrid), self._summary
        value = grid.value
        after = grid.place if value is not None and meets(value) else None
        if summary.values is not None:
            found = _first(summary.values, tuple((0, extent, 1) for extent in summary.shape), meets, after)
            self._found(found, what)
            return
        self._search = Search(what, meets, after, indexing.chunks(summary.shape, CHUNK))
        self._next_chunk()

    def _next_chunk(self) -> None:
        search = self._search
        if search is None:
            return
        index = next(search.chunks, None)
        if index is None:
            self._found(None, search.what)
            return
        self._say(f"looking for {search.what}: {search.done} of {self._summary.numel} elements; Esc gives up")
        self.app.post_message(FetchWanted(self._tensor, index, self))

    @on(TensorFetched)
    def _take(self, event: TensorFetched) -> None:
        event.stop()
        search = self._search
        if search is None or event.tensor != self._tensor:
            return
        if event.error:
            self._stop_search()
            self._say(event.error)
            return
        part = Slice.of_cells(event.index, event.shape, event.values, self._summary.dtype)
        search.done += len(part.values)
        found = _first(part.values, event.index, search.meets, search.after)
        if found is None:
            self._next_chunk()
        else:
            self._found(found, search.what)

    def _found(self, place: tuple[int, ...] | None, what: str) -> None:
        self._stop_search()
        if place is None:
            self._say(f"no further element: {what}")
            return
        grid = self.query_one(ValueGrid)
        selection = grid.selection.onto(place)
        if selection != grid.selection:
            grid.show(self._tensor, self._summary, selection)
        self._problem = ""
        grid.go_to(place)

    def _stop_search(self) -> None:
        self._search = None

    # ------------------------------------------------------------ lines

    @on(ValueGrid.Moved)
    def _describe(self, event: ValueGrid.Moved | None = None) -> None:
        if not self._tensors:
            return
        grid = self.query_one(ValueGrid)
        line = Content.assemble(("index ", MUTED), (f"[{grid.selection}]", f"bold {TEXT}"), (f"   {grid.factor}", TEXT))
        if self.has_class("-typing"):
            line = Content.assemble(("index ", MUTED), (f"[{grid.selection}]", MUTED), (" › ", f"bold {ACCENT}"))
        self.query_one("#values-index Static", Static).update(line)
        if not self._problem:
            self.query_one("#values-cell", Static).update(cell_text(grid))

    def _say(self, text: str) -> None:
        self._problem = text
        line = Content.styled(text, WARNING) if text else cell_text(self.query_one(ValueGrid))
        self.query_one("#values-cell", Static).update(line)
        if text and self._search is None and not self.has_class("-typing"):
            self._problem = ""


def heading(name: str, summary: Summary, width: int) -> Content:
    """`arrives ∂b   float32 [8,64,384] cpu   ‖·‖ 1.9e-02 …` with the counts that a person looks for; what fits, those first."""
    ends = f"min {numbers.norm(summary.min)}  max {numbers.norm(summary.max)}" if summary.min is not None else ""
    parts = [
        (0, Content.styled(name, f"bold {TEXT}")),
        (2, Content.styled(f"{summary.dtype} {numbers.shape(summary.shape)}", MUTED)),
        (9, Content.styled(summary.device, MUTED)),
        (1, Content(f"‖·‖ {numbers.norm(summary.norm)}")),
        (5, Content(ends)),
    ]
    for what, count, colour in (("NaN", summary.nan, ERROR), ("inf", summary.inf, ERROR), ("0", summary.zero, TEXT)):
        parts.append(
            (3 if count else 6, Content.styled(f"{what}: {'?' if count is None else count}", colour if count else MUTED))
        )
    parts = [part for part in [*parts, (4, Content.styled(summary.note, WARNING))] if part[1].plain]
    while len(parts) > 1 and sum(text.cell_length + 2 for _, text in parts) - 2 > width:
        parts.remove(max(parts, key=lambda part: part[0]))
    return Content("  ").join(text for _, text in parts)


def key_line(keys: Sequence[tuple[str, str]], width: int) -> Content:
    """The keys that fit, with what they do."""
    shown: list[Content] = []
    for key, what in keys:
        made = Content.assemble((key, f"bold {ACCENT}"), (f" {what}", MUTED))
        if sum(one.cell_length + 2 for one in shown) + made.cell_length <= width:
            shown.append(made)
    return Content("  ").join(shown)


def cell_text(grid: ValueGrid) -> Content:
    """Index and all digits of the element at the cursor."""
    place, value = grid.place, grid.value
    if place is None:
        return Content()
    return Content.assemble(
        (f"{numbers.shape(place)} ", MUTED), (numbers.exact(value) if value is not None else "…", f"bold {TEXT}")
    )


def _is_nonfinite(value: Value) -> bool:
    if isinstance(value, complex):
        return not (math.isfinite(value.real) and math.isfinite(value.imag))
    return not math.isfinite(value)


def _first(
    values: tuple[Value, ...], index: Index, meets: Callable[[Value], bool], after: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """The first element of a piece that meets a condition, behind `after` in row-major order."""
    ranges = [range(*part) for part in index]
    for offset, value in enumerate(values):
        if not meets(value):
            continue
        place = []
        for part in reversed(ranges):
            offset, at = divmod(offset, len(part))
            place.append(part[at])
        found = tuple(reversed(place))
        if after is None or found > after:
            return found
    return None
