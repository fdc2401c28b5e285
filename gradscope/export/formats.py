"""Which file ending means which export."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gradscope.errors import UsageError
from gradscope.export import dot, graphml, json_report, leaves_csv, snapshot, tensors, text, writing
from gradscope.findings.finding import Finding
from gradscope.model.report import Report
from gradscope.settings import STDOUT


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file."""

    what: str
    """For the help: `the tape as on screen`."""
    chunks: Callable[[Report[Finding]], Iterable[bytes]]


FORMATS = {
    ".gscope": Format("snapshot: everything, to be opened again", snapshot.chunks),
    ".json": Format("everything, for programs", json_report.chunks),
    ".graphml": Format("the graph, for Gephi, yEd, networkx", graphml.chunks),
    ".dot": Format("the graph, for Graphviz", dot.chunks),
    ".safetensors": Format("the gradients themselves", tensors.chunks),
    ".txt": Format("the tape as on screen", text.chunks),
    ".csv": Format("the leaves as a table", leaves_csv.chunks),
}

_LATER = (".html",)


def export(report: Report[Finding], path: str) -> None:
    """Write the report to `path` in the form that its ending says; `-` writes JSON to stdout.

    Raises:
        UsageError: no export has this ending.
        FileError: the file cannot be written. An older file of that name is then as it was.
    """
    writing.write(path, _format(path).chunks(report))


def check(path: str) -> None:
    """Refuse before anything runs what `export` would refuse.

    Raises:
        UsageError: no export has this ending.
        FileError: the file could not be written.
    """
    _format(path)
    writing.check_target(path)


def _format(path: str) -> Format:
    if path == STDOUT:
        return FORMATS[".json"]
    ending = os.path.splitext(path)[1].lower()
    if ending in FORMATS:
        return FORMATS[ending]
    known = "its ending says what is written: " + " ".join(FORMATS) + ", or - for JSON on stdout"
    if ending in _LATER:
        raise UsageError(f"cannot write {path}: {ending} is not there yet", known, "take .json or .dot for now")
    raise UsageError(f"cannot write {path}: " + (f"unknown ending {ending}" if ending else "it has no ending"), known)
