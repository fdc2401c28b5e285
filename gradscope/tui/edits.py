"""What of a pass is not the script's own, as header and panes say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradscope.session.view import View

SEED_EDITED, WHAT_IF = "SEED EDITED", "WHAT-IF"


def edits(view: View) -> str:
    """Loudly: `SEED EDITED + WHAT-IF`; empty for the script's own pass."""
    changed = view.tape is not None and bool(view.tape.columns.changes)
    return " + ".join(word for word, holds in ((SEED_EDITED, view.edited), (WHAT_IF, changed)) if holds)
