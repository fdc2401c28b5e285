"""What a person can do with a script that lives: seeds, breakpoints, going on. The rest of the keys are in `Browsing`."""

from __future__ import annotations

import os

from gradscope.errors import GradscopeError
from gradscope.findings.finding import Finding
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.formulas import Formulas
from gradscope.model.places import UNKNOWN
from gradscope.model.report import Report
from gradscope.model.tape import Tape
from gradscope.protocol import messages as m
from gradscope.session import passes, reporting, seeding, slices
from gradscope.session.asking import Collected, Fetched
from gradscope.session.breaks import condition
from gradscope.session.browsing import NOTHING
from gradscope.session.formulas import Library
from gradscope.session.inspecting import Inspecting
from gradscope.session.passes import with_seeds
from gradscope.session.view import Busy, State
from gradscope.session.visit import Visit
from gradscope.session.what_ifs import OVER, Trying


class Session(Trying, Inspecting):
    """One run of a script, or one opened snapshot, with one method a key."""

    @classmethod
    def from_snapshot(cls, report: Report[Finding]) -> Session:
        """A session over what a `.gscope` file holds; the newest stop is shown."""
        session = cls(report.script, report.arguments)
        session.state = State.SNAPSHOT
        session._python, session._torch = report.python, report.torch
        session._outside = list(report.findings)
        session.library = Library.of(Formulas(report.formulas, report.torch)) if report.formulas else Library()
        session.library.want(report.torch)
        for stopped in report.stops:
            visit = Visit(reporting.stop_of(stopped), tensors=dict(stopped.tensors), keeps=reporting.keeps_of(stopped))
            session._visits.append(visit)
            session._sources.add(stopped.sources)
            if visit.stop.graph is not None and visit.stop.passes:
                session._begin_walk(visit, visit.stop.passes[0])
        session._calls = len(session._visits)
        session._at = len(session._visits) - 1
        return session

    def again(self) -> Session:
        """`R`: a session for the same script once more, with the breakpoints and watches of this one."""
        session = Session(self.script, self.arguments, self.configure)
        session.screen_rows = self.screen_rows
        session._breaks, session._watches = list(self._breaks), self._watches
        return session

    # ------------------------------------------------------------ seeds

    def explore(self, seeds: list[str], root: int | None = None, input_nr: int = 0) -> None:
        """Run one more pass with these seeds, one text a root, empty for the script's own. What-ifs of the pass shown stay.

        Args:
            seeds: as typed: `1,10`, `ones`, `onehot(3)`, `*2`.
            root: the node whose tensor to seed, UNKNOWN for the call's roots; None for what the shown pass seeds.
            input_nr: which gradient slot of that node.
        """
        if not self._may_explore():
            return
        if root is None:
            root, input_nr = self._shown_root
        walk, visit, again = self._walk, self._visits[-1], seeds
        stays = walk is not None and (root, input_nr) == self._shown_root
        changes = walk.tape.columns.changes if walk is not None and stays else []
        if walk is not None:
            known = with_seeds(visit.stop.passes, seeds, (root, input_nr), walk.tape, visit.texts, changes)
            if known is not None:
                self.notice = f"pass {known.number} has this seed" + (" already" if known is walk.tape else ": back to it")
                self._show_tape(visit, known)
                return
            if stays:
                again = seeding.spelled_out(walk.tape, seeds)
        self._busy = Busy("recording a pass")
        base = walk.tape.number if walk is not None and any(map(seeding.scales, seeds)) else 0
        if changes:
            self.notice = "with the what-ifs of the pass before"
        request = self._asking.explore(seeds, root, input_nr, base, passes.asked_for(changes))
        visit.asked[request] = list(again)

    def set_cell(self, root: int, index: int, text: str) -> None:
        """Type one cell of a root's seed anew (row-major index); the other roots keep the seeds they show."""
        visit, walk = self._here, self._walk
        values = passes.cells(walk.tape, root) if walk else None
        if visit is None or walk is None:
            self.notice = NOTHING
        elif values is None:
            self.notice = "too many cells: s edits the seed as a whole"
        else:
            texts = ["*1" if seeding.scales(text) else text for text in visit.texts_of(walk.tape)]
            texts[root] = seeding.with_cell(values, index, text)
            self.explore(texts)

    def jacobian_row(self, direction: int, root: int = 0) -> None:
        """`(` `)`: previous or next row of the Jacobian."""
        visit, walk = self._here, self._walk
        if visit is None or visit.stop.graph is None or not visit.stop.graph.roots:
            self.notice = NOTHING
            return
        row = seeding.jacobian_row(visit.stop.graph, walk.tape if walk else None, direction, root)
        if not row.count:
            self.notice = "the root is empty: its Jacobian has no rows"
        elif self._may_explore():
            self.explore(row.texts)
            shape = seeding.seeded_shape(visit.stop.graph, walk.tape if walk else None, root)
            count = f"{row.count:,} row{'' if row.count == 1 else 's'}"
            end = ", from the other end" if row.wrapped else ""
            self.notice = f"{seeding.row_name(shape, row.index)} of the Jacobian, {count}{end}"

    def seed_selected(self) -> None:
        """`S`: seed the tensor of the selected row with ones instead of the root."""
        walk = self._walk
        if walk is None or walk.node is None:
            self.notice = self._no_node
            return
        slot = next((input_nr for input_nr, tensor in walk.tape.arrivals(walk.node) if tensor >= 0), 0)
        self.explore(["ones"], walk.node, slot)

    def pick_root(self, tensor: int, seed: str = "") -> None:
        """At a stop without a call: differentiate the live tensor with this place in `view.stop.live`."""
        if self._may_explore():
            self._busy = Busy("recording the backward pass")
            self._asking.pick_root(tensor, seed)

    # ------------------------------------------------------------ going on

    @property
    def can_resume_edited(self) -> bool:
        """Whether resuming must ask which seed the script's call gets: the pass shown seeds its roots in another way."""
        visit = self._visits[-1] if self._visits and self.state is State.STOPPED else None
        if visit is None or visit.walk is None or visit.stop.call.kind == "none" or visit.stop.reason == "no-graph":
            return False
        return visit.walk.tape.edited and visit.walk.tape.columns.root == UNKNOWN

    @property
    def seeds_to_choose(self) -> tuple[str, str]:
        """For that question: the script's own seed, and that of the pass shown."""
        visit = self._visits[-1]
        edited = visit.walk.tape if visit.walk is not None else visit.stop.passes[-1]
        without = " (without the what-ifs)" if edited.columns.changes else ""
        return seeding.spoken(visit.stop.passes[0]), seeding.spoken(edited) + without

    def resume(self, edited: bool = False) -> None:
        """`r`: the script runs on to its next stop or end.

        The next stop is where a breakpoint's condition is met, or the later call or line that `--stop-at` names; without either
        the script runs to its end. (`>` stops at the very next backward call.)
        """
        if not self._kept_by_pdb():
            self._resume(edited, self._next_stop)

    def on_next_call(self, edited: bool = False) -> None:
        """`>`: to the later stop if an earlier one is shown, else the script runs to its next backward call."""
        if not self.at_newest:
            self._show_stop(self._at + 1)
        elif not self._kept_by_pdb():
            self._resume(edited, "next")

    def _kept_by_pdb(self) -> bool:
        """Whether the script waits in pdb, where it cannot be told to run on; says so."""
        if self._in_pdb and self._busy is not None:
            self.notice = f"{self._busy.what}; leave pdb first (c, or Ctrl-C)"
        return self._in_pdb

    def let_finish(self) -> None:
        """On quitting: the script runs to its end without stopping again."""
        self._set_breaks([])
        in_pdb = self._in_pdb
        if self.state is State.STOPPED:
            self._resume(False, "never", errors=False)
        if in_pdb:
            self.signal_script()  # pdb looks up from its prompt, and finds that it is to go on

    def interrupt(self) -> None:
        """Ctrl-C: gives up the pass under way, or stops at the next backward call; then interrupts the script, then kills it."""
        if self.state not in (State.STARTING, State.RUNNING, State.STOPPED):
            self.notice = OVER if self.state is not State.SNAPSHOT else ""
        elif self.state is State.STOPPED and self._busy is None:
            self.notice = "the script stands still: r resumes it, q quits"
        elif self._in_pdb:
            self.signal_script()
        else:
            self._interrupts += 1 if self._greeted else 2  # a script that has not said hello cannot hear us
            self._interrupt()

    def _interrupt(self) -> None:
        if self._interrupts == 1 and self.state is State.STOPPED:
            self.send(m.Cancel())
            self.notice = "giving up this pass; again to interrupt the script"
        elif self._interrupts == 1:
            self.send(m.StopSoon())
            self.notice = "stops at the next backward call; again to interrupt the script"
        elif self._interrupts == 2:
            self.signal_script()
            self.notice = "interrupted; again to kill the script"
        else:
            self.kill_script()
            self.notice = "killed"

    # ------------------------------------------------------------ breakpoints

    def add_break(self, text: str) -> None:
        """Add a condition as `--break` takes it.

        Raises:
            UsageError: it is none.
        """
        text = condition(text)
        if text in self._breaks:
            self.notice = f"{text} is set already"
        else:
            self._set_breaks([*self._breaks, text])

    def remove_break(self, text: str) -> None:
        """Take a condition away, by its text in `view.breaks`."""
        self._set_breaks([other for other in self._breaks if other != text])

    def toggle_break(self) -> None:
        """`b`: a breakpoint at the selected row: on its leaf, its line, or where neither is known on its step."""
        walk = self._walk
        if walk is None or walk.node is None:
            self.notice = self._no_node
            return
        text = break_at(walk.graph, walk.tape, walk.node)
        if text in self._breaks:
            self.remove_break(text)
            self.notice = f"no breakpoint at {text} any more"
        else:
            self._set_breaks([*self._breaks, text])
            self.notice = f"breakpoint at {text}"

    # ------------------------------------------------------------ tensors

    def fetch(self, tape: Tape, tensor: int, index: list[tuple[int, int, int]], done: Fetched) -> None:
        """Get a slice of a tensor: at once where it is here already, else when the debuggee has sent it."""
        cells = self._at_hand(tape, tensor, index)
        if cells is not None:
            done(m.TensorSlice(0, slices.shape_of(index), cells))
        elif self.live and self._here is not None and any(tape is other for other in self._here.stop.passes):
            self._asking.fetch(tape.number, tensor, index, done)
        else:
            why = "the snapshot was saved without it" if self.state is State.SNAPSHOT else "the script has run on since"
            done(GradscopeError("that tensor is gone", why, "its summary stays; E saves tensors while the script is stopped"))

    def collect(self, done: Collected) -> None:
        """Fetch what a report is to hold of the stop shown: its tensors, and what its nodes keep.

        `done` gets how many tensors could not be had.
        """
        visit = self._here
        if visit is None or not self.live or visit.stop.graph is None or visit.keeps.saved is not None:
            self._collect_tensors(done)
            return
        self._busy = Busy("reading what the nodes keep")
        self._asking.read_saved(lambda _: self._collect_tensors(done))

    def _collect_tensors(self, done: Collected) -> None:
        visit, self._busy = self._here, None
        wanted = [(tape.number, held_tensors(tape)) for tape in visit.stop.passes] if visit and self.live else []
        if not wanted:
            done(0)
            return
        self._busy = Busy("fetching the tensors")
        self._asking.tensors(wanted, done)

    # ------------------------------------------------------------ inside

    @property
    def _next_stop(self) -> str:
        """What `r` asks for: see `resume`."""
        stop_at = self.configure.stop_at
        if stop_at.isdecimal():
            return stop_at if int(stop_at) > self._calls else "break"
        return stop_at if ":" in stop_at else "break"

    def _resume(self, edited: bool, stop_at: str, errors: bool = True) -> None:
        if self.state is not State.STOPPED:
            over = "a snapshot does not run" if self.state is State.SNAPSHOT else OVER
            self.notice = "the script runs already" if self.state in (State.STARTING, State.RUNNING) else over
            return
        self._at = len(self._visits) - 1
        visit, walk = self._visits[-1], self._walk
        tape = walk.tape.number if edited and walk is not None and walk.tape.number != visit.last else 0
        self.send(m.Resume(edited, stop_at, tape, errors))
        self.notice, self.playing = "", False
        self._runs_on()

    def _set_breaks(self, breaks: list[str]) -> None:
        self._breaks, self.notice = breaks, ""
        if self._greeted and self.state in (State.STARTING, State.RUNNING, State.STOPPED):
            self.send(m.SetBreaks(list(breaks)))

    def _at_hand(self, tape: Tape, tensor: int, index: list[tuple[int, int, int]]) -> list[slices.Cell] | None:
        values = tape.tensors.values(tensor)
        if values is not None:
            return slices.of_values(values, tape.tensors.shape(tensor), index)
        data = self._here.tensors.get((tape.number, tensor)) if self._here else None
        return slices.of_data(data, index) if data else None


def break_at(graph: BackwardGraph, tape: Tape, node: int) -> str:
    """The condition that a breakpoint at a node is."""
    leaf, origin = graph.leaf_at(node), graph.origin(node)
    if leaf is not None:
        return f"leaf:{graph.leaves[leaf].name}"
    return f"{os.path.basename(origin.file)}:{origin.line}" if origin else f"step:{tape.step_of(node)}"


def held_tensors(tape: Tape) -> list[int]:
    """Numbers of the tensors that the debuggee can still give."""
    return [tensor for tensor in range(len(tape.tensors)) if tape.tensors.held(tensor)]
