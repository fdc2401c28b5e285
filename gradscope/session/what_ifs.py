"""What a person tries on a node beyond looking: other gradients (what-ifs), a check of its backward, pdb in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradscope.model.columns import Change
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.session.browsing import NOTHING, Browsing
from gradscope.session.passes import asked_for, repeatable, same_changes, with_seeds
from gradscope.session.seeding import scales
from gradscope.session.stepping import Walk
from gradscope.session.view import Busy, State, tries_nothing
from gradscope.session.visit import Visit

OVER = "the script is over: R runs it again"

_SCALE = re.compile(r"[*/]\s*(?!\*)(.+)")
_CLIP = re.compile(r"(?:clip|clamp|clipnorm|clip_norm)\s*\((.*)\)")


class Trying(Browsing):
    """A run whose shown pass can be tried with other gradients. What is tried never gets into the script's own call."""

    # ------------------------------------------------------------ what-ifs

    def change(self, text: str, node: int, input_nr: int, edge: int = UNKNOWN) -> None:
        """`x`: one more pass with the seeds and the what-ifs of the one shown, and this what-if.

        Args:
            text: as typed: `*0.5`, `zeros`, `clip(1)`, `none`, an expression in `g`; empty takes back the what-if that is there.
            node: whose arriving gradient to change.
            input_nr: which of its gradient slots.
            edge: change the contribution over this edge alone.
        """
        walk, text = self._walk, text.strip()
        if not self._may_explore():
            return
        if walk is None:
            self.notice = NOTHING
            return
        present = walk.tape.columns.changes
        here = [place for place, one in enumerate(present) if (one.node, one.input_nr, one.edge) == (node, input_nr, edge)]
        if not text and not here:
            self.notice = "no what-if is here"
        elif not text:
            self._with_changes(walk, _without(present, here[-1]))
        elif here and present[here[-1]].text == text and _repeatable(text):
            self.notice = f"pass {walk.tape.number} has this what-if already"
        else:
            new = Change(node, input_nr, edge, text)
            changed = [new if here and place == here[-1] else one for place, one in enumerate(present)]
            self._with_changes(walk, changed if here else [*changed, new], again=not _repeatable(text))

    def undo_change(self, place: int | None) -> None:
        """Show the pass without one what-if of those of the shown pass (by its place among them), None for without any."""
        walk = self._walk
        if walk is None or not walk.tape.columns.changes:
            self.notice = "this pass has no what-ifs" if walk else NOTHING
        elif self._may_explore():
            self._with_changes(walk, [] if place is None else _without(walk.tape.columns.changes, place))

    def _with_changes(self, walk: Walk, changes: Sequence[Change], *, again: bool = False) -> None:
        """Show the pass with the shown one's seeds and these what-ifs: one that is kept, else a new one."""
        visit = self._visits[-1]
        known = None if again else self._pass_with(visit, walk.tape, changes)
        if known is not None:
            self._show_tape(visit, known)
            self.notice = f"back to pass {known.number}: {_spoken(changes)}"
            return
        self._busy = Busy("recording a pass")
        self.notice = _spoken(changes)
        columns = walk.tape.columns
        seeds = visit.texts_of(walk.tape)
        request = self._asking.explore(
            seeds, columns.root, columns.root_input_nr, walk.tape.number, asked_for(changes), same_seeds=True
        )
        visit.asked[request] = seeds
        visit.same_seeds[request] = visit.seeded_as(walk.tape)

    def _pass_with(self, visit: Visit, like: Tape, changes: Sequence[Change]) -> Tape | None:
        """A kept pass with the seeds of that one and these what-ifs."""
        for tape in visit.stop.passes:
            if (
                tape.failure is None
                and visit.seeded_as(tape) == visit.seeded_as(like)
                and same_changes(tape.columns.changes, changes)
            ):
                return tape
        root = (like.columns.root, like.columns.root_input_nr)
        texts = ["*1" if scales(text) else text for text in visit.texts_of(like)]
        return with_seeds(visit.stop.passes, texts, root, like, visit.texts, changes)

    # ------------------------------------------------------------ one node's backward

    def check(self, node: int) -> None:
        """Compare a node's backward with numbers that do not come from it; the answer stands in `view.checks`."""
        if self._may_explore():
            self._busy = Busy(f"checking {self._name(node)}")
            self._asking.check(node, self._shown_number)

    def debug(self, node: int) -> None:
        """`i`: run the backward of a custom Function's node under pdb, in the script's terminal, on what arrives in this pass."""
        if self._may_explore():
            self._busy = Busy(f"pdb in the backward of {self._name(node)}: type in the Output pane", typing=True)
            self._asking.debug(node, self._shown_number)

    @property
    def _shown_number(self) -> int:
        return self._walk.tape.number if self._walk is not None else 0

    def _name(self, node: int) -> str:
        graph = self._here.stop.graph if self._here else None
        return graph.short(node) if graph is not None and 0 <= node < len(graph) else "this node"

    # ------------------------------------------------------------ inside

    def _may_explore(self) -> bool:
        """Whether the debuggee can run a pass now; else says why not."""
        if self.state is State.SNAPSHOT:
            self.notice = "a snapshot cannot run another pass"
        elif self.state is not State.STOPPED:
            running = self.state in (State.STARTING, State.RUNNING)
            self.notice = "the script runs: a pass can be recorded where it stops" if running else OVER
        elif not self.at_newest:
            self.notice = "the script has run on since this stop: > goes to the newest"
        elif self._busy is not None:
            self.notice = f"{self._busy.what}: Ctrl-C gives it up"
        elif any(tape.columns.kind == "committed" for tape in self._visits[-1].stop.passes):
            self.notice = tries_nothing(self._visits[-1].stop)
        else:
            self.notice = ""
        return not self.notice

    @property
    def _shown_root(self) -> tuple[int, int]:
        """The node (and its slot) that the shown pass seeds instead of the call's roots, else UNKNOWN."""
        walk = self._walk
        return (walk.tape.columns.root, walk.tape.columns.root_input_nr) if walk else (UNKNOWN, 0)


def _without(changes: Sequence[Change], place: int) -> list[Change]:
    return [change for other, change in enumerate(changes) if other != place]


def _spoken(changes: Sequence[Change]) -> str:
    if not changes:
        return "no what-ifs"
    return f"what-if: {', '.join(change.text for change in changes)}" if len(changes) < 4 else f"{len(changes)} what-ifs"


def _repeatable(text: str) -> bool:
    """Whether a what-if gives the same each time while the script stands still."""
    if scale := _SCALE.fullmatch(text):
        return repeatable(scale[1])
    if clip := _CLIP.fullmatch(text):
        return repeatable(f"({clip[1]},)")
    return repeatable(text)
