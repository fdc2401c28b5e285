"""The keys that move through what is recorded. They live while the script runs, when it is over, and in a snapshot."""

from __future__ import annotations

from collections.abc import Callable

from gradscope.session.breaks import holds
from gradscope.session.edges import Choice, Factor
from gradscope.session.landmark import Landmark
from gradscope.session.run import Run
from gradscope.session.stepping import Walk

NOTHING = "nothing is recorded yet"
NO_ROW = "select a node's row first"
FOLDED = "this row stands for several nodes: l opens it, then select one"


class Browsing(Run):
    """A run, and the person who walks through it. Each action sets `notice` to what there is to say about it."""

    def say(self, notice: str) -> None:
        """What the screen itself did at a key."""
        self.notice = notice

    # ------------------------------------------------------------ steps: playhead and selection together

    def step(self, direction: int) -> None:
        """`n` `N`: to the end of the next visible row, or of the one before."""
        self._go(lambda walk: walk.step(direction))

    def line(self, direction: int) -> None:
        """`f` `F`: to the next step that another source line made."""
        self._go(lambda walk: walk.line(direction))

    def module(self, direction: int) -> None:
        """`m` `M`: to the end or start of this module."""
        self._go(lambda walk: walk.module(direction))

    def run_to_break_or_end(self, direction: int) -> None:
        """`c` `C`: to the next breakpoint, or the end; backwards likewise."""
        self._go(lambda walk: walk.run(direction, self._met(walk).steps))
        if self._walk is not None and not self.notice:
            self.notice = self._met(self._walk).at(self._walk.playhead)

    def finding(self, direction: int) -> None:
        """`a` `A`: to the next finding or the one before, round the ends; `view.finding` tells which."""
        self.notice = self._tour.go(self._walk, self.findings, direction)
        self.playing = False

    def to_finding(self, index: int) -> None:
        """Enter on a finding (by its place in `view.findings`)."""
        self.notice = self._tour.stand(self._walk, self.findings[index])
        self.playing = False

    def to_node(self, node: int) -> None:
        """Playhead just after a node has run."""
        self._go(lambda walk: walk.to_node(node))

    def to_row(self, row: int | None = None) -> None:
        """`t`: playhead to a row, the selected one unless told."""
        self._go(lambda walk: walk.to_row(walk.selection if row is None else row))

    def to_step(self, step: int) -> None:
        """`#`: playhead to a step by its number."""
        self._go(lambda walk: walk.to_step(step))

    def play(self, on: bool | None = None) -> None:
        """`space`: play or pause; the screen calls `tick` while `view.playing`. At the end it starts over."""
        walk = self._walk
        self.playing = walk is not None and (not self.playing if on is None else on)
        self.notice = "" if walk else NOTHING
        if self.playing and walk is not None and walk.playhead == walk.tape.steps:
            walk.to_step(0)

    def tick(self) -> None:
        """One row further while playing; pauses at the end and at breakpoints."""
        walk = self._walk
        if not self.playing or walk is None:
            return
        before = walk.playhead
        walk.step(1)
        met = self._met(walk)
        self.playing = walk.playhead < walk.tape.steps and not holds(met.steps, before + 1, walk.playhead)
        self.notice = met.at(walk.playhead)

    # ------------------------------------------------------------ selection only

    def select(self, row: int) -> None:
        """A click on a row."""
        self._go(lambda walk: walk.select(row), pause=False)

    def select_playhead(self) -> None:
        """`H`: select the row of the playhead."""
        self._go(lambda walk: walk.select_playhead(), pause=False)

    def move(self, rows: int) -> None:
        """`j` `k`, PgUp PgDn: move the selection."""
        self._go(lambda walk: walk.move(rows), pause=False)

    def follow(self, toward_loss: bool) -> list[Choice]:
        """`u` `d`: select the node one edge away. Several: they are returned, largest first, for `go_to_node`."""
        walk = self._walk
        if walk is None or walk.node is None:
            self.notice = self._no_node
            return []
        choices = walk.neighbours(toward_loss)
        if not choices:
            self.notice = "a root: nothing is nearer the loss" if toward_loss else "the pass ends here"
        elif len(choices) == 1:
            self.go_to_node(choices[0].node)
        return choices if len(choices) > 1 else []

    def go_to_node(self, node: int) -> None:
        """Select a node's row, opening the folds around it."""
        self._go(lambda walk: walk.select_node(node))

    def factors(self) -> list[Factor]:
        """`p`: the gains along the heaviest path from the root to the selected node, root first."""
        walk = self._walk
        self.notice = "" if walk and walk.node is not None else self._no_node
        return walk.factors() if walk else []

    def fold(self, row: int | None = None) -> None:
        """`h`: close the group that a row heads or is in, the selected row unless told."""
        self._go(lambda walk: walk.fold(walk.selection if row is None else row), pause=False)

    def unfold(self, row: int | None = None) -> None:
        """`l`: open a closed row."""
        self._go(lambda walk: walk.unfold(walk.selection if row is None else row), pause=False)

    def toggle(self, row: int | None = None) -> None:
        """Enter on a fold: open or close it."""
        self._go(lambda walk: walk.toggle(walk.selection if row is None else row), pause=False)

    def fold_depth(self, change: int) -> None:
        """`-` `+`: fold or unfold everything by one level."""
        self._go(lambda walk: walk.fold_depth(change), pause=False)

    def toggle_plumbing(self) -> None:
        """`P`: hide the view-like nodes, or show them."""
        self._go(lambda walk: walk.toggle_plumbing(), pause=False)

    def set_search(self, text: str, typing: bool = False) -> None:
        """`/`: find nodes and groups; empty ends the search. While it is typed no fold is opened."""
        self._go(lambda walk: walk.set_search(text, typing))

    def match(self, direction: int) -> None:
        """`.` `,`: next or previous match."""
        self._go(lambda walk: walk.match(direction))

    # ------------------------------------------------------------ other passes, other stops, pins

    def show_pass(self, direction: int) -> None:
        """`{` `}`: the pass recorded before or after the one shown."""
        visit, walk = self._here, self._walk
        if visit is None or walk is None:
            self.notice = NOTHING
            return
        passes = visit.stop.passes
        place = next(i for i, tape in enumerate(passes) if tape is walk.tape) + direction
        if 0 <= place < len(passes):
            self._show_tape(visit, passes[place])
            self.notice = ""
        else:
            self.notice = "one pass so far: s edits the seed" if len(passes) == 1 else "no further pass"

    def earlier_call(self) -> None:
        """`<`: the stop before, as it was left."""
        if self._at > 0:
            self._show_stop(self._at - 1)
        else:
            self.notice = "no earlier stop is kept"

    def toggle_watch(self, node: int | None = None) -> None:
        """`w`: pin a node's gradient, the selected one unless told; again to unpin."""
        walk = self._walk
        node = walk.node if walk and node is None else node
        if walk is None or node is None:
            self.notice = self._no_node
            return
        landmark = Landmark.of(walk.graph, node)
        if landmark in self._watches:
            self._watches = tuple(other for other in self._watches if other != landmark)
            self.notice = f"{landmark.label} is not watched any more"
        else:
            self._watches = (*self._watches, landmark)
            self.notice = f"watching {landmark.label}"

    def warm(self) -> None:
        """Work out what the first keys would wait for; a thread that has the session may do it."""
        if self._walk is not None:
            self._walk.warm()

    # ------------------------------------------------------------ inside

    def _go(self, act: Callable[[Walk], str], pause: bool = True) -> None:
        walk = self._walk
        self.notice = act(walk) if walk else NOTHING
        self.playing = self.playing and not pause

    @property
    def _no_node(self) -> str:
        """What to do where an action needs a node and the selected row is none."""
        walk = self._walk
        if walk is None:
            return NOTHING
        return FOLDED if walk.rows.folded(walk.selection) else NO_ROW

    def _show_stop(self, at: int) -> None:
        self._at, self.playing, self.notice = at, False, ""
