"""What stands at the end of a Step tab: the trouble a node is in, and what holds for the whole pass."""

from __future__ import annotations

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.tape import Tape
from gradscope.session.view import View
from gradscope.tui.colours import ERROR, MUTED, TEXT, WARNING
from gradscope.tui.glyphs import CHECK, CROSS
from gradscope.tui.widgets.ledger import Ledger

SUMS = "every sum was added again: the same bits"
ADDED = "the call made each .grad what this says"
"""what the words of the header mean"""


def of_node(ledger: Ledger, graph: BackwardGraph, tape: Tape, node: int) -> None:
    """Its exception, a record that does not add up, Python of the person's."""
    failure = tape.failure
    if failure is not None and failure.node == node:
        ledger.line()
        ledger.words(f"✗ the pass ends here: {failure.type}: {failure.message}", f"bold {ERROR}")
    for mismatch in tape.columns.mismatches:
        if mismatch.node == node:
            ledger.words(f"≠ {mismatch.what}", WARNING)
    if node in graph.columns.foreign:
        ledger.line()
        ledger.line(("runs Python of yours: ", MUTED), (graph.columns.foreign[node], TEXT))


def of_pass(ledger: Ledger, view: View, tape: Tape) -> None:
    """Whether the record is exact, and what a person must know of the pass."""
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
