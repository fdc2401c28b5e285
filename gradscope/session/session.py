"""What a person can do with a run: one method a key. Every other way to change the model is a report (`Run.handle`)."""

from __future__ import annotations

import os
from collections.abc import Callable

from gradscope.errors import GradscopeError, UsageError
from gradscope.findings.finding import Finding
from gradscope.model import conditions
from gradscope.model.columns import UNKNOWN
from gradscope.model.report import Report
from gradscope.model.tape import Tape
from gradscope.protocol import messages as m
from gradscope.session import reporting, seeding, slices
from gradscope.session.asking import Fetched
from gradscope.session.run import Run, Visit
from gradscope.session.stepping import Choice, Factor, Landmark, Walk
from gradscope.session.view import Busy, State

NOTHING = "nothing is recorded yet"
RUNNING = "the script runs: only what was recorded can be looked at"


class Session(Run):
    """A run, and the person who walks through it. Each action sets `notice` to what there is to say about it."""

    @classmethod
    def from_snapshot(cls, report: Report[Finding]) -> Session:
        """A session over what a `.gscope` file holds."""
        session = cls(report.script, report.arguments)
        session.state = State.SNAPSHOT
        session._python, session._torch = report.python, report.torch
        session._outside = list(report.findings)
        for stopped in report.stops:
            visit = Visit(reporting.stop_of(stopped), tensors=dict(stopped.tensors))
            session._visits.append(visit)
            session._sources.add(stopped.sources)
            if visit.stop.graph is not None and visit.stop.passes:
                session._begin_walk(visit, visit.stop.passes[0])
        session._calls = len(session._visits)
        session._at = min(0, len(session._visits) - 1)
        return session

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
        self._go(lambda walk: walk.run(direction, self._break_steps(walk)))

    def finding(self, direction: int) -> None:
        """`a` `A`: to the step of the next finding."""
        self._go(lambda walk: walk.finding(direction, self.findings))

    def to_finding(self, index: int) -> None:
        """Enter on a finding (by its place in `view.findings`)."""
        node = self.findings[index].node
        self._go(lambda walk: walk.to_node(node) if node != UNKNOWN else "this finding has no node in the graph")

    def to_row(self, row: int | None = None) -> None:
        """`t`: playhead to a row, the selected one unless told."""
        self._go(lambda walk: walk.to_row(walk.selection if row is None else row))

    def to_step(self, step: int) -> None:
        """`#`: playhead to a step by its number."""
        self._go(lambda walk: walk.to_step(step))

    def play(self, on: bool | None = None) -> None:
        """`space`: play or pause; the screen calls `tick` while `view.playing`."""
        self.playing = (not self.playing if on is None else on) and self._walk is not None
        self.notice = "" if self._walk else NOTHING
        walk = self._walk
        if self.playing and walk is not None and walk.playhead == walk.tape.steps:
            walk.to_step(0)  # playing from the end starts over

    def tick(self) -> None:
        """One row further while playing; pauses at the end and at breakpoints."""
        walk = self._walk
        if not self.playing or walk is None:
            return
        before = walk.playhead
        walk.step(1)
        if walk.playhead == walk.tape.steps or any(before < step <= walk.playhead for step in self._break_steps(walk)):
            self.playing = False

    # ------------------------------------------------------------ selection only

    def select(self, row: int) -> None:
        self._go(lambda walk: walk.select(row), pause=False)

    def select_playhead(self) -> None:
        """`H`: select the row of the playhead."""
        self._go(lambda walk: walk.select_playhead(), pause=False)

    def move(self, rows: int) -> None:
        """`j` `k`, PgUp PgDn: move the selection."""
        self._go(lambda walk: walk.move(rows), pause=False)

    def follow(self, toward_loss: bool) -> list[Choice]:
        """`u` `d`: select the node one edge away. Several: they are returned, largest first, for `go_to_node`."""
        if self._walk is None:
            self.notice = NOTHING
            return []
        choices = self._walk.neighbours(toward_loss)
        if len(choices) == 1:
            self.go_to_node(choices[0].node)
        elif not choices:
            self.notice = "nothing nearer the loss" if toward_loss else "the pass ends here"
        return choices if len(choices) > 1 else []

    def go_to_node(self, node: int) -> None:
        """Select a node's row, opening folds around it."""
        self._go(lambda walk: walk.select_node(node))

    def factors(self) -> list[Factor]:
        """`p`: the gains along the heaviest path from the root to the selected node, root first."""
        return self._walk.factors() if self._walk else []

    def fold(self, row: int | None = None) -> None:
        """`h`: close a row, the selected one unless told."""
        self._fold(row, True)

    def unfold(self, row: int | None = None) -> None:
        """`l`: open a row."""
        self._fold(row, False)

    def toggle(self, row: int | None = None) -> None:
        self._fold(row, None)

    def set_search(self, text: str) -> None:
        """`/`: find rows; empty ends the search."""
        self._go(lambda walk: walk.set_search(text))

    def match(self, direction: int) -> None:
        """`.` `,`: next or previous match."""
        self._go(lambda walk: walk.match(direction))

    # ------------------------------------------------------------ seeds and passes

    def explore(self, seeds: list[str], root: int | None = None, input_nr: int = 0) -> None:
        """Run one more pass with these seeds, one text a root; `root` seeds the tensor that a node made instead."""
        if self._may_explore():
            texts = [m.SeedText(text) for text in seeds]
            self._busy = Busy("recording a pass")
            self._asking.explore(texts, UNKNOWN if root is None else root, input_nr)

    def set_cell(self, root: int, index: int, text: str) -> None:
        """Type one cell of a root's seed anew (row-major index); the other roots keep the seeds they show."""
        walk = self._walk
        if walk is None:
            self.notice = NOTHING
            return
        values = seeding.cells(walk.tape, root)
        if values is None:
            self.notice = "too many cells: s edits the seed as a whole"
            return
        texts = [seed.text for seed in seeding.texts(walk.tape)]
        texts[root] = seeding.with_cell(values, index, text).text
        self.explore(texts, *self._shown_root(walk.tape))

    def jacobian_row(self, direction: int, root: int = 0) -> None:
        """`(` `)`: previous or next row of the Jacobian."""
        walk = self._walk
        if walk is None or not walk.tape.seeds:
            self.notice = NOTHING
            return
        row = seeding.jacobian_row(walk.tape, direction, root)
        if row.count == 0:
            self.notice = "the root is empty: its Jacobian has no rows"
        elif self._may_explore():
            self.explore([seed.text for seed in row.seeds], *self._shown_root(walk.tape))
            self.notice = f"row {row.index} of {row.count}" + (", around the end" if row.wrapped else "")

    def seed_selected(self) -> None:
        """`S`: seed the tensor of the selected row with ones instead of the root."""
        walk = self._walk
        node = walk.node if walk else None
        if walk is None or node is None:
            self.notice = "select a node's row first" if walk else NOTHING
            return
        slot = next((input_nr for input_nr, tensor in walk.tape.arrivals(node) if tensor >= 0), 0)
        self.explore(["ones"], node, slot)

    def pick_root(self, tensor: int, seed: str = "") -> None:
        """At a stop without a call: differentiate the live tensor with this place in `view.stop.live`."""
        if self._may_explore():
            self._busy = Busy("recording the backward pass")
            self._asking.pick_root(tensor, seed)

    def show_pass(self, direction: int) -> None:
        """`{` `}`: the pass recorded before or after the one shown."""
        visit, walk = self._here, self._walk
        if visit is None or walk is None:
            self.notice = NOTHING
            return
        passes = visit.stop.passes
        place = next(i for i, tape in enumerate(passes) if tape is walk.tape) + direction
        if not 0 <= place < len(passes):
            self.notice = "only your script's own pass: s edits the seed" if len(passes) == 1 else "no further pass"
            return
        self.show_tape(passes[place])
        self.notice = ""

    @property
    def can_resume_edited(self) -> bool:
        """Whether resuming must ask which seed the script's call gets."""
        walk = self._visits[-1].walk if self._visits and self.state is State.STOPPED else None
        return walk is not None and walk.tape.edited and walk.tape.columns.root == UNKNOWN

    # ------------------------------------------------------------ going on

    def resume(self, edited: bool = False) -> None:
        """`r`: the script runs on to its next stop or end.

        The next stop is where a breakpoint's condition is met, or the later call or line that `--stop-at` names; without either
        the script runs to its end. (`>` stops at the very next backward call.)
        """
        self._resume(edited, self._next_stop())

    def on_next_call(self, edited: bool = False) -> None:
        """`>`: to the later stop if an earlier one is shown, else the script runs to its next backward call."""
        if not self.at_newest:
            self._show_stop(self._at + 1)
        else:
            self._resume(edited, "next")

    def earlier_call(self) -> None:
        """`<`: the stop before, as it was left."""
        if self._at <= 0:
            self.notice = "no earlier stop is kept"
        else:
            self._show_stop(self._at - 1)

    def interrupt(self) -> None:
        """Ctrl-C: gives up a pass under way; else first stop at the next backward call, then interrupt, then kill."""
        if self._busy is not None and self.state is State.STOPPED and not self._interrupts:
            self._interrupts = 1
            self.send(m.Cancel())
            self.notice = "giving up this pass"
        elif self.state not in (State.STARTING, State.RUNNING, State.STOPPED):
            self.notice = "the script is over"
        elif self.state is State.STOPPED and self._busy is None:
            self.notice = "the script stands still: q stops it"
        else:
            self._interrupts += 1
            self._interrupt_level(self._interrupts)

    def _interrupt_level(self, level: int) -> None:
        if level == 1:
            self.send(m.StopSoon())
            self.notice = "stops at the next backward call; again to interrupt the script"
        elif level == 2:
            self.signal_script()
            self.notice = "interrupted; again to kill it"
        else:
            self.kill_script()
            self.notice = "killed"

    # ------------------------------------------------------------ breakpoints and watches

    def add_break(self, text: str) -> None:
        """Add a condition as `--break` takes it.

        Raises:
            UsageError: it is none.
        """
        try:
            condition = conditions.parse(text)
        except ValueError as error:
            raise UsageError(f"{text}: no condition", str(error)) from error
        if condition.text in self._breaks:
            self.notice = f"{condition.text} is set already"
        else:
            self._set_breaks([*self._breaks, condition.text])

    def remove_break(self, text: str) -> None:
        self._set_breaks([other for other in self._breaks if other != text])

    def toggle_break(self) -> None:
        """`b`: a breakpoint at the selected row: on its line where that is known, else on its step."""
        walk = self._walk
        node = walk.node if walk else None
        if walk is None or node is None:
            self.notice = "select a node's row first" if walk else NOTHING
            return
        origin = walk.graph.origin(node)
        text = f"{os.path.basename(origin.file)}:{origin.line}" if origin else f"step:{walk.tape.step_of(node)}"
        if text in self._breaks:
            self.remove_break(text)
            self.notice = f"no breakpoint at {text} any more"
        else:
            self._set_breaks([*self._breaks, text])
            self.notice = f"breakpoint at {text}"

    def toggle_watch(self, node: int | None = None) -> None:
        """`w`: pin a node's gradient, the selected one unless told; again to unpin."""
        walk = self._walk
        node = walk.node if walk and node is None else node
        if walk is None or node is None:
            self.notice = "select a node's row first" if walk else NOTHING
            return
        landmark = Landmark.of(walk.graph, node)
        if landmark in self._watches:
            self._watches.remove(landmark)
            self.notice = f"{landmark.label} is not watched any more"
        else:
            self._watches.append(landmark)
            self.notice = f"watching {landmark.label}"

    # ------------------------------------------------------------ tensors

    def fetch(self, tape: Tape, tensor: int, index: list[tuple[int, int, int]], done: Fetched) -> None:
        """Get a slice of a tensor: at once where it is here already, else when the debuggee has sent it."""
        cells = self._at_hand(tape, tensor, index)
        if cells is not None:
            done(m.TensorSlice(0, slices.shape_of(index), cells))
        elif self.live and self._here is not None and tape in self._here.stop.passes:
            self._asking.fetch(tape.number, tensor, index, done)
        else:
            why = "the snapshot was saved without it" if self.state is State.SNAPSHOT else "the script has run on since"
            done(GradscopeError("that tensor is gone", why, "its summary stays; E saves tensors while the script is stopped"))

    def collect(self, done: Callable[[list[int]], None]) -> None:
        """Fetch all tensors of the stop shown, for a report that is to hold them; `done` gets those that could not be had."""
        visit = self._here
        if visit is None or not self.live:
            done([])
            return
        missing: list[int] = []
        wanted = [(tape.number, held_tensors(tape)) for tape in visit.stop.passes]
        left = len(wanted)

        def one_done(lost: list[int]) -> None:
            nonlocal left
            left -= 1
            missing.extend(lost)
            if not left:
                done(missing)

        if not wanted:
            done([])
        for number, tensors in wanted:
            self._asking.tensors(number, tensors, one_done)

    # ------------------------------------------------------------ inside

    @property
    def _walk(self) -> Walk | None:
        return self._here.walk if self._here else None

    def _go(self, act: Callable[[Walk], str], pause: bool = True) -> None:
        walk = self._walk
        self.notice = act(walk) if walk else NOTHING
        self.playing = self.playing and not pause

    def _fold(self, row: int | None, closed: bool | None) -> None:
        self._go(lambda walk: walk.fold(walk.selection if row is None else row, closed))

    def _may_explore(self) -> bool:
        """Whether the debuggee can run a pass now; else says why not."""
        if self.state is State.SNAPSHOT:
            self.notice = "a snapshot cannot run another pass"
        elif self.state is not State.STOPPED:
            self.notice = RUNNING if self.state is State.RUNNING else "the script is over: R runs it again"
        elif not self.at_newest:
            self.notice = "the script has run on since this stop: > to the newest"
        elif self._busy is not None:
            self.notice = f"{self._busy.what}: one pass at a time"
        else:
            self.notice = ""
        return not self.notice

    def _shown_root(self, tape: Tape) -> tuple[int | None, int]:
        """The node that the shown pass seeds instead of the call's roots, as `explore` takes it."""
        root = tape.columns.root
        return (None if root == UNKNOWN else root), tape.columns.root_input_nr

    def _show_stop(self, at: int) -> None:
        self._at, self.playing, self.notice = at, False, ""

    def _next_stop(self) -> str:
        """What `r` asks for: see `resume`."""
        stop_at = self.configure.stop_at
        if stop_at.isdecimal():
            return stop_at if int(stop_at) > self._calls else "break"
        return stop_at if ":" in stop_at else "break"

    def _resume(self, edited: bool, stop_at: str) -> None:
        if self.state is not State.STOPPED:
            self.notice = "a snapshot does not run" if self.state is State.SNAPSHOT else self._no_resume()
            return
        visit = self._visits[-1]
        if edited and visit.walk is not None and visit.walk.tape.number != visit.last:
            tape = visit.walk.tape
            self._asking.explore(seeding.texts(tape), *_wire_root(self._shown_root(tape)))
        self.send(m.Resume(edited, stop_at))
        self._at = len(self._visits) - 1
        self.notice = ""
        self.playing = False
        self._resumed()

    def _no_resume(self) -> str:
        return (
            "the script runs already" if self.state in (State.RUNNING, State.STARTING) else "the script is over: R runs it again"
        )

    def _set_breaks(self, breaks: list[str]) -> None:
        self._breaks, self.notice = breaks, ""
        if self.state in (State.STARTING, State.RUNNING, State.STOPPED):
            self.send(m.SetBreaks(list(breaks)))

    def _break_steps(self, walk: Walk) -> set[int]:
        steps: set[int] = set()
        for text in self._breaks:
            steps.update(conditions.parse(text).steps(walk.graph, walk.tape, self.findings))
        return steps

    def _at_hand(self, tape: Tape, tensor: int, index: list[tuple[int, int, int]]) -> list[float | int | bool] | None:
        values = tape.tensors.values(tensor)
        if values is not None:
            return slices.of_values(values, tape.tensors.shape(tensor), index)
        data = self._here.tensors.get((tape.number, tensor)) if self._here else None
        return slices.of_data(data, index) if data else None


def held_tensors(tape: Tape) -> list[int]:
    """Numbers of the tensors that the debuggee can still give."""
    return [tensor for tensor in range(len(tape.tensors)) if tape.tensors.held(tensor)]


def _wire_root(shown: tuple[int | None, int]) -> tuple[int, int]:
    root, input_nr = shown
    return (UNKNOWN if root is None else root), input_nr
