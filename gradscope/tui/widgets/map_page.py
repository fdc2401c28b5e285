"""The Map tab: the folded graph as layered boxes where it fits, and always who sends to the selected row and who receives."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from textual.content import Content

from gradscope.model import playhead
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.layers import Layers, layout
from gradscope.model.neighbourhood import LOOKED_AT, Neighbour, around
from gradscope.model.places import UNKNOWN
from gradscope.model.rows import Rows
from gradscope.model.tape import UNDEFINED, Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.session.view import View
from gradscope.tui import numbers
from gradscope.tui.colours import ACCENT, LEAF, MUTED, SEED, TEXT, WARNING
from gradscope.tui.glyphs import CURSOR, NOTHING, PENDING, PLAYHEAD, RUN
from gradscope.tui.glyphs import LEAF as LEAF_SIGN
from gradscope.tui.glyphs import SEED as SEED_SIGN
from gradscope.tui.widgets.jumps import leads
from gradscope.tui.widgets.line import cells, fit
from gradscope.tui.widgets.map_drawing import Face, draw, height
from gradscope.tui.widgets.tape_row import TapeRow

MOST_BOXES = 80
MOST_STEPS = 200_000
"""graphs of more are not drawn: finding which rows send to which would be felt"""

LEAST_BELOW = 6
"""lines that the neighbourhood keeps under the drawing"""

NAMES = 16, 11, 8
"""cells of a name in a box, at most; where that does not fit; where its first word has to do"""

WIDEST = 48
"""cells of a neighbour's name, at most: numbers far from it are hard to read across"""

NOTE = 16
"""cells of what stands after the norm of a neighbour"""

Style = tuple[bool, int, bool]
"""boxes with borders; cells of names; with norms"""

STYLES: tuple[Style, ...] = (
    *((framed, NAMES[0], norms) for norms in (True, False) for framed in (True, False)),
    *((False, name, False) for name in NAMES[1:]),
)

_layouts: WeakKeyDictionary[Rows, dict[Style, Layers | None]] = WeakKeyDictionary()


def write(view: View, width: int, height: int) -> list[Content]:
    """The page, of at most `height` lines unless the pane is very low."""
    graph, tape, rows = view.graph, view.tape, view.rows
    if graph is None or tape is None or rows is None:
        return [Content.styled("nothing is recorded here", MUTED)]
    drawn = _drawing(view, tape, rows, width, height - LEAST_BELOW - 1)
    near = _Near(view, graph, tape, rows, width).lines(height - len(drawn) - bool(drawn))
    if drawn:
        return [*drawn, Content(), *near]
    if len(near) + 2 <= height and _drawable(tape, rows):
        said = Content.styled(f"{len(rows.covering)} rows as boxes do not fit here: z zooms, - folds", MUTED)
        near += [Content(), said.truncate(width, ellipsis=True)]
    return near


# ---------------------------------------------------------------- the folded graph


def _drawing(view: View, tape: Tape, rows: Rows, width: int, room: int) -> list[Content]:
    """The graph of the visible rows in the best style that fits, or nothing."""
    if not _drawable(tape, rows):
        return []
    for style in STYLES:
        framed, layers = style[0], _layout(rows, style)
        if layers is not None and layers.width <= width and height(layers, framed) <= room:
            return draw(layers, {row: _face(TapeRow(view, rows, tape, row), view, row, style) for row in layers.boxes}, framed)
    return []


def _drawable(tape: Tape, rows: Rows) -> bool:
    return len(rows.covering) <= MOST_BOXES and tape.steps <= MOST_STEPS


def _layout(rows: Rows, style: Style) -> Layers | None:
    known = _layouts.setdefault(rows, {})
    if style not in known:
        _, most, norms = style
        widths = {row: 4 + cells(_fitted(rows, row, most)) + norms * (1 + numbers.NORM_WIDTH) for row in rows.covering}
        known[style] = layout(widths, ((row, target) for row in rows.covering for target in rows.targets(row)))
    return known[style]


def _face(drawn: TapeRow, view: View, row: int, style: Style) -> Face:
    """`● Add 10.05`, with `▶` for the playhead's row; the selected one has a heavy border, or `›` where there is none."""
    rows, (framed, most, norms) = view.rows, style
    assert rows is not None
    chosen = row == view.selection
    sign = PLAYHEAD if drawn.here else CURSOR if chosen and not framed else rows.glyph(row, view.playhead)
    text = f"{sign} {_fitted(rows, row, most)}"
    if norms:
        text += f" {NOTHING if drawn.norm is None else numbers.norm(drawn.norm):<{numbers.NORM_WIDTH}}"
    shade = SEED if not row else LEAF if sign == LEAF_SIGN else MUTED if drawn.pending else TEXT
    return Face(text, f"bold {ACCENT}" if chosen else f"bold {shade}" if drawn.here else shade, chosen)


def _fitted(rows: Rows, row: int, most: int) -> str:
    """A row's name in at most so many cells; in very few its first word has to do."""
    name = _name(rows, row)
    if most == NAMES[-1]:
        name = name.split(" ")[0]
    return fit(name, min(most, cells(name)))


