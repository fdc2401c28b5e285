"""What a check of a node found, in its Step tab."""

from __future__ import annotations

from gradscope.model.checks import RIGHT, WRONG, CheckResult, CheckRow
from gradscope.tui import numbers
from gradscope.tui.colours import ERROR, MUTED, TEXT
from gradscope.tui.glyphs import CHECK, CROSS
from gradscope.tui.widgets.ledger import Ledger

SIGNS = {RIGHT: CHECK, WRONG: CROSS}
"""verdict -> its sign; `?` for one that is not known"""


def write(ledger: Ledger, result: CheckResult) -> None:
    """How it was checked, and one line for each property: `✓ linear in the incoming gradient   0 ≤ 1.0e-04`."""
    ledger.line()
    ledger.line(("check", f"bold {TEXT}"))
    if result.how:
        ledger.words(result.how, MUTED)
    for row in result.rows:
        _row(ledger, row)


def said(result: CheckResult) -> str:
    """In one line: what is wrong, else what was compared: `check: ∂x against finite differences 3.0e-11 ✓`."""
    wrong = [row for row in result.rows if row.verdict == WRONG]
    compared = [row for row in result.rows if row.error is not None]
    return "check: " + " · ".join(_short(row) for row in wrong or compared or result.rows)


def _short(row: CheckRow) -> str:
    error = "" if row.error is None else f" {numbers.norm(row.error)}"
    return f"{row.what}{error} {SIGNS.get(row.verdict, '?')}"


def _row(ledger: Ledger, row: CheckRow) -> None:
    style = ERROR if row.verdict == WRONG else TEXT if row.verdict == RIGHT else MUTED
    ledger.words(f"{SIGNS.get(row.verdict, '?')} {row.what}{_error(row)}", style)
    if row.why:
        ledger.words(f"  {row.why}", style if row.verdict == WRONG else MUTED)


def _error(row: CheckRow) -> str:
    """`   3.0e-11 ≤ 1.0e-06`: the greatest relative difference, and how great it may be."""
    if row.error is None:
        return ""
    limit = "" if row.tolerance is None else f" {'>' if row.verdict == WRONG else '≤'} {numbers.norm(row.tolerance)}"
    return f"   {numbers.norm(row.error)}{limit}"
