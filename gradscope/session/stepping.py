"""Where a person stands in one recorded pass, and what each step key does there."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from gradscope.model import moves
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.modules import REPEATED, Outline
from gradscope.model.plumbing import hidden_steps
from gradscope.model.rows import Folds, Rows
from gradscope.model.search import Matches, Place
from gradscope.model.tape import Tape
from gradscope.session import edges
from gradscope.session.edges import Choice, Factor
from gradscope.session.landmark import Landmark

WARMED = 40
"""nodes that are asked for once, so that what all nodes need is there"""

AT_END = "at the end: r resumes your script"
AT_START = "at the start: n runs the first node"


class Walk:
    """Playhead, selection, folds and visible rows over one graph and the pass that is shown.

    The methods that act return what there is to say: empty when they did what the key says.
    """

    def __init__(self, graph: BackwardGraph, tape: Tape, screen_rows: int = 40) -> None:
        self.graph = graph
        self.tape = tape
        self.against: Tape | None = None
        self.folds: Folds = Folds.default(graph, tape, screen_rows)
        self.rows: Rows = Rows.build(graph, tape, self.folds)
        self.playhead = 0
        self.selection = 0
        self.search = ""
        self._began: int | None = None
        """the row at which a search began that is still being typed"""
        self._search()

    def warm(self) -> None:
        """Work out what the first keys would wait for: passes over all nodes and edges, once for a tape."""
        graph, tape = self.graph, self.tape
        for backward in (False, True):
            moves.next_line(graph, tape, tape.steps // 2, backward=backward)
            moves.end_of_module(graph, tape, tape.steps // 2, backward=backward)
        for node in (tape.node_at(step) for step in range(1, min(tape.steps, WARMED) + 1)):
            tape.first_delivery(node)
            graph.gradient_name(node)
            graph.occurrences(node)

    # ------------------------------------------------------------ step keys: playhead and selection together

    def step(self, direction: int) -> str:
        """To the end of the next visible row, or back to the end of the one before."""
        if direction > 0:
            if self.playhead >= self.tape.steps:
                return AT_END
            return self._stand(self.rows.last(self.rows.row_of_step(self.playhead + 1)))
        if self.playhead <= 0:
            return AT_START
        return self._stand(self.rows.first(self.rows.row_of_step(self.playhead)) - 1)

    def line(self, direction: int) -> str:
        """To the next step that another line of the script made."""
        return self._move(moves.next_line(self.graph, self.tape, self.playhead, backward=direction < 0), direction)

    def module(self, direction: int) -> str:
        """To the end of the module the playhead is in, or back to its start."""
        return self._move(moves.end_of_module(self.graph, self.tape, self.playhead, backward=direction < 0), direction)

    def run(self, direction: int, stops: Sequence[int]) -> str:
        """To the next of `stops` (steps with a breakpoint, ascending), else to the end; backwards likewise."""
        if self.playhead == (self.tape.steps if direction > 0 else 0):
            return AT_END if direction > 0 else AT_START
        target = moves.next_break(self.tape, self.playhead, stops, backward=direction < 0)
        place = bisect_left(stops, target)
        met = place < len(stops) and stops[place] == target
        return self.to_node(self.tape.node_at(target)) if met else self._stand(target)

    def to_step(self, step: int) -> str:
        if not 0 <= step <= self.tape.steps:
            return f"there is no step {step}: this pass has {self.tape.steps}"
        return self._stand(step)

    def to_row(self, row: int) -> str:
        """The playhead to the end of a visible row."""
        return self._stand(max(0, self.rows.last(self._row(row))))

    def to_node(self, node: int) -> str:
        """The playhead just after a node has run."""
        step = self.tape.step_of(node)
        if not step:
            return f"{self.graph.label(node)} does not run in this pass"
        self._reveal(node)
        return self._stand(step)

    # ------------------------------------------------------------ selection only

    def select(self, row: int) -> str:
        self.selection = self._row(row)
        return ""

    def select_playhead(self) -> str:
        return self.select(self.rows.row_of_step(self.playhead))

    def move(self, rows: int) -> str:
        return self.select(self.selection + rows)

    def select_node(self, node: int) -> str:
        """Select a node's row, opening the folds around it."""
        step = self.tape.step_of(node)
        if not step:
            return f"{self.graph.label(node)} does not run in this pass"
        self._reveal(node)
        return self.select(self.rows.row_of_step(step))

    @property
    def node(self) -> int | None:
        """The node that the selection stands for; None on the seed's row."""
        node = self.rows.node(self.selection)
        return None if node < 0 else node

    # ------------------------------------------------------------ folds

    def fold(self, row: int) -> str:
        """Close the group that a row heads, else the one around it; a leaf goes back into its consumer's row."""
        row = self._row(row)
        key = self.rows.outer_key(row) if self.rows.folded(row) else self.rows.key(row)
        if key is not None:
            return self._refold(self.folds.close(key))
        leaf = self.rows.node(row) >= 0 and self.graph.is_accumulate(self.rows.node(row))
        return self._refold(self.folds.with_leaves(True)) if leaf and self.folds.outline else "nothing to fold here"

    def unfold(self, row: int) -> str:
        """Open a closed group; where leaves are shown with their consumer, give them rows."""
        row = self._row(row)
        key = self.rows.key(row)
        if self.rows.folded(row) and key is not None:
            return self._refold(self.folds.open(key), heading=key)
        if self.rows.folded(row) is None and self.rows.leaf_count(row):
            return self._refold(self.folds.with_leaves(False))
        return "nothing to open here"

    def toggle(self, row: int) -> str:
        """Open what is closed, close what is open."""
        return self.unfold(row) if self.rows.folded(self._row(row)) else self.fold(row)

    def fold_depth(self, change: int) -> str:
        """Open everything one level more, or close it one level."""
        folds = self.folds.by_depth(self.graph, self.tape, change)
        if folds is None:
            return "all is unfolded" if change > 0 else "all is folded"
        here = self.rows.row_of_step(self.playhead) == self.selection
        self._refold(folds)
        if here:
            self.select_playhead()
        return f"open to depth {folds.depth}" if folds.outline else "all unfolded"

    def toggle_plumbing(self) -> str:
        """Hide the view-like nodes, or show them again."""
        self._refold(self.folds.with_plumbing(not self.folds.plumbing))
        if not self.folds.plumbing:
            return "view-like nodes are shown"
        return (
            f"{self.rows.hidden} view-like nodes hidden: P shows them" if self.rows.hidden else "no view-like node to hide here"
        )

    # ------------------------------------------------------------ search

    def set_search(self, text: str, typing: bool = False) -> str:
        """Search nodes and groups; the selection goes to the first match at or below where the search began.

        Args:
            text: empty ends the search.
            typing: there is more to come: no fold is opened for it.
        """
        start = self.selection if self._began is None else self._row(self._began)
        self.search = text
        self._search()
        place = self.matches.at_or_after(start) or self.matches.first
        if place is None:
            self.selection = start
            said = f"nothing matches {text}" if text else ""
        else:
            said = self._to_match(place, opening=not typing)
        self._began = start if typing else None
        return said

    def match(self, direction: int) -> str:
        """To the next or previous match, round the ends; what hides it is opened."""
        found = self.matches
        if not found:
            return f"nothing matches {self.search}" if self.search else "nothing is searched for: / searches"
        place = found.after(self.selection) if direction > 0 else found.before(self.selection)
        if place is not None:
            return self._to_match(place)
        turned = found.first if direction > 0 else found.last
        assert turned is not None
        return f"{self._to_match(turned)}, again from the {'top' if direction > 0 else 'bottom'}"

    def _to_match(self, place: Place, opening: bool = True) -> str:
        step, row = place
        said = f"{self.search}: {self.matches.number(place):,} of {len(self.matches):,}"
        if row >= 0:
            self.selection = row
            return said
        if opening and step:
            self._reveal(self.tape.node_at(step))
        self.selection = self.rows.row_of_step(step)
        return said

    def _search(self) -> None:
        self.matches = Matches(self.rows, self.graph, self.tape, self.search)

    # ------------------------------------------------------------ edges

    def neighbours(self, toward_loss: bool) -> list[Choice]:
        """The nodes one edge away from the selected one, largest contribution first; hidden ones are passed through."""
        hidden = hidden_steps(self.graph, self.tape) if self.folds.plumbing else None
        return [] if self.node is None else edges.neighbours(self.graph, self.tape, self.node, toward_loss, hidden)

    def factors(self) -> list[Factor]:
        """Gains along the heaviest path from the root to the selected node, root first."""
        return [] if self.node is None else edges.factors(self.graph, self.tape, self.node)

    # ------------------------------------------------------------ another pass, another call

    def show(self, tape: Tape, against: Tape | None) -> None:
        """Show another pass over the same graph; the playhead stays after the same node."""
        node = self.tape.node_at(self.playhead) if self.playhead else None
        same_order = tape.order == self.tape.order
        at_end = self.playhead == self.tape.steps
        selected = self.node
        self.tape, self.against = tape, against
        if same_order:
            return  # rows and matches are those of the other pass
        self._rebuild(self.folds)
        step = 0 if node is None else tape.step_of(node)
        self.playhead = tape.steps if at_end else step or min(self.playhead, tape.steps)
        target = tape.step_of(selected) if selected is not None else 0
        self.selection = self.rows.row_of_step(target or 0)

    def align(self, other: Walk) -> None:
        """Stand where the person stood in the call before: same folds, and the same node where this graph has it."""
        self._rebuild(self.folds.like(other.folds))
        if other.playhead == other.tape.steps:
            self.playhead = self.tape.steps
        elif other.playhead:
            node = Landmark.of(other.graph, other.tape.node_at(other.playhead)).find(self.graph)
            self.playhead = 0 if node is None else self.tape.step_of(node)
        selected = None if other.node is None else Landmark.of(other.graph, other.node).find(self.graph)
        self.selection = self.rows.row_of_step(self.tape.step_of(selected) if selected is not None else 0)

    # ------------------------------------------------------------ inside

    def _stand(self, step: int) -> str:
        self.playhead = step
        self.selection = self.rows.row_of_step(step)
        return ""

    def _move(self, step: int, direction: int) -> str:
        if step == self.playhead:
            return AT_END if direction > 0 else AT_START
        return self._stand(step)

    def _row(self, row: int) -> int:
        return min(max(row, 0), len(self.rows) - 1)

    def _reveal(self, node: int) -> None:
        """Open folds until the node has a row of its own; of a series of alike blocks only the one that holds it."""
        step = self.tape.step_of(node)
        if self._has_row(step):
            return
        hidden = self.folds.plumbing and hidden_steps(self.graph, self.tape)[step]
        folds, groups = (
            self.folds.with_plumbing(self.folds.plumbing and not hidden),
            list(Outline.of(self.graph, self.tape).around(step)),
        )
        for place, group in enumerate(groups, 1):
            if group.kind != REPEATED or place == len(groups):
                folds = folds.open(group.key)
        self._refold(folds)
        if not self._has_row(step):
            self._refold(self.folds.with_leaves(False))

    def _has_row(self, step: int) -> bool:
        return self.rows.node(self.rows.row_of_step(step)) == self.tape.node_at(step)

    def _refold(self, folds: Folds, heading: str = "") -> str:
        """Make the rows anew; the selection stays on its step, or on the heading of the group just opened."""
        step = self.rows.head(self.selection)
        self._rebuild(folds)
        self.selection = row = self.rows.row_of_step(step)
        while heading and row > 0 and self.rows.folded(row - 1) is False and self.rows.first(row - 1) == step:
            row -= 1
            if self.rows.key(row) == heading:
                self.selection = row
        return ""

    def _rebuild(self, folds: Folds) -> None:
        self.folds = folds
        self.rows = Rows.build(self.graph, self.tape, folds)
        self._search()
