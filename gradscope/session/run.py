"""One run of a script as its reports tell it, or what a snapshot holds of one: the state machine, and the view of it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gradscope.errors import GradscopeError
from gradscope.findings import diagnose
from gradscope.findings.finding import SEVERITIES, Finding
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.report import Report as RunReport
from gradscope.model.report import TensorData
from gradscope.model.tape import Tape
from gradscope.protocol import messages as m
from gradscope.session import reporting, seeding
from gradscope.session.asking import Asking
from gradscope.session.sources import Sources
from gradscope.session.stepping import Landmark, Walk
from gradscope.session.view import Busy, Exit, State, Stop, View

STOPS_KEPT = 64
"""what the oldest stops hold is let go beyond this many"""


@dataclass(slots=True)
class Visit:
    """A stop, and where the person stands in it."""

    stop: Stop
    walk: Walk | None = None
    """None until a pass was recorded"""
    tensors: dict[tuple[int, int], TensorData] = field(default_factory=dict)
    """(tape, tensor) -> what was sent for an export"""
    last: int = 0
    """number of the pass that the debuggee ran last: the one whose seeds an edited resume uses"""


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
        self.state = State.STARTING
        self.notice = ""
        self.playing = False
        self._python = self._torch = ""
        self._visits: list[Visit] = []
        self._at = -1
        self._calls = 0
        self._where = ("", 0)
        self._breaks = list(self.configure.breaks)
        self._watches: list[Landmark] = []
        self._outside: list[Finding] = []
        self._busy: Busy | None = None
        self._exit: Exit | None = None
        self._interrupts = 0
        self._asking = Asking(lambda request: self.send(request))
        self._sources = Sources(lambda file: self._ask_live(m.ReadSource(file)))
        self._sources.want([script])

    # ------------------------------------------------------------ reports

    def handle(self, report: m.Report) -> None:
        """Take one report of the debuggee."""
        self._interrupts = 0
        match report:
            case m.Hello():
                self._python = report.python
                self.send(self.configure)
            case m.TorchImported():
                self._torch = report.version
            case m.CallPassed():
                self._passed(report.calls, report.file, report.line)
            case m.Stopped():
                self._stopped(report)
            case m.Progress():
                self._busy = Busy(report.what, report.done, report.total)
            case m.TensorSlice():
                self._asking.sliced(report)
            case m.TensorsDone():
                self._busy = None
                self._asking.collected(report)
            case m.Source():
                self._sources.add({report.file: report.text})
            case m.Refused():
                self._refused(report)
            case m.Resumed():
                self._resumed()
            case m.Diagnosed():
                self._diagnosed(report.findings)
            case m.Died():
                self._died(report)
            case m.Ending():
                self._calls = report.calls
                self._resumed()
            case _:
                self._of_stop(report)

    def exited(self, returncode: int) -> None:
        """The process is gone; `returncode` as subprocess gives it (negative for a signal)."""
        died = self._exit or Exit(0)
        number = -returncode if returncode < 0 else 0
        message = died.message or (f"killed by signal {number} ({_signal_name(number)})" if number else "")
        self._exit = Exit(128 + number if number else returncode, number, message, died.traceback)
        self.state = State.CRASHED if number or died.traceback else State.ENDED
        self._end_of_requests("the script is over")

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
                self._sources.want(reporting.files_of(graph, visit.stop.call))
            case m.Recorded():
                self._recorded(visit, report)
            case m.TensorBytes():
                visit.tensors[report.tape, report.tensor] = TensorData(report.dtype, tuple(report.shape), report.data)
            case m.Committed():
                for other in self._visits:
                    if other.stop.call.number == report.call:
                        other.stop.committed = report

    def _passed(self, calls: int, file: str, line: int) -> None:
        self._calls, self._where = max(calls, self._calls), (file, line)
        if self.state in (State.STARTING, State.STOPPED):
            self.state = State.RUNNING
        self._sources.want([file])

    def _stopped(self, report: m.Stopped) -> None:
        call = report.call
        self._passed(call.number, call.file, call.line)
        if report.reason != "recorded":
            self.state = State.STOPPED
        self._busy = Busy("recording the backward pass")
        stop = Stop(call, report.reason, report.detail)
        stop.findings = worst_first(report.findings)
        if len(self._visits) == STOPS_KEPT:
            del self._visits[0]
        self._visits.append(Visit(stop))
        self._at = len(self._visits) - 1

    def _recorded(self, visit: Visit, report: m.Recorded) -> None:
        stop, self._busy = visit.stop, None
        if stop.graph is None:
            return
        tape = Tape(report.tape, stop.graph)
        first = not stop.passes
        stop.passes = seeding.keep([p for p in stop.passes if p.number != tape.number], tape)
        visit.last = tape.number
        found = list(report.findings)
        if first:
            found += diagnose(stop.graph, tape)
            self._begin_walk(visit, tape)
        else:
            self.show_tape(tape)
        stop.findings = worst_first([*stop.findings, *found], call=stop.call.number)

    def _begin_walk(self, visit: Visit, tape: Tape) -> None:
        """Stand at the start, or where the person stood in the stop before."""
        assert visit.stop.graph is not None
        before = next((v.walk for v in reversed(self._visits) if v is not visit and v.walk is not None), None)
        visit.walk = Walk(visit.stop.graph, tape, self.screen_rows)
        if before is not None:
            visit.walk.align(before)

    def show_tape(self, tape: Tape) -> None:
        """Show a pass of the current stop, compared with pass 1."""
        visit = self._here
        if visit is not None and visit.walk is not None:
            first = visit.stop.passes[0]
            visit.walk.show(tape, None if tape is first else first)

    def _refused(self, report: m.Refused) -> None:
        self._busy = None
        error = GradscopeError(report.what, report.why, report.hint)
        if report.findings and self._visits:
            stop = self._visits[-1].stop
            stop.findings = worst_first([*stop.findings, *report.findings], call=stop.call.number)
        if report.request == 0 and self._visits:
            self._visits[-1].stop.refusal = str(error)
        elif not self._asking.refused(report.request, error):
            self.on_error(error)

    def _resumed(self) -> None:
        if self.state in (State.STOPPED, State.STARTING):
            self.state = State.RUNNING
        self._end_of_requests("the script runs on")

    def _end_of_requests(self, why: str) -> None:
        self._busy = None
        self._asking.give_up(GradscopeError("the tensor cannot be had any more", why))

    def _diagnosed(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            stop = next((v.stop for v in self._visits if finding.call and v.stop.call.number == finding.call), None)
            if stop is not None:
                stop.findings = worst_first([*stop.findings, finding])
            else:
                self._outside = worst_first([*self._outside, finding])

    def _died(self, report: m.Died) -> None:
        message = f"{report.type}: {report.message}" if report.message else report.type
        self._exit = Exit(1, 0, message, report.traceback)
        self.state = State.CRASHED
        self._sources.want([report.file])
        self._end_of_requests("the script has crashed")

    # ------------------------------------------------------------ what there is

    @property
    def _here(self) -> Visit | None:
        return self._visits[self._at] if self._visits else None

    @property
    def at_newest(self) -> bool:
        return self._at == len(self._visits) - 1

    @property
    def live(self) -> bool:
        """The debuggee stands still at the stop that is shown and answers requests."""
        return self.state is State.STOPPED and self.at_newest

    @property
    def findings(self) -> list[Finding]:
        """Those of the stop shown and those from outside any pass, worst first."""
        here = self._here
        return worst_first([*(here.stop.findings if here else ()), *self._outside])

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
            findings=tuple(self.findings),
            sources=self._sources.lines,
            breaks=tuple(self._breaks),
            playing=self.playing,
            busy=self._busy,
            exit=self._exit,
            notice=self.notice,
        )
        return view if walk is None else self._with_walk(view, walk)

    def _with_walk(self, view: View, walk: Walk) -> View:
        watches = (landmark.find(walk.graph) for landmark in self._watches)
        return replace(
            view,
            tape=walk.tape,
            against=walk.against,
            rows=walk.rows,
            playhead=walk.playhead,
            selection=walk.selection,
            watches=tuple(node for node in watches if node is not None),
            search=walk.search,
            matches=walk.matches,
            edited=walk.tape.edited,
        )

    def report(self) -> RunReport[Finding]:
        """All that is recorded, as exports want it."""
        stops = (reporting.report_of(visit.stop, visit.tensors, self._sources.lines) for visit in self._visits)
        return RunReport(self.script, self.arguments, self._python, self._torch, tuple(stops), tuple(self._outside))

    # ------------------------------------------------------------ inside

    def _ask_live(self, request: m.Request) -> None:
        if self.live:
            self.send(request)

    def _note_error(self, error: GradscopeError) -> None:
        self.notice = ": ".join(part for part in (error.what, error.why) if part)


def worst_first(findings: Sequence[Finding], call: int | None = None) -> list[Finding]:
    """Sorted by severity, without repeats, otherwise in the order found; those without a call get `call`."""
    if call is not None:
        findings = [f if f.call else replace(f, call=call) for f in findings]
    return sorted(dict.fromkeys(findings), key=lambda finding: SEVERITIES.index(finding.severity))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "real-time"  # SIGRTMIN+n has no name of its own
