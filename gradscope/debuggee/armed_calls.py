"""Stops after the first call that meets a condition; headless, keeps the calls that do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradscope.debuggee.armed import Armed
from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.call_reports import CallReports, OneCall
from gradscope.debuggee.capture import Captured
from gradscope.debuggee.intercept import After
from gradscope.debuggee.link import Link
from gradscope.debuggee.pass_facts import Witnesses
from gradscope.debuggee.stop import Stop
from gradscope.debuggee.subject import Subject, describe
from gradscope.debuggee.tape_builder import Held
from gradscope.findings import diagnose
from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import TapeColumns
from gradscope.model.conditions import Condition
from gradscope.model.tape import Tape
from gradscope.protocol import messages as m

if TYPE_CHECKING:
    from gradscope.debuggee.serve import Server

AGAIN = "R runs the script again: with --stop-at {number} it stops before this call, where seeds can be edited"


@dataclass(slots=True)
class ArmedCalls:
    """Records calls for conditions.

    Args:
        server: of this process.
        reports: in which calls are told one after the other.
        at_work: stands round all work of ours on a thread of the script.
        turn_to_speak: waits until no other thread's call is being told of.
        witnesses: of what the script did before a call.
        subject_of: names and lines of a captured graph.
        stop: opens a stop for a subject.
    """

    server: Server
    reports: CallReports
    at_work: Callable[[], AbstractContextManager[None]]
    turn_to_speak: Callable[[], bool]
    witnesses: Callable[[BackwardCall], Witnesses]
    subject_of: Callable[[BackwardCall, Captured], Subject]
    stop: Callable[[BackwardCall, Subject], Stop]

    def stop_if_met(self, call: BackwardCall, conditions: Mapping[str, Condition]) -> After:
        """Let the call run, recorded, and stand still after it if it meets one."""
        return self._watched(call, conditions, self._stand)

    def keep_if_met(self, call: BackwardCall, conditions: Mapping[str, Condition], kept: Callable[[], bool]) -> After:
        """Let the call run, recorded, and report it if it meets one and `kept` agrees."""

        def keep(call: BackwardCall, told: m.Call, met: str, tape: TapeColumns, stop: Stop, error: str) -> None:
            if kept():
                self._report(told, tape, stop, error)

        return self._watched(call, conditions, keep)

    def _watched(self, call: BackwardCall, conditions: Mapping[str, Condition], then: Callable[..., None]) -> After:
        with self.at_work():
            armed = Armed(call, conditions, self.witnesses(call), self.subject_of)

        def after(error: BaseException | None) -> None:
            with self.server.turn, self.at_work():
                stop: Stop | None = None
                try:
                    found = armed.met(error)
                    if found is not None:
                        met, tape, held = found
                        stop = self._opened(call, armed, tape, held)
                        self.server.told_of(call.number, error)
                        then(call, describe(call), met, tape, stop, text_of(error))
                except Exception as fault:
                    self.server.fault(fault)
                finally:
                    if stop is not None:
                        stop.release()
                    armed.release()

        return after

    def _opened(self, call: BackwardCall, armed: Armed, tape: TapeColumns, held: Held) -> Stop:
        stop = self.stop(call, armed.subject())
        stop.committed, stop.again = True, AGAIN.format(number=call.number)
        stop.add(tape, held)
        return stop

    def _stand(self, call: BackwardCall, told: m.Call, met: str, tape: TapeColumns, stop: Stop, error: str) -> None:
        if not self.turn_to_speak():
            return
        link: Link = self.server.link
        link.send(m.Stopped(told, "breakpoint", met))
        try:
            stop.show()
            link.send(m.Recorded(tape))
            link.send(m.Committed(call.number, tape.exact, tape.exact_reason, error=error))
            self.server.resume(stop.serve())
        finally:
            link.send(m.Resumed())

    def _report(self, told: m.Call, tape: TapeColumns, stop: Stop, error: str) -> None:
        reports: OneCall = self.reports.begin()
        try:
            stop.link = reports
            reports.send(m.Stopped(told, "recorded", ""))
            stop.show()
            reports.send(m.Recorded(tape))
            if self.server.configure.send_tensors:
                stop.send_tensors(0, tape.number, range(len(tape.tensors.shape) // 4))
            reports.send(m.Committed(told.number, tape.exact, tape.exact_reason, error=error))
        finally:
            reports.end()


def explored(stop: Stop, call: BackwardCall, conditions: Mapping[str, Condition]) -> str:
    """Explore a call before it runs: the first condition that its pass meets, or an empty string."""
    subject = stop.subject
    assert subject is not None
    if subject.captured.refusal:
        return ""
    stop.quiet = True
    graph = BackwardGraph(subject.columns)
    tape = Tape(stop.first_pass(), graph)
    findings = diagnose(graph, tape, inputs=bool(call.inputs))
    stop.quiet = False
    return next((text for text, condition in conditions.items() if condition.met(graph, tape, findings)), "")


def text_of(error: BaseException | None) -> str:
    """`ValueError: what it says`; empty for none."""
    if error is None:
        return ""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
