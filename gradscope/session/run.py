"""One run of a script as its reports tell it, or what a snapshot holds of one: the state machine, and the view of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from gradscope.errors import GradscopeError
from gradscope.findings import diagnose
from gradscope.findings.checked import checked
from gradscope.findings.finding import Finding, Related
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.derivatives import Entry
from gradscope.model.report import Report as RunReport
from gradscope.model.report import TensorData
from gradscope.model.tape import Tape
from gradscope.protocol import messages as m
from gradscope.session import passes, reporting, seeding
from gradscope.session.asking import Asking
from gradscope.session.breaks import Breaks, Met
from gradscope.session.formulas import Library
from gradscope.session.landmark import Landmark
from gradscope.session.reporting import merged
from gradscope.session.sources import Sources
from gradscope.session.stepping import Walk
from gradscope.session.tour import Tour
from gradscope.session.view import Busy, Exit, RefusedSeed, State, Stop, View, signal_name
from gradscope.session.visit import Visit

STOPS_KEPT = 64


class Run:
    """Holds every stop; `handle` takes reports, `view` says what to show.

    Not thread-safe: one thread calls everything. Whoever owns the process sets `send`, `signal_script` and `kill_script`, and
    calls `exited` when the process is gone.
    """

    def __init__(self, script: str, arguments: Sequence[str] = (), configure: m.Configure | None = None) -> None:
        self.script = script
        self.arguments = tuple(arguments)
        self.configure = configure or m.Configure()
        self.send: Callable[[m.Request], None] = lambda request: None
        self.signal_script: Callable[[], None] = lambda: None
        """interrupts the script (SIGINT)"""
        self.kill_script: Callable[[], None] = lambda: None
        """kills its process group"""
        self.on_error: Callable[[GradscopeError], None] = self._note_error
        """hears of requests that could not be met"""
        self.screen_rows = 40
        """rows that the tape shows: decides how far a big graph opens folded"""
        self.stops_kept = STOPS_KEPT
        """beyond this many the oldest stop is let go"""
        self.browsed = True
        """False where nobody looks: no rows are made"""
        self.library: Library | None = None
        """where formulas come from; None where nobody asks for them"""
        self.state = State.STARTING
        self.notice = ""
        self.playing = False
        self.waiting = False
        """the script reads its terminal; whoever owns the process finds out"""
        self._python = self._torch = ""
        self._visits: list[Visit] = []
        self._at = -1
        self._calls = 0
        self._where = ("", 0)
        self._breaks = list(self.configure.breaks)
        self._marks = Breaks()
        self._watches: tuple[Landmark, ...] = ()
        self._outside: list[Finding] = []
        self._busy: Busy | None = None
        self._exit: Exit | None = None
        self._interrupts = 0
        self._greeted = self._gone = False
        self._resolved: tuple[object, object, tuple[int, ...]] = (None, None, ())
        self._sorted: tuple[object, object, tuple[Finding, ...]] = (None, None, ())
        self._asking = Asking(lambda request: self.send(request))
        self._tour = Tour()
        self._sources = Sources(self._ask_source)
        self._sources.want([script])

    # ------------------------------------------------------------ reports

    def handle(self, report: m.Report) -> None:
        """Take one report of the debuggee."""
        match report:
            case m.Hello():
                self._greeted, self._python = True, report.python
                self.send(msgspec.structs.replace(self.configure, breaks=list(self._breaks)))
            case m.TorchImported():
                self._torch = report.version
                if self.library is not None:
                    self.library.want(report.version)
            case m.CallPassed():
                self._begins(report.calls, report.file, report.line)
            case m.Progress():
                self._busy = Busy(report.what, report.done, report.total)
            case m.TensorSlice():
                self._asking.sliced(report)
            case m.Source():
                self._sources.add({report.file: report.text})
            case m.Diagnosed():
                self._diagnosed(report.findings)
            case _:
                self._interrupts = 0  # something came of it
                self._turn(report)

    def exited(self, returncode: int) -> None:
        """The process is gone; `returncode` as subprocess gives it (negative for a signal)."""
        died = self._exit or Exit(0)
        number = max(0, -returncode)
        message = died.message or (f"killed by signal {number} ({signal_name(number)})" if number else "")
        self._exit = Exit(128 + number if number else returncode, number, message, died.traceback)
        self._gone = True
        self.state = State.CRASHED if message else State.ENDED
        self._end_of_requests("the script is over")

    def _turn(self, report: m.Report) -> None:
        """What changes where the script stands."""
        match report:
            case m.Stopped():
                self._stopped(report)
            case m.Resumed():
                self._runs_on()
            case m.Refused():
                self._refused(report)
            case m.TensorsDone():
                self._busy = None
                self._asking.sent(report.request, len(report.missing))
            case m.Died():
                self._died(report)
            case m.Ending():
                self._calls = max(report.calls, self._calls)
                self._runs_on()
            case _:
                self._of_stop(report)

    def _of_stop(self, report: m.Report) -> None:
        """What belongs to the newest stop."""
        if not self._visits:
            return
        visit = self._visits[-1]
        match report:
            case m.LiveTensors():
                visit.stop.live = list(report.tensors)
            case m.Captured():
                graph = BackwardGraph(report.graph)
                visit.stop.graph, visit.stop.passes, visit.walk = graph, [], None
                visit.seeds_from, visit.checks = {}, {}
                self._sources.want(reporting.files_of(graph, visit.stop.call))
            case m.Recorded():
                self._recorded(visit, report)
            case m.Checked():
                self._busy = None
                visit.checks = {**visit.checks, report.result.node: report.result}
                if visit.stop.graph is not None:
                    found = checked(visit.stop.graph, report.result)
                    visit.stop.findings = merged([*visit.stop.findings, *found], call=visit.stop.call.number)
            case m.Debugged():
                self._busy = None
                self.notice = f"pdb is over: the backward raised {report.error}" if report.error else "pdb is over"
            case m.SavedRead() | m.Inspected():
                visit.keeps.take(report)
                self._asking.answered(report.request)
            case m.TensorBytes():
                visit.tensors[report.tape, report.tensor] = TensorData(report.dtype, tuple(report.shape), report.data)
            case m.Committed():
                for other in self._visits:
                    if other.stop.call.number == report.call:
                        other.stop.committed = report

    def _begins(self, calls: int, file: str, line: int) -> None:
        """The script has come to a backward call."""
        self._calls, self._where = max(calls, self._calls), (file, line)
        if self.state is State.STARTING:
            self.state = State.RUNNING
        self._sources.want([file])

    def _stopped(self, report: m.Stopped) -> None:
        call = report.call
        self._begins(call.number, call.file, call.line)
        if report.reason != "recorded" and not self._gone:
            self.state, self.notice = State.STOPPED, ""
        self._busy = Busy("recording the backward pass") if report.reason in ("call", "breakpoint") else None
        stop = Stop(call, report.reason, report.detail, traceback=report.traceback)
        stop.findings = merged(report.findings)
        if len(self._visits) == self.stops_kept:
            del self._visits[0]
        self._visits.append(Visit(stop))
        self._at = len(self._visits) - 1
        self._sources.want([call.file])

    def _recorded(self, visit: Visit, report: m.Recorded) -> None:
        stop, self._busy = visit.stop, None
        if stop.graph is None:
            return
        tape = Tape(report.tape, stop.graph)
        first = not stop.passes
        before, stop.passes = stop.passes, passes.keep([p for p in stop.passes if p.number != tape.number], tape)
        visit.last = tape.number
        given = [self.configure.gradient] * len(tape.seeds)  # a pass that nobody asked for, yet edited, is that of --gradient
        texts = visit.asked.pop(report.request, given if tape.edited else [""] * len(tape.seeds))
        visit.texts[tape.number] = seeding.numbered(tape, texts)
        if report.request in visit.same_seeds:
            visit.seeds_from[tape.number] = visit.same_seeds.pop(report.request)
        self._note_dropped(before, stop.passes)
        found = list(report.findings)
        if first:
            place = Related(stop.call.file, stop.call.line, "the call") if stop.call.file else None
            found += diagnose(stop.graph, tape, inputs=stop.call.has_inputs, call=place)
            self._begin_walk(visit, tape)
            self._first_recorded(visit)
        else:
            self._show_tape(visit, tape)
        stop.findings = merged([*stop.findings, *found], call=stop.call.number)
        self._sources.want(reporting.files_named(found))
        if first and visit.walk is not None and stop.reason == "breakpoint":
            met = self._met(visit.walk)
            self.notice = f"{met.at(met.steps[0])}: c goes there" if met.steps else f"{stop.detail} was met"

    def _first_recorded(self, visit: Visit) -> None:
        """The first pass of a stop is there: what is asked for without being told to."""

    def _note_dropped(self, before: Sequence[Tape], kept: Sequence[Tape]) -> None:
        gone = [tape.number for tape in before if all(tape.number != other.number for other in kept)]
        if gone:
            said = f"pass {', '.join(map(str, gone))} dropped: {len(kept)} are kept"
            self.notice = f"{self.notice} · {said}" if self.notice else said

    def _begin_walk(self, visit: Visit, tape: Tape) -> None:
        """Stand at the start, or where the person stood in the stop before."""
        if visit.stop.graph is None or not self.browsed:
            return
        before = next((v.walk for v in reversed(self._visits) if v is not visit and v.walk is not None), None)
        visit.walk = Walk(visit.stop.graph, tape, self.screen_rows)
        if before is not None:
            visit.walk.align(before)

    def _show_tape(self, visit: Visit, tape: Tape) -> None:
        """Show a pass, compared with pass 1."""
        first = visit.stop.passes[0]
        if visit.walk is not None:
            visit.walk.show(tape, None if tape is first else first)

    def _refused(self, report: m.Refused) -> None:
        self._busy = None
        error = GradscopeError(report.what, report.why, report.hint)
        if report.findings and self._visits:
            stop = self._visits[-1].stop
            stop.findings = merged([*stop.findings, *report.findings], call=stop.call.number)
        if report.seed and self._visits:
            self._visits[-1].stop.refused_seed = RefusedSeed(report.seed, error)
        elif report.request == 0 and self._visits:
            self._visits[-1].stop.refusal = str(error)
        elif not self._asking.refused(report.request, error):
            self.on_error(error)

    def _runs_on(self) -> None:
        if self.state in (State.STOPPED, State.STARTING):
            self.state = State.RUNNING
        self._end_of_requests("the script runs on")

    def _end_of_requests(self, why: str) -> None:
        self._busy = None
        self._asking.give_up(GradscopeError("the tensor cannot be had any more", why))

    def _diagnosed(self, findings: Sequence[Finding]) -> None:
        known = [*self._outside, *(one for visit in self._visits for one in visit.stop.findings)]
        for finding in reporting.news(findings, known):
            stop = next((v.stop for v in self._visits if finding.call and v.stop.call.number == finding.call), None)
            if stop is not None:
                stop.findings = merged([*stop.findings, finding])
            else:
                self._outside = merged([*self._outside, finding])
        self._sources.want(reporting.files_named(findings))

    def _died(self, report: m.Died) -> None:
        message = f"{report.type}: {report.message}" if report.message else report.type
        known = self._exit or Exit(1)
        self._exit = Exit(known.code, known.signal, message, report.traceback)
        self.state = State.CRASHED
        self._sources.want([report.file])
        self._end_of_requests("the script has crashed")

    # ------------------------------------------------------------ what there is

    @property
    def _here(self) -> Visit | None:
        return self._visits[self._at] if self._visits else None

    @property
    def _walk(self) -> Walk | None:
        return self._here.walk if self._here else None

    @property
    def refused_seed(self) -> RefusedSeed | None:
        """What was typed as `--gradient` and is no seed for the call it met."""
        return next((visit.stop.refused_seed for visit in self._visits if visit.stop.refused_seed is not None), None)

    @property
    def at_newest(self) -> bool:
        return self._at == len(self._visits) - 1

    @property
    def live(self) -> bool:
        """The debuggee stands still at the stop that is shown and answers requests."""
        return self.state is State.STOPPED and self.at_newest

    @property
    def _in_pdb(self) -> bool:
        return self._busy is not None and self._busy.typing

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the stop shown and those from outside any pass, worst first; the same tuple until one is added."""
        here = self._here
        of_stop = here.stop.findings if here else None
        if self._sorted[0] is not of_stop or self._sorted[1] is not self._outside:
            self._sorted = (of_stop, self._outside, tuple(merged([*(of_stop or ()), *self._outside])))
        return self._sorted[2]

    def view(self) -> View:
        """Everything the screen shows now."""
        visit = self._here
        walk = visit.walk if visit else None
        view = View(
            state=self.state,
            script=self.script,
            calls=self._calls,
            where=self._where,
            stop=visit.stop if visit else None,
            stop_number=self._at + 1,
            stops=len(self._visits),
            graph=visit.stop.graph if visit else None,
            findings=self.findings,
            finding=self.findings.index(self._tour.at) if self._tour.at in self.findings else -1,
            sources=self._sources.lines,
            formulas=self.library.formulas if self.library is not None else None,
            breaks=tuple(self._breaks),
            playing=self.playing,
            busy=self._busy,
            exit=self._exit,
            waiting=self.waiting and (self.state in (State.STARTING, State.RUNNING) or self._in_pdb),
            notice=self.notice,
        )
        return view if walk is None else self._with_walk(view, walk)

    def _with_walk(self, view: View, walk: Walk) -> View:
        return replace(
            view,
            tape=walk.tape,
            against=walk.against,
            rows=walk.rows,
            playhead=walk.playhead,
            selection=walk.selection,
            watches=self._watched(walk.graph),
            met=self._met(walk).steps,
            search=walk.search,
            matches=walk.matches,
            checks=self._visits[self._at].checks,
            saved=self._visits[self._at].keeps.saved,
            inspected=self._visits[self._at].keeps.inspected,
            edited=walk.tape.edited,
        )

    def report(self) -> RunReport[Finding]:
        """All that is recorded, as exports want it."""
        stops = (reporting.report_of(visit.stop, visit.tensors, self._sources.lines, visit.keeps) for visit in self._visits)
        return RunReport(
            self.script, self.arguments, self._python, self._torch, tuple(stops), tuple(self._outside), self._entries()
        )

    # ------------------------------------------------------------ inside

    def _entries(self) -> dict[str, Entry]:
        """The entries of torch's derivative table for the nodes of all stops, as far as it was read."""
        formulas = self.library.formulas if self.library is not None else None
        graphs = [visit.stop.graph for visit in self._visits if visit.stop.graph is not None]
        return {} if formulas is None else {op: entry for graph in graphs for op, entry in formulas.entries(graph).items()}

    def _met(self, walk: Walk) -> Met:
        """Where breakpoints are met in the pass shown."""
        return self._marks.met(walk.tape, self._breaks, self.findings)

    def _watched(self, graph: BackwardGraph) -> tuple[int, ...]:
        """The nodes of this graph that are pinned."""
        if self._resolved[0] is not graph or self._resolved[1] is not self._watches:
            found = (landmark.find(graph) for landmark in self._watches)
            self._resolved = (graph, self._watches, tuple(node for node in found if node is not None))
        return self._resolved[2]

    def _ask_source(self, file: str) -> bool:
        if self.live:
            self.send(m.ReadSource(file))
        return self.live

    def _note_error(self, error: GradscopeError) -> None:
        self.notice = ": ".join(part for part in (error.what, error.why) if part)
