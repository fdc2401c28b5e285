"""The Saved tab: what a node keeps for its backward, and which nodes keep the memory of a group or of the whole graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from textual.content import Content

from gradscope.model.places import UNKNOWN
from gradscope.model.saved import EDITED, FREED, HERE, PACKED, RECOMPUTED, Saved, SavedTable
from gradscope.model.tensors import Summary, TensorTable
from gradscope.session.view import State, View
from gradscope.tui import numbers
from gradscope.tui.colours import MUTED, TEXT, WARNING
from gradscope.tui.widgets import keepers, slice_grid
from gradscope.tui.widgets.corners import Part
from gradscope.tui.widgets.jumps import leads
from gradscope.tui.widgets.ledger import Ledger
from gradscope.tui.widgets.selected import Selected, selected
from gradscope.tui.widgets.slice_grid import Slice

STRONG = f"bold {TEXT}"

STATES = {
    HERE: "",
    FREED: "freed: the script's call has used it up",
    PACKED: "packed by a saved-tensor hook; it is not unpacked for this page",
    RECOMPUTED: "not kept: checkpoint makes it anew when the backward needs it",
    EDITED: "edited in place since it was saved: torch will refuse to use it",
}

CORNERS = 6
"""big tensors of a node whose corner is shown"""

ROWS = 5
"""rows of each corner"""

SHARED_SHOWN = 4

COUNTED = 4_000
"""steps of a group whose saved tensors are counted for the tab's name"""


@dataclass(frozen=True, slots=True)
class Big:
    """A saved tensor whose corner is shown."""

    node: int
    place: int
    """among the node's saved tensors"""
    shape: tuple[int, ...]
    dtype: str


# ---------------------------------------------------------------- what there is, and what must be asked for


def count(view: View) -> int | None:
    """How many tensors the selected row keeps; None where that is not known, or takes long to count."""
    row, table = selected(view), view.saved
    if row is None or table is None:
        return None
    if row.whole:
        return len(table)
    return sum(len(table.rows_of(node)) for node in row.nodes) if row.last - row.first < COUNTED else None


def lacks_table(view: View) -> bool:
    """Whether the debuggee must be asked what the nodes keep."""
    return view.saved is None and view.graph is not None and _live(view)


def lacks_node(view: View) -> int | None:
    """The node that must be looked into."""
    row = selected(view)
    if row is None or row.node is None or not _live(view):
        return None
    return None if row.node in view.inspected or row.graph.is_accumulate(row.node) else row.node


def corners_wanted(view: View) -> list[Big]:
    """The tensors of the selected node that are too big to come along with what is known of it."""
    row = selected(view)
    inspected = None if row is None or row.node is None else view.inspected.get(row.node)
    if inspected is None or not _live(view):
        return []
    table = TensorTable(inspected.tensors)
    bigs = [
        Big(inspected.node, place, table.shape(tensor), table.dtype(tensor))
        for tensor, place in enumerate(inspected.places)
        if table.values(tensor) is None and table.numel(tensor)
    ]
    return bigs[:CORNERS]


def _live(view: View) -> bool:
    return view.state is State.STOPPED and view.stop_number == view.stops


# ---------------------------------------------------------------- the page


def write(view: View, width: int, parts: Mapping[int, Part], order: str) -> list[Content]:
    """What the selected row keeps.

    Args:
        view: what is shown.
        width: of the lines.
        parts: corners of big tensors, by their places among those of the node.
        order: one of `keepers.ORDERS`.
    """
    row, table = selected(view), view.saved
    if row is None:
        return [Content.styled("nothing is recorded here", MUTED)]
    if table is None:
        return [Content.styled(_why_nothing(view), MUTED)]
    if row.node is None:
        return keepers.write(row, table, width, order)
    ledger = Ledger()
    _node(ledger, view, row, table, row.node, parts, width)
    lines = ledger.draw(width, cut=True)
    assert lines is not None
    return lines


def _why_nothing(view: View) -> str:
    if _live(view):
        return "asking what the nodes keep…"
    if view.state is State.SNAPSHOT:
        return "the snapshot was saved without it"
    return "nobody asked while the script stood here, and it has run on since"


