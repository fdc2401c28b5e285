"""Runs a script with the choke point installed and no session: `driver.py MODE SCRIPT`.

Modes: `pass` lets every call by, `explore` runs three passes with three seeds before each call and checks the call against the
first, `abort` gives a pass up in the middle, `record` records each call while it runs. Says on stderr how many calls there were.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

import torch

from gradscope.debuggee import record
from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.capture import capture
from gradscope.debuggee.commit import Check, Recorded
from gradscope.debuggee.explore import explore
from gradscope.debuggee.intercept import Interception
from gradscope.debuggee.record import Cancelled

MODE = sys.argv.pop(1)
verdicts: list[str] = []


def explored(call: BackwardCall) -> Any:
    captured = capture(call.roots, call.inputs)
    if captured.refusal:
        return recorded(call)
    accumulates = call.accumulates
    tape, held = explore(captured, call.seeds, accumulates=accumulates, create_graph=call.create_graph)
    for factor in (-2.0, 3.0):
        other, _ = explore(captured, [None if seed is None else seed * factor for seed in call.seeds], number=2, edited=True)
        assert other.exact == "true", other.exact_reason
    assert tape.exact == "true", tape.exact_reason
    check = Check.of_tape(captured, tape, held, accumulates=accumulates)

    def after(error: BaseException | None) -> None:
        verdicts.append(check.verdict(error).exact)
        captured.release()
        call.release()

    return after


def aborted(call: BackwardCall) -> Any:
    captured = capture(call.roots, call.inputs)
    if captured.refusal:
        return None
    half = max(1, len(captured) // 2)
    try:
        explore(captured, call.seeds, poll=lambda done: done >= half)
    except Cancelled:
        verdicts.append("cancelled")
    captured.release()
    return None


def recorded(call: BackwardCall) -> Any:
    captured = capture(call.roots, call.inputs)
    watch = Recorded(captured, call.seeds, accumulates=call.accumulates, create_graph=call.create_graph)
    watch.__enter__()

    def after(error: BaseException | None) -> None:
        tape, _ = watch.finish(error)
        verdicts.append(tape.exact)
        assert not tape.mismatches, tape.mismatches
        captured.release()
        call.release()

    return after


def passed(call: BackwardCall) -> Any:
    verdicts.append("passed")
    return None


if MODE == "abort":
    record._POLL_MASK = 0
modes = {"explore": explored, "abort": aborted, "record": recorded, "pass": passed}
state = torch.get_rng_state()
Interception(modes[MODE]).install()
assert torch.equal(torch.get_rng_state(), state)
try:
    runpy.run_path(sys.argv[1], run_name="__main__")
finally:
    counted = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
    print(counted, file=sys.stderr)
