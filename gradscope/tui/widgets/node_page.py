"""What the Node pane writes for a row: its title, its Step tab, and which tensor is too big to stand there in full."""

from __future__ import annotations

from textual.content import Content

from gradscope.model import playhead
from gradscope.model.rows import LEAVES
from gradscope.model.tensors import INLINE_VALUES, NO_TENSOR
from gradscope.session.view import View
from gradscope.tui.colours import MUTED, WARNING
from gradscope.tui.widgets import check_block, made_at
from gradscope.tui.widgets.step_group import GroupPage
from gradscope.tui.widgets.step_tab import SLOTS_SHOWN, STRONG, StepPage

WAITING = {
    "starting": "your script starts",
    "running": "your script runs: the next backward call stops it",
    "stopped": "nothing was recorded at this stop",
    "ended": "your script is over; no backward call was recorded",
    "crashed": "your script died; no backward call was recorded",
    "snapshot": "this snapshot holds no tape here",
}


def title(view: View) -> str:
    """`SinBackward0   b = x.sin()   step 2`; of a group `attn Attention  h.5, steps 27-68`."""
    graph, tape, rows = view.graph, view.tape, view.rows
    if graph is None or tape is None or rows is None:
        return "Node"
    node, label = rows.node(view.selection), rows.label(view.selection)
    if node < 0:
        first, last = rows.first(view.selection), rows.last(view.selection)
        return label if last <= 0 else f"{label}   step {first}" if first == last else f"{label}   steps {first}-{last}"
    step = tape.step_of(node)
    occurrence = f"  #{graph.occurrence(node)}" if graph.occurrences(node) > 1 else ""
    parts = [label, graph.makes(node) + occurrence, f"step {step}" if step else "does not run"]
    return "   ".join(part for part in parts if part)


def write(view: View, width: int) -> list[Content]:
    """The Step tab of the selected row."""
    return fitting(view, width)[0]


def fitting(view: View, width: int, frames: bool = False) -> tuple[list[Content], int]:
    """The Step tab, and of how many elements the tensors are at most that it writes out: where they do not fit it has norms.

    `frames` unfolds the library frames of the node's line.
    """
    most = INLINE_VALUES
    while True:
        page = _page(view, most, frames)
        if page is None:
            return _nothing(view), 0
        lines = page.ledger.draw(width, cut=not page.largest)
        if lines is not None:
            return lines, most
        most = page.largest - 1


def main_tensor(view: View) -> tuple[str, int]:
    """The tensor that a row is about, and its name: what arrives there, or has by now."""
    graph, tape, rows = view.graph, view.tape, view.rows
    if graph is None or tape is None or rows is None:
        return "", NO_TENSOR
    node = rows.node(view.selection)
    if node < 0 and rows.last(view.selection) <= 0:
        return "seed", tape.seeds[0].tensor if tape.seeds else NO_TENSOR
    if node < 0:
        step = rows.first(view.selection)
        return "arrives", tape.arrived_at(step) if step <= view.playhead else NO_TENSOR
    if graph.leaf_at(node) is not None:
        return "so far", playhead.shown(graph, tape, view.playhead, node)
    return "arrives", playhead.shown(graph, tape, view.playhead, node)


def big_tensor(view: View, most: int) -> int:
    """The row's tensor when its elements do not stand on the page; NO_TENSOR otherwise."""
    _, tensor = main_tensor(view)
    if tensor == NO_TENSOR or view.tape is None or not view.tape.tensors.shape(tensor):
        return NO_TENSOR
    return NO_TENSOR if view.tape.tensors.numel(tensor) <= most and view.tape.tensors.values(tensor) else tensor


def values_title(view: View, index: str) -> Content:
    name, _ = main_tensor(view)
    return Content.assemble(("values ", STRONG), f"{name}{index}", ("   v full screen", MUTED))


def remark(text: str) -> Content:
    return Content.styled(f"  {text}", WARNING)


def _page(view: View, most: int, frames: bool) -> StepPage | None:
    graph, tape, rows = view.graph, view.tape, view.rows
    if graph is None or tape is None or rows is None:
        return None
    page = StepPage(view, graph, tape, most)
    node = rows.node(view.selection)
    first, last = rows.first(view.selection), rows.last(view.selection)
    leaf = None if node < 0 else graph.leaf_at(node)
    if last <= 0:
        page.seed()
    elif rows.kind(view.selection) == LEAVES:
        page.several([tape.node_at(step) for step in range(first, min(last, first + SLOTS_SHOWN) + 1)], last - first + 1)
    elif node < 0:
        GroupPage(page, first, last).write()
    elif leaf is not None:
        page.leaf(leaf)
    else:
        page.node(node)
        if node in view.checks:
            check_block.write(page.ledger, view.checks[node])
        made_at.write(page, node, frames)
    return page


def _nothing(view: View) -> list[Content]:
    lines = [Content.styled(WAITING[view.state.value], MUTED)]
    if view.stop is not None and view.stop.refusal:
        lines.append(Content.styled(view.stop.refusal, WARNING))
    return lines
