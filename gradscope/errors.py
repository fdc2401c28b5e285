"""Errors a person sees: what happened, why, and what to do. Nothing here shows a traceback of ours."""

from __future__ import annotations

USAGE = 2
FOUND = 3
"""`--fail-on` met a finding."""
INTERNAL = 70


class GradscopeError(Exception):
    """A fault that a person can do something about."""

    exit_code = INTERNAL

    def __init__(self, what: str, why: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what, self.why, self.hint = what, why, hint

    def __str__(self) -> str:
        lines = [self.what, *(line for line in (self.why, self.hint) if line)]
        return "\n  ".join(lines)


class UsageError(GradscopeError):
    """The command line or an expression typed by the person is wrong."""

    exit_code = USAGE


class FileError(GradscopeError):
    """A file cannot be read or written."""

    exit_code = USAGE
