"""What stands at the end of a Step tab: the trouble a node is in, and what holds for the whole pass."""

from __future__ import annotations

import os

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.columns import Failure
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.session.view import View
from gradscope.tui.colours import ERROR, MUTED, TEXT, WARNING
from gradscope.tui.glyphs import CHECK, CROSS
from gradscope.tui.widgets.ledger import Ledger

SUMS = "every sum was added again: the same bits"
ADDED = "the call made each .grad what this says"
"""what the words of the header mean"""


def of_failure(ledger: Ledger, tape: Tape, node: int) -> None:
    """The exception that ended the pass, of the node that raised it."""
    failure = tape.failure
    if failure is not None and failure.node == node:
        ledger.line()
        ledger.words(f"{CROSS} the pass ends here: {failure.type}: {failure.message}", f"bold {ERROR}")
        raised_at(ledger, failure)


def of_node(ledger: Ledger, graph: BackwardGraph, tape: Tape, node: int) -> None:
    """Its exception, a record that does not add up, Python of the person's."""
    of_failure(ledger, tape, node)
    for mismatch in tape.columns.mismatches:
        if mismatch.node == node:
            ledger.words(f"≠ {mismatch.what}", WARNING)
    if node in graph.columns.foreign:
        ledger.line()
        ledger.line(("runs Python of yours: ", MUTED), (graph.columns.foreign[node], TEXT))


def raised_at(ledger: Ledger, failure: Failure) -> None:
    """The person's line that raised the exception, where one did."""
    if failure.file:
        ledger.words(f"raised at {os.path.basename(failure.file)}:{failure.line}", TEXT)


def of_pass(ledger: Ledger, view: View, tape: Tape) -> None:
    """How the pass ended, whether the record is exact, and what a person must know of it."""
    failure = tape.failure
    if failure is not None:
        where = f" at {tape.graph.label(failure.node)}, step {tape.failed_step}" if failure.node != UNKNOWN else ""
        ledger.line()
        ledger.words(f"{CROSS} the pass ends{where}: {failure.type}: {failure.message}", f"bold {ERROR}")
        raised_at(ledger, failure)
    ledger.line()
    _verdict(ledger, "sums", SUMS, tape.exact, tape.columns.exact_reason)
    edited = view.edited or tape.columns.changes
    committed = view.stop.committed if view.stop is not None and not edited else None
    if committed is not None:
        _verdict(ledger, "exact", ADDED, committed.exact, committed.reason)
    for note in tape.columns.notes:
        ledger.words(note, MUTED)


def _verdict(ledger: Ledger, word: str, meaning: str, exact: str, reason: str) -> None:
    """What the header's word is about, and why where it is not ✓."""
    said = {"true": f"{word} {CHECK}  {meaning}", "false": f"{word} {CROSS}"}.get(exact, f"{word} unchecked")
    why = f": {reason}" if reason and exact != "true" else ""
    ledger.words(said + why, WARNING if exact == "false" else MUTED)
