"""Every backward call of the script comes by here: it passes, is recorded while it runs, or stops."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from gradscope.debuggee import apply_inputs, donated_buffers, live_roots
from gradscope.debuggee.armed import split
from gradscope.debuggee.armed_calls import ArmedCalls, explored, text_of
from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.bare_stops import BareStops
from gradscope.debuggee.budget import Budget
from gradscope.debuggee.call_reports import CallReports, OneCall
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.commit import Check, Recorded, Verdict
from gradscope.debuggee.explore import CannotExplore
from gradscope.debuggee.history import History
from gradscope.debuggee.intercept import After, Interception
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.origins import install as install_origins
from gradscope.debuggee.outside_pass import OutsidePass
from gradscope.debuggee.pass_facts import Witnesses, witnesses
from gradscope.debuggee.refusals import findings_of
from gradscope.debuggee.stop import Stop
from gradscope.debuggee.subject import Subject, describe, of_call
from gradscope.findings import Finding
from gradscope.model.conditions import Condition
from gradscope.protocol import messages as m

if TYPE_CHECKING:
    from gradscope.debuggee.serve import Server

_VECTORISED = CannotExplore(
    "this call runs many passes at once",
    "is_grads_batched gives every gradient a hidden dimension, so no single pass can be shown",
    "give one seed at a time to look at it",
)
_READ_AT_ONCE = 20_000
"""Nodes of a graph that frees what it keeps before the stop: of a larger one it is not read."""
_PATIENCE = 10.0
"""Seconds for which a call waits for another thread's that is being recorded. Then it passes: that one may wait for this."""


