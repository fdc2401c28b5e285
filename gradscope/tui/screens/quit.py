"""What `q` and `R` ask while the script lives."""

from __future__ import annotations

from enum import IntEnum

from gradscope.tui.screens.choices import Choice, ChoicesScreen


class Quit(IntEnum):
    """What becomes of the script; the order of the menu."""

    STOP = 0
    FINISH = 1
    CANCEL = 2


def quit_screen(script: str, stopped: bool) -> ChoicesScreen:
    """Asks what becomes of the script when the screen closes."""
    stands = "stands still at a backward call" if stopped else "is running"
    return ChoicesScreen(
        "Quit gradscope",
        [
            Choice("stop the script", "ends it now", "s"),
            Choice("let it finish without the screen", "its output comes to this terminal", "f"),
            Choice("cancel", "stay here", "c"),
        ],
        f"{script} {stands}.",
    )


def rerun_screen(script: str) -> ChoicesScreen:
    """Asks before the script is ended to run it again."""
    return ChoicesScreen(
        "Run the script again",
        [Choice("run it again", "from the start; what was recorded is let go", "r"), Choice("cancel", "stay here", "c")],
        f"{script} is ended first if it still lives.",
    )
