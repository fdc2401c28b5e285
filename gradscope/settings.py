"""What the command line asks for, checked and frozen."""

from __future__ import annotations

import sys
from dataclasses import dataclass

ALL_CALLS = -1
"""`--calls all`"""

STDOUT = "-"
"""As the name of a file to export to."""


@dataclass(frozen=True, slots=True)
class Options:
    """One run of a script under gradscope."""

    script: str
    """Path as typed, or the module's name."""
    module: bool = False
    """`script` names a module (`-m`)."""
    arguments: tuple[str, ...] = ()
    """The script's own."""
    stop_at: str = "first"
    """`first`, `never`, a backward call's number, or FILE:LINE."""
    breaks: tuple[str, ...] = ()
    """Conditions; each one parses."""
    gradient: str = ""
    """Seed for the first stop; empty for the script's own. `@file` has an absolute path."""
    headless: bool = False
    calls: int = 1
    """How many backward calls headless records, or `ALL_CALLS`."""
    exports: tuple[str, ...] = ()
    """Paths whose ending is known and whose folder exists; `-` for JSON on stdout."""
    fail_on: tuple[str, ...] = ()
    """Finding kinds, or `any`, or `error`."""
    once: bool = False
    """Record the script's own call while it runs, instead of exploring first."""
    budget: int = 0
    """Bytes of gradients to hold per device; 0 for a quarter of what is free."""
    origins: bool = True
    ascii: bool = False
    python: str = sys.executable
    """The interpreter that runs the script."""
    script_stdin: int | None = None
    """File descriptor of the stdin that belongs to the script when it was redirected; None when it is the terminal."""

    @property
    def title(self) -> str:
        """The script as a person would type it."""
        return f"-m {self.script}" if self.module else self.script
