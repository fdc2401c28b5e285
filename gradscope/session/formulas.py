"""Finds torch's derivative table in the cache, or has it built in the background: no key ever waits for it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from gradscope.model.derivatives import FORMAT, Entry, read
from gradscope.model.formulas import Formulas

BUILDER = str(Path(__file__).parents[1] / "debuggee" / "derivative_table.py")

LONGEST = 300
"""seconds that building may take; without a compiled PyYAML it takes half a minute"""

Build = Callable[[str, Path], str]
"""(interpreter, file to write) -> why it failed; empty where it did not"""


def build(python: str, out: Path) -> str:
    """Write the table of the torch that an interpreter has."""
    yaml = importlib.util.find_spec("yaml")
    folder = os.path.dirname(yaml.origin) if yaml is not None and yaml.origin else ""
    try:
        done = subprocess.run(
            [python, BUILDER, str(out), folder],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
            start_new_session=True,  # Ctrl-C is meant for the script
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CACHE_HOME/gradscope`, or `~/.cache/gradscope` (XDG: a relative path counts as none)."""
    given = environment.get("XDG_CACHE_HOME", "")
    return Path(given if os.path.isabs(given) else os.path.expanduser("~/.cache")) / "gradscope"


class Library:
    """The formulas of one torch version, once they are here."""

    def __init__(self, python: str = "", builder: Build = build, folder: Path | None = None) -> None:
        """Args:
        python: the interpreter that has that torch; empty where nothing may be built, only found.
        builder: writes the table.
        folder: where tables are kept; None for the cache.
        """
        self.formulas: Formulas | None = None
        self.on_ready: Callable[[], None] = lambda: None
        """called in another thread when `formulas` is there"""
        self._python, self._build, self._folder = python, builder, folder
        self._ready = threading.Event()
        self._asked = False

    @classmethod
    def of(cls, formulas: Formulas) -> Library:
        """Formulas that are here already: those of a snapshot."""
        library = cls()
        library.formulas, library._asked = formulas, True
        library._ready.set()
        return library

    def want(self, version: str) -> None:
        """Find the table of a torch version (`2.13.0+cpu`), in the background; once only."""
        if not self._asked:
            self._asked = True
            # A daemon: leaving must not wait. The builder, a process, goes on and fills the cache for the next time.
            threading.Thread(target=self._find, args=(version,), name="gradscope-formulas", daemon=True).start()

    def wait(self, seconds: float) -> Formulas | None:
        """For who writes a file at the end of a run: the formulas, if they come within that time."""
        if self._asked:
            self._ready.wait(seconds)
        return self.formulas

    def _find(self, version: str) -> None:
        try:
            self.formulas = self._found(version)
        except Exception as error:  # in a thread nobody would hear of it
            self.formulas = Formulas({}, version, f"torch's derivative table cannot be read: {error}")
        self._ready.set()
        self.on_ready()

    def _found(self, version: str) -> Formulas:
        folder = self._folder or cache_folder()
        named = re.sub(r"[^\w.+-]", "_", version)
        path = folder / f"derivatives-{named}-{FORMAT}.json"
        table = _read(path)
        if table is None and self._python:
            return self._built(version, path)
        return Formulas(table or {}, version, "" if table else f"no table of torch {version}'s derivatives is at hand")

    def _built(self, version: str, path: Path) -> Formulas:
        """Build into the cache; where that cannot be written into a folder that goes again."""
        passing = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            writable = os.access(path.parent, os.W_OK)
        except OSError:
            writable = False
        if not writable:
            passing = tempfile.mkdtemp(prefix="gradscope-")
            path = Path(passing) / path.name
        try:
            why = self._build(self._python, path)
            table = _read(path)
        finally:
            if passing:
                shutil.rmtree(passing, ignore_errors=True)
        if table is None:
            return Formulas({}, version, f"torch's derivative table cannot be read: {why or 'what was written is damaged'}")
        return Formulas(table, version)


def _read(path: Path) -> dict[str, Entry] | None:
    try:
        return read(path.read_bytes())
    except (OSError, ValueError):  # not there, or damaged: it is built anew
        return None
