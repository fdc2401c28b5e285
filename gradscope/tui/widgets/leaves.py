"""The tab of leaves: what each had, what this pass has brought to it by now, and which it does not reach."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from textual.message import Message
from textual.strip import Strip

from gradscope.findings.hooked import late
from gradscope.findings.wanting import reaches_unseen
from gradscope.model import playhead
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Leaf
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR
from gradscope.session.view import View
from gradscope.tui import colours, numbers
from gradscope.tui.flagged import Flagged
from gradscope.tui.messages import FindingOpened, NodeWanted
from gradscope.tui.widgets.line import Line
from gradscope.tui.widgets.pick_list import PickList

WRITTEN_OUT = 8
"""leaves of at most this many elements show them, where there is room"""

NAMES = (8, 24, 60)
"""width of the names: the least, what other columns must leave them, the greatest"""

NORM, FROM, NONE, TITLED, PREFIXED = 9, 6, 5, 10, 12
"""widths of a norm, of `1/3`, of `None`, of the heading `.grad was`, and of a norm with its sign"""


@dataclass(frozen=True, slots=True)
class Columns:
    """Widths of the columns. One that does not fit is left out whole."""

    most: int
    """leaves of at most so many elements show them; 0 for norms only"""
    name: int
    shape: int
    """0 where there is no room for it; so are the others"""
    was: int
    values: int
    becomes: int
    owner: int

    @property
    def width(self) -> int:
        return self.name + self.shape + self.was + self.values + FROM + self.becomes + self.owner


class Leaves(PickList):
    """In the order in which the pass completes them, those it does not reach last; scrolls along with the playhead."""

    HEADING = 1

    def __init__(self, id: str | None = "leaves") -> None:
        super().__init__(id)
        self._view: View | None = None
        self._drawn: tuple[object, ...] = ()
        self._order: Sequence[int] = ()
        self._fitted: tuple[object, object] = (None, None)
        self._columns = Columns(0, 8, 7, 10, 16, 0, 0)
        self._order_of: Tape | None = None
        self._last: Sequence[int] = ()
        """the steps at which the leaves are complete, in that order"""

    def show(self, view: View) -> None:
        """Draw this state."""
        self._view = view
        state = (view.tape, view.playhead, view.stop, self.size, view.findings)
        if state == self._drawn:
            return
        self._drawn = state
        picked = self._order[self.cursor] if self.cursor < len(self._order) else None
        self._order = self._ordered(view)
        if self._fitted != (view.tape, self.size):
            self._fitted, self._columns = (view.tape, self.size), self._fit(view)
        self.set_count(len(self._order))
        self.redraw()
        self.cursor = (
            self._order.index(picked) if picked in self._order and self.lit else min(self.cursor, max(0, self.count - 1))
        )
        if not self.lit:
            self.show_row(max(0, bisect_right(self._last, view.playhead) - 1))

    def on_resize(self) -> None:
        if self._view is not None:
            self.show(self._view)

    def opened(self) -> Message | None:
        """Select the leaf's node; for a leaf that is not in the graph the finding that speaks of it."""
        if self._view is None or self._view.graph is None or not self._order:
            return None
        leaf = self._view.graph.leaves[self._order[self.cursor]]
        if leaf.node != UNKNOWN:
            return NodeWanted(leaf.node)
        places = (index for index, finding in enumerate(self._view.findings) if leaf.name in finding.leaves)
        return next((FindingOpened(index) for index in places), None)

    # ------------------------------------------------------------ order and columns

    def _ordered(self, view: View) -> Sequence[int]:
        """The order in which the pass reaches the leaves: no row moves while one steps."""
        graph, tape = view.graph, view.tape
        if graph is None or tape is None:
            return []
        if self._order_of is not tape:
            last = last_steps(graph, tape)
            self._order_of, self._order = tape, sorted(range(len(last)), key=last.__getitem__)
            self._last = sorted(last)
        return self._order

    def _fit(self, view: View) -> Columns:
        """The columns that there is room for: elements of small leaves first, then what else there is to say of a leaf."""
        graph, tape = view.graph, view.tape
        if graph is None or tape is None:
            return self._columns
        leaves = graph.leaves
        full = max([NAMES[0], *(min(len(leaf.name), NAMES[2]) + 1 for leaf in leaves)])
        fullest = max([full, *(min(len(all_names(leaf)), NAMES[2]) + 1 for leaf in leaves)])
        shape = max([7, *(len(numbers.shape(leaf.shape)) + 1 for leaf in leaves)])
        owner = max((len(_owner(leaf)) for leaf in leaves), default=0) if any(leaf.owner for leaf in leaves) else 0
        had = any(tape.leaf_before(place) != NO_TENSOR for place in range(len(graph.reached)))
        room = self.size.width - 1  # for a scroll bar
        for most in (*_sizes(leaves), 0):
            for kept in _choices(had, view.returns):
                at = _columns(most, min(full, NAMES[1]), shape, owner, had, kept)
                if at.width <= room:
                    return replace(at, name=min(fullest, at.name + room - at.width))
        return replace(at, name=max(NAMES[0], at.name + room - at.width))

    # ------------------------------------------------------------ drawing

    def draw_heading(self, line: int, width: int) -> Strip:
        at, muted = self._columns, colours.muted
        returns = self._view is not None and self._view.returns
        drawn = Line().left("leaf", at.name, muted).left("shape" if at.shape else "", at.shape, muted)
        if at.most:
            if at.was:
                drawn.left(".grad was" if at.was >= TITLED else "was", at.was, muted)
            drawn.left("returned" if returns else "so far", at.values, muted)
        else:
            if at.was:
                drawn.right("was", at.was - 1, muted).add(" ")
            drawn.right("returned" if returns else "‖grad‖", at.values - 1, muted).add(" ")
        drawn.left("from", FROM, muted)
        if at.becomes:
            drawn.left("becomes", at.becomes, muted)
        return drawn.add("owner" if at.owner else "", muted).strip(width)

    def draw(self, row: int, width: int) -> Strip:
        view, place, at = self._view, self._order[row], self._columns
        if view is None or view.graph is None or view.tape is None:
            return Strip.blank(width)
        graph, tape = view.graph, view.tape
        leaf = graph.leaves[place]
        reason = unreached(graph, tape, place)
        names = all_names(leaf) if len(all_names(leaf)) < at.name else ending(leaf.name, at.name - 1)
        letter = Flagged.of(view.findings, tape).leaf(leaf.name)
        flag = f"{letter} " if letter else ""
        line = Line().left(names, at.name - len(flag), colours.warning if reason else colours.leaf)
        line.add(flag, colours.strong_warning)
        if at.shape:
            line.left(numbers.shape(leaf.shape), at.shape, colours.text)
        if reason:
            nothing = "?" if reason == UNSEEN else "None"
            line.right(nothing, 4 if at.most else at.was + at.values - 1, colours.text).add(" ").add(reason, colours.warning)
            owner = f", {leaf.owner}" if leaf.owner else ""
            return line.add(owner if line.width + len(owner) <= width else "").strip(width, self.background(row))
        done, total = playhead.count_so_far(graph, tape, view.playhead, leaf.node, leaf.input_nr)
        if at.was:
            self._number(line, tape, tape.leaf_before(place), at.was, "None" if leaf.kind != "input" else "")
        so_far = playhead.leaf_so_far(graph, tape, view.playhead, place)
        self._number(line, tape, so_far, at.values, "⟂ none" if done and done == total else "·")
        line.left(f"{done}/{total}", FROM, colours.accent if 0 < done < total else colours.muted)
        if at.becomes:
            adds = done == total and view.accumulates(leaf)
            self._number(line, tape, tape.leaf_after(place) if adds else NO_TENSOR, at.becomes, "")
        if view.accumulates(leaf) and (hooks := late(graph, tape, leaf.node)):
            line.add(f"then {len(hooks)} hook{'s'[: len(hooks) - 1]}", colours.warning)
        elif at.owner:
            line.add(_owner(leaf), colours.muted)
        return line.strip(width, self.background(row))

    def _number(self, line: Line, tape: Tape, tensor: int, width: int, nothing: str) -> None:
        """A gradient in a column: elements from the left where they fit, else its norm; norms alone stand at the right."""
        style = colours.muted if tensor == NO_TENSOR and nothing != "None" else colours.text
        norm = "" if tensor == NO_TENSOR else numbers.norm(tape.summary(tensor).norm)
        if not self._columns.most:
            line.right(nothing if tensor == NO_TENSOR else norm, width - 1, style).add(" ")
            return
        values = tape.tensors.values(tensor) if tensor != NO_TENSOR else None
        text = nothing if tensor == NO_TENSOR else numbers.beside(values, width - 1) if values else ""
        line.left(text or (f"‖·‖ {norm}" if len(norm) + 5 < width else norm), width, style)