def _node(ledger: Ledger, view: View, row: Selected, table: SavedTable, node: int, parts: Mapping[int, Part], width: int) -> None:
    saved = table.of_node(node)
    own, every = table.bytes_of_node(node, own=True), table.bytes_of_node(node)
    if saved:
        ledger.line(("held for backward", STRONG), f"  {numbers.size(every)}")
        if own != every:
            ledger.line((f"  freed with the graph: {numbers.size(own)}", MUTED))
    else:
        ledger.line(("keeps no tensors for backward", MUTED))
    if why := table.why_untold(node):
        ledger.words(why, WARNING)
    for place, one in enumerate(saved):
        ledger.line()
        _tensor(ledger, row, one)
        _content(ledger, view, node, place, parts.get(place), width)
    if node in view.inspected:
        _attributes(ledger, view, node)
    elif not row.graph.is_accumulate(node):
        ledger.line()
        ledger.line(("asking for its values…" if _live(view) else "its values were not looked at while it was here", MUTED))


def _tensor(ledger: Ledger, row: Selected, one: Saved) -> None:
    """Name, type, size; then what a person must know of it."""
    what = "" if one.shape is None else f"  {one.dtype} {numbers.shape(one.shape)}"
    size = "" if one.storage == UNKNOWN else f"   {numbers.size(one.bytes)}"
    ledger.line((one.name, STRONG), what, (size + (f" on {one.device}" if one.device not in ("", "cpu") else ""), MUTED))
    if STATES[one.state]:
        ledger.words(f"  {STATES[one.state]}", WARNING if one.state == EDITED else MUTED)
    moved = one.version_saved >= 0 and one.version_now != one.version_saved
    version = f"version {one.version_saved} when saved, {one.version_now} now" if moved else f"version {one.version_now}"
    facts = [(version, WARNING if moved else MUTED)] if one.version_saved >= 0 and one.shape is not None else []
    if one.owner:
        facts.append((f"the memory of {one.owner}", MUTED))
    if facts:
        ledger.line("  ", Content("   ").join(Content.styled(*fact) for fact in facts))
    for node in one.shared[:SHARED_SHOWN]:
        step = row.tape.step_of(node)
        text = f"  kept by {row.graph.short(node)} too" + (f", step {step}" if step else "")
        ledger.line(leads(Content.styled(text, MUTED), node))
    if len(one.shared) > SHARED_SHOWN:
        ledger.line((f"  and by {len(one.shared) - SHARED_SHOWN} more", MUTED))


def _content(ledger: Ledger, view: View, node: int, place: int, part: Part | None, width: int) -> None:
    """Values, or the summary and the corner."""
    inspected = view.inspected.get(node)
    if inspected is None or place not in inspected.places:
        return
    tensor = inspected.places.index(place)
    summary = TensorTable(inspected.tensors).summary(tensor)
    values = summary.values
    if values is not None and len(values) == 1:
        ledger.line("  ", numbers.short(values[0]))
        return
    _summary(ledger, summary)
    if values is not None:
        part = Slice(tuple((0, extent, 1) for extent in summary.shape), summary.shape, values)
    if isinstance(part, Slice):
        if summary.values is None:
            ledger.line((f"  {slice_grid.spoken(part.index, summary.shape)}", MUTED))
        for line in slice_grid.write(part, width, ROWS + 1):
            ledger.line(line)
    elif part is not None:
        ledger.words(f"  {part}", WARNING)


def _summary(ledger: Ledger, summary: Summary) -> None:
    counts = [("norm", f"‖·‖ {numbers.norm(summary.norm)}", TEXT)]
    if summary.min is not None:
        counts.append(("range", f"min {numbers.norm(summary.min)}  max {numbers.norm(summary.max)}", TEXT))
    if summary.mean is not None and not math.isnan(summary.mean):
        counts.append(("mean", f"mean {numbers.norm(summary.mean)}", MUTED))
    for name, found in (("NaN", summary.nan), ("inf", summary.inf)):
        if found:
            counts.append((name, f"{name}: {found}", WARNING))
    if summary.zero:
        counts.append(("0", f"0: {summary.zero}", MUTED))
    ledger.line("  ", Content("  ").join(Content.styled(text, style) for _, text, style in counts))
    if summary.note:
        ledger.words(f"  {summary.note}", MUTED)


def _attributes(ledger: Ledger, view: View, node: int) -> None:
    """All else that the node keeps, and what could not be read."""
    inspected = view.inspected[node]
    if inspected.attributes:
        ledger.line()
    room = max((len(name) for name, _ in inspected.attributes), default=0)
    for name, value in inspected.attributes:
        ledger.line((name.ljust(room), MUTED), f"  {value}")
    for note in inspected.notes:
        ledger.words(note, MUTED)