class Calls:
    """Lives from the script's import of torch on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._link = server.link
        self._forget_inputs = apply_inputs.install()
        self.origins: Origins | None = install_origins(torch) if server.configure.origins else None
        self.bare_stops = BareStops(server, self.origins, lambda: self._open(None), self._at_work)
        self.history = History(torch, self.origins)
        self._outside = None if self.origins is None else OutsidePass(server, self.history, self.origins)
        self._interception = Interception(self._on_call)
        self._interception.install()
        self._reports = CallReports(server.link)
        self._budget = Budget(server.configure.budget)
        self._free = threading.Condition(server.turn)
        self._taken = 0
        """the thread whose call is being recorded before it stops"""
        self._gradient = server.configure.gradient
        """the seed for the first stop, until it has come"""
        self._left = server.configure.record
        """backward calls still to be recorded; negative for all"""
        self._armed = ArmedCalls(
            server, self._reports, self._at_work, self._may_speak, self._witnesses, self._subject_of, self._stop_for
        )
        settings = server.configure
        explores = bool(settings.breaks or settings.gradient or not (settings.record or settings.once))
        self._let_donate = donated_buffers.keep() if explores else lambda: None

    def detach(self) -> None:
        """Take everything out again."""
        self._interception.uninstall()
        self._let_donate()
        if self._outside is not None:
            self._outside.remove()
        if self.origins is not None:
            self.origins.remove()
        self._forget_inputs()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Round everything we do ourselves on a thread of the script."""
        with self._link.interrupts:
            if self.origins is None or threading.current_thread() is not threading.main_thread():
                with modes_off():
                    yield
                return
            self.origins.pause()
            try:
                with modes_off():
                    yield
            finally:
                self.origins.resume()

    # ------------------------------------------------------------ what to do with a call

    def _on_call(self, call: BackwardCall) -> After | None:
        server = self._server
        if not self._link.live:
            return None
        with server.turn:
            server.called(call.number)
            if self._outside is not None:
                self._outside.go_on()
            event = self.history.begins(call)
            try:
                after = self._decide(call)
            except Exception as error:
                server.fault(error)
                after = None
        return self.history.ending(event, call, after)

    def _decide(self, call: BackwardCall) -> After | None:
        server = self._server
        if server.configure.record:
            return self._record_if_wanted(call) if self._left else None
        if not self._may_speak():
            return None
        if server.stops.at(call.number) or server.is_at_place(call):
            return self._stop(call, call.reason, call.detail)
        if self._link.news_due:
            site = describe(call)
            self._link.send_now_and_then(m.CallPassed(call.number, site.file, site.line))
        if server.conditions and call.reason == "call" and not call.batched:
            return self._stop_where_met(call)
        return None

    def _may_speak(self) -> bool:
        """Wait while another thread's call is being recorded before it stops; False where that takes too long."""
        here = threading.get_ident()
        return self._free.wait_for(lambda: self._taken in (0, here), _PATIENCE)

    def _stop_where_met(self, call: BackwardCall) -> After | None:
        """Before a call whose graph meets a condition, after one whose gradients do."""
        graph, gradients = split(self._server.conditions, before=bool(self._gradient))
        if graph:
            with self._at_work():
                stop, met = self._explored_for_conditions(call, graph)
                if stop is not None:
                    return self._stop(call, "breakpoint", met, stop)
        return self._armed.stop_if_met(call, gradients) if gradients else None

    def _record_if_wanted(self, call: BackwardCall) -> After | None:
        """Headless, `--stop-at` says from which call on, `--break` which calls."""
        server = self._server
        if server.is_at_place(call):
            server.stops.set("first")
        if not server.stops.reached(call.number):
            return None
        stop = None
        if server.conditions and call.reason == "call" and not call.batched:
            graph, gradients = split(self._server.conditions, before=bool(self._gradient))
            if graph:
                with self._at_work():
                    stop, _ = self._explored_for_conditions(call, graph)
            if stop is None:
                return self._armed.keep_if_met(call, gradients, self._use_one) if gradients else None
        self._use_one()
        return self._record(call, stop)

    def _use_one(self) -> bool:
        """One of the calls that are still to be recorded, if there is any."""
        wanted = self._left != 0
        self._left -= wanted
        return wanted

    def _explored_for_conditions(self, call: BackwardCall, conditions: Mapping[str, Condition]) -> tuple[Stop | None, str]:
        """Explore the call and see whether a condition is met somewhere: the stop there would be, and the condition."""
        stop = self._open(call)
        if met := explored(stop, call, conditions):
            return stop, met
        stop.release()
        return None, ""

    # ------------------------------------------------------------ a stop

    def _open(self, call: BackwardCall | None) -> Stop:
        return self._stop_for(call, None if call is None else self._subject_of(call))

    def _subject_of(self, call: BackwardCall, captured: Captured | None = None) -> Subject:
        return of_call(call, self.origins, self.history, captured)

    def _stop_for(self, call: BackwardCall | None, subject: Subject | None) -> Stop:
        server = self._server
        stop = Stop(self._link, server.sources, subject, self.origins, server.set_breaks, self._budget)
        if call is not None:
            stop.witnesses = self._witnesses(call)
        return stop

    def _witnesses(self, call: BackwardCall) -> Witnesses:
        return witnesses(self.origins, self.history.timeline, call.number)

    def _refused(self, call: BackwardCall, message: m.Call, stop: Stop | None) -> tuple[Stop | None, list[Finding]]:
        """A call that torch will refuse is looked at before it is told of: what is wrong with it goes along."""
        if call.reason == "call":
            return stop, []
        stop = stop or self._open(call)
        assert stop.subject is not None
        return stop, list(findings_of(call, message, stop.subject))

    def _stop(self, call: BackwardCall, reason: str, detail: str, stop: Stop | None = None) -> After | None:
        """Stand still until the person resumes. Then the script's own call runs, checked against what was explored."""
        with self._at_work():
            message = describe(call)
            stop, refused = self._refused(call, message, stop)
            self._link.send(m.Stopped(message, reason, detail, refused))
            stop = stop or self._open(call)
            assert stop.subject is not None
            if call.reason == "call" and (self._server.configure.once or stop.subject.captured.refusal):
                return self._stop_afterwards(call, stop)
            try:
                self._show(call, stop)
                resume = stop.serve()
                self._server.resume(resume)
                return self._checked(call, stop, resume)
            finally:
                self._link.send(m.Resumed())
                stop.release()

    def _show(self, call: BackwardCall, stop: Stop) -> None:
        """Send the graph, the pass of the script's own seeds and that of `--gradient`."""
        assert stop.subject is not None
        if stop.subject.empty:
            stop.frame = call.script_frame
            self.bare_stops.offer(stop, [live_roots.scope_of(frame) for frame in live_roots.own_frames(stop.frame)])
            return
        stop.show()
        try:
            if call.batched:
                raise _VECTORISED
            if call.reason == "call":
                self._link.send(m.Recorded(stop.tapes[1] if stop.tapes else stop.first_pass()))
            if self._gradient:
                text, self._gradient = self._gradient, ""
                self._link.send(stop.explore_with(text))
        except Exception as error:
            stop.refuse(0, error)

    def _checked(self, call: BackwardCall, stop: Stop, resume: m.Resume) -> After:
        """Let the call run, with the seeds of a pass if so asked, and tell whether it did what the pass said."""
        assert stop.subject is not None
        number = 1
        if resume.edited and (seeds := stop.seeds_of(resume.tape)):
            call.edited = [seed.tensor for seed in seeds]
            number = stop.ready(resume.tape or stop.last_pass)
        refused = bool(call.refusal) and call.edited is None  # what was tried out instead is not what runs
        tape = None if refused else stop.tapes.get(number)
        accumulates = call.accumulates
        check = None if tape is None else Check.of_tape(stop.subject.captured, tape, stop.held(number), accumulates=accumulates)
        names = [leaf.name for leaf in stop.subject.columns.leaves]
        edited, company = call.edited is not None, call.company
        if tape is not None:
            self.history.last_pass.keep(call.number, stop.subject.columns, tape)

        def after(error: BaseException | None) -> None:
            with self._server.turn, self._at_work():
                verdict = Verdict("unchecked", "no pass was recorded") if check is None else check.verdict(error, company)
                differing = [names[leaf] for leaf in verdict.differing]
                self._server.told_of(call.number, error)
                self._link.send(
                    m.Committed(call.number, verdict.exact, verdict.reason, differing, error=text_of(error), edited=edited)
                )

        return self._safely(after)

    # ------------------------------------------------------------ recording the script's own call

    def _record(self, call: BackwardCall, stop: Stop | None = None) -> After:
        """Observe the call while it runs; the script does not wait."""
        with self._at_work():
            message = describe(call)
            detail = call.detail
            reports = self._reports.begin()
            try:
                stop, refused = self._refused(call, message, stop)
                reports.send(m.Stopped(message, "recorded", detail, refused))
                stop = stop or self._open(call)
                stop.link = reports
                assert stop.subject is not None
                if not stop.subject.empty:
                    stop.show()
                    if self._server.configure.saved:
                        stop.show_saved()
                extra = self._extra_pass(call, stop)
                if call.reason != "call" or call.batched:
                    if call.batched:
                        stop.refuse(0, _VECTORISED)
                    return self._not_recorded(call, stop, extra, reports)
                return self._recorded(call, stop, extra, reports)
            except Exception as error:
                reports.send(m.Committed(call.number, "unchecked", f"not recorded: {text_of(error)}"))
                reports.end()
                raise

    def _extra_pass(self, call: BackwardCall, stop: Stop) -> m.Report | None:
        """The pass of `--gradient`, explored before the call frees the graph."""
        text, self._gradient = self._gradient, ""
        if not text or call.batched:
            return None
        return stop.explore_with(text, number=2)

    def _recorded(self, call: BackwardCall, stop: Stop, extra: m.Report | None, reports: OneCall, wait: bool = False) -> After:
        assert stop.subject is not None
        subject, number, company = stop.subject, call.number, call.company
        stop.look_before()
        recording = Recorded(subject.captured, subject.seeds, accumulates=subject.accumulates, create_graph=subject.create_graph)
        recording.__enter__()

        def after(error: BaseException | None) -> None:
            with self._server.turn, self._at_work():
                exact, reason = "unchecked", ""
                try:
                    stop.committed = True
                    tape, held = recording.finish(error, company)
                    stop.find_facts(tape)
                    self.history.last_pass.keep(number, subject.columns, tape)
                    stop.add(tape, held)
                    exact, reason = tape.exact, tape.exact_reason
                    reports.send(m.Recorded(tape))
                    if extra is not None:
                        reports.send(extra)
                    if self._server.configure.send_tensors:
                        for pass_number, pass_tape in stop.tapes.items():
                            stop.send_tensors(0, pass_number, range(len(pass_tape.tensors.shape) // 4))
                except Exception as fault:
                    exact, reason = "unchecked", reason or f"not recorded: {text_of(fault)}"
                    stop.refuse(0, fault)
                try:
                    self._server.told_of(number, error)
                    reports.send(m.Committed(number, exact, reason, error=text_of(error)))
                    if wait:
                        self._server.resume(stop.serve())
                finally:
                    if wait:
                        reports.send(m.Resumed())
                    stop.release()
                    reports.end()
                    if self._taken == threading.get_ident():
                        self._taken = 0
                        self._free.notify_all()

        return self._safely(after)

    def _not_recorded(self, call: BackwardCall, stop: Stop, extra: m.Report | None, reports: OneCall) -> After:
        number, reason = call.number, call.detail or f"not recorded: {_VECTORISED.why}"
        if extra is not None:
            reports.send(extra)
        stop.release()

        def after(error: BaseException | None) -> None:
            with self._server.turn, self._at_work():
                self._server.told_of(number, error)
                reports.send(m.Committed(number, "unchecked", reason, error=text_of(error)))
                reports.end()

        return self._safely(after)

    def _stop_afterwards(self, call: BackwardCall, stop: Stop) -> After:
        """With `--once`, or where trying out would be wrong: the call runs, recorded, and then we stop."""
        assert stop.subject is not None
        stop.show()
        stop.show_saved(most=_READ_AT_ONCE)
        if stop.subject.captured.refusal:
            stop.refuse(
                0, CannotExplore("this pass cannot be run beforehand", stop.subject.captured.refusal, "its own run is recorded")
            )
        reports = self._reports.begin()
        try:
            after = self._recorded(call, stop, None, reports, wait=True)
        except Exception:
            reports.end()
            raise
        self._taken = threading.get_ident()
        return after

    def _safely(self, after: After) -> After:
        """A fault of ours after the call is told, and is none of the script's."""

        def told(error: BaseException | None) -> None:
            try:
                after(error)
            except Exception as fault:
                self._server.fault(fault)

        return told