def _name(rows: Rows, row: int) -> str:
    """A row's name in a box: `Add`, `x`, `mlp MLP`, `seed of J`."""
    node = rows.node(row)
    if node < 0:
        head, plus, count = rows.label(row).rpartition(" +")
        return head if plus and count.isdecimal() else rows.label(row)
    leaf = rows.graph.leaf_at(node)
    return rows.graph.short(node) if leaf is None else rows.graph.leaves[leaf].name


# ---------------------------------------------------------------- the neighbourhood


class _Near:
    """Senders, the row itself, receivers: one line each, on one rail."""

    def __init__(self, view: View, graph: BackwardGraph, tape: Tape, rows: Rows, width: int) -> None:
        self.view, self.graph, self.tape, self.rows = view, graph, tape, rows
        self.name = max(8, min(WIDEST, width - 6 - 1 - numbers.NORM_WIDTH - 2 - NOTE))
        self.width = width

    def lines(self, room: int) -> list[Content]:
        """At most so many lines, yet always the row itself and what is largest on either side."""
        found = around(self.graph, self.tape, self.rows, self.view.selection, self.view.playhead)
        room = max(3, room - 1 - found.cut)
        above = min(len(found.senders), max(room // 2, room - len(found.receivers)))
        senders, receivers = self._side(found.senders, above), self._side(found.receivers, room - above)
        lines = [Content.assemble("  ╭ " if not place else "  ├ ", line) for place, line in enumerate(senders)]
        lines.append(self._middle())
        lines += [Content.assemble("  ├ " if place < len(receivers) else "  ╰ ", line) for place, line in enumerate(receivers, 1)]
        if found.cut:
            lines.append(Content.styled(f"only {LOOKED_AT} edges of each side were looked at", WARNING))
        return [line.truncate(self.width, ellipsis=True) for line in lines]

    def _side(self, ends: Sequence[Neighbour], room: int) -> list[Content]:
        shown = ends if len(ends) <= room else ends[: max(0, room - 1)]
        lines = [self._neighbour(one) for one in shown]
        if more := len(ends) - len(shown):
            lines.append(Content.styled(f"… {more} more{', largest first' if shown else ''}", MUTED))
        return lines

    def _middle(self) -> Content:
        """The selected row, as the tape has it."""
        view, rows, row = self.view, self.rows, self.view.selection
        drawn = TapeRow(view, rows, self.tape, row)
        cursor = PLAYHEAD if drawn.here else CURSOR
        name = Content.assemble((_name(rows, row), f"bold {TEXT}"), (f"  {drawn.makes}" if drawn.makes else "", MUTED))
        nothing = NOTHING if drawn.pending else UNDEFINED
        number = nothing if drawn.norm is None else numbers.norm(drawn.norm)
        note = f"step{'s' * (rows.first(row) < rows.last(row))} {drawn.steps}" if row else ""
        return self._line(f"{cursor} {rows.glyph(row, view.playhead)} ", name, self.name + 2, number, note)

    def _neighbour(self, one: Neighbour) -> Content:
        """What is at the other end; the line leads there."""
        sign, name, style = self._who(one)
        number = (
            NOTHING if one.pending else "" if not one.used else UNDEFINED if one.tensor == NO_TENSOR else numbers.norm(one.norm)
        )
        words = Content.assemble((name, style), (f"  {one.role}" if one.role else "", MUTED))
        line = self._line(f"{sign} ", words, self.name, number, self._note(one))
        return leads(line, one.node) if one.row > 0 else line

    def _who(self, one: Neighbour) -> tuple[str, str, str]:
        """Sign, name and style of what stands at the other end."""
        if one.node == UNKNOWN:
            root = (
                self.graph.roots[one.root].name if self.tape.columns.root == UNKNOWN else self.graph.label(self.tape.columns.root)
            )
            return SEED_SIGN, f"seed of {root}", SEED
        if one.leaf is not None:
            return LEAF_SIGN, self.graph.leaves[one.leaf].name, LEAF
        ran = playhead.state(self.graph, self.tape, self.view.playhead, one.node) == "run"
        single = one.row < 0 or self.rows.node(one.row) == one.node
        name = self.graph.short(one.node) if single else _name(self.rows, one.row)
        return RUN if ran else PENDING, name, TEXT if ran else MUTED

    def _note(self, one: Neighbour) -> str:
        if not one.used:
            return "not in this pass" if one.edges == 1 else f"{one.edges}, none used"
        if one.edges > 1:
            return f"largest of {one.done}" if one.done else f"{one.edges} edges"
        if one.node == UNKNOWN:
            return ""
        if one.leaf is not None:
            leaf = self.graph.leaves[one.leaf]
            return "{} of {}".format(*playhead.count_so_far(self.graph, self.tape, self.view.playhead, leaf.node, leaf.input_nr))
        return f"step {self.tape.step_of(one.node)}"

    def _line(self, sign: str, name: Content, room: int, number: str, note: str) -> Content:
        """Columns: sign, name, norm, remark."""
        words = name.truncate(room, ellipsis=True, pad=True)
        return Content.assemble(sign, words, f" {number:>{numbers.NORM_WIDTH}}", (f"  {note}" if note else "", MUTED))