def _sizes(leaves: Sequence[Leaf]) -> list[int]:
    """Up to how many elements could be written out, most first: sizes that at least half of the leaves do not exceed."""
    counts = sorted(math.prod(leaf.shape) for leaf in leaves)
    return sorted({count for count in counts[(len(counts) - 1) // 2 :] if 0 < count <= WRITTEN_OUT}, reverse=True)


def _choices(had: bool, returns: bool) -> list[str]:
    """Which further columns to have, by their first letters, the best choice first; `W` and `B` with elements."""
    if returns:
        return ["so", "o", "s", ""]
    if not had:
        return ["sWo", "swo", "so", "o", "sw", "s", ""]
    return ["sWBo", "sWB", "sWo", "sW", "swbo", "swb", "swo", "wo", "sw", "w", ""]


def _columns(most: int, name: int, shape: int, owner: int, had: bool, kept: str) -> Columns:
    """A choice of columns with their widths."""
    wide = max(8 * most, TITLED) if most and had else TITLED if most else NORM
    narrow = NORM if had else NONE
    return Columns(
        most=most,
        name=name,
        shape=shape if "s" in kept else 0,
        was=wide if "W" in kept else narrow if "w" in kept else 0,
        values=max(PREFIXED, 8 * most) if most else NORM,
        becomes=wide if "B" in kept else NORM if "b" in kept else 0,
        owner=owner if "o" in kept else 0,
    )


def _owner(leaf: Leaf) -> str:
    return leaf.owner or ("no optimizer" if leaf.kind == "parameter" else "")


UNSEEN = "in a checkpoint?"
"""A reentrant checkpoint runs a backward call of its own, and may reach the leaf there."""


def unreached(graph: BackwardGraph, tape: Tape, place: int) -> str:
    """Why this pass brings nothing to a leaf; empty when it does."""
    leaf = graph.leaves[place]
    if leaf.node == UNKNOWN:
        if not leaf.requires_grad:
            return "frozen"
        return UNSEEN if reaches_unseen(graph) else "not used"
    return "" if tape.step_of(leaf.node) or tape.indices_to(leaf.node, leaf.input_nr) else "not reached"


def last_steps(graph: BackwardGraph, tape: Tape) -> list[int]:
    """By leaf: the step of the last contribution to it, beyond all steps where the pass brings it nothing."""
    return [
        max((tape.contribution_step[index] for index in tape.indices_to(leaf.node, leaf.input_nr)), default=tape.steps + 1)
        if leaf.node != UNKNOWN
        else tape.steps + 1
        for leaf in graph.leaves
    ]


def all_names(leaf: Leaf) -> str:
    """`tokens.weight = head.weight`; the same path seen from further out is no other name."""
    names = [leaf.name]
    for alias in sorted(leaf.aliases, key=len):
        if not any(alias == name or alias.endswith(f".{name}") or name.endswith(f".{alias}") for name in names):
            names.append(alias)
    return " = ".join(names)


def ending(name: str, width: int) -> str:
    """A dotted name says most at its end."""
    return name if len(name) <= width else "…" + name[len(name) - width + 1 :]
