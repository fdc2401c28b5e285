"""Torch's derivative table for tests: built once by the real builder, then shared by all tests and runs."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from gradscope.debuggee import derivative_table
from gradscope.model.derivatives import Entry, read

FOLDER = Path(tempfile.gettempdir()) / f"gradscope-tests-{os.getuid()}"


def path() -> Path:
    """The table's file; the builder runs where there is none, or an older one."""
    builder = Path(derivative_table.__file__)
    out = FOLDER / f"derivatives-{torch.__version__}-{builder.stat().st_mtime_ns}.json"
    if not out.exists():
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        subprocess.run([sys.executable, str(builder), str(out)], check=True, timeout=120)
    return out


@functools.cache
def table() -> dict[str, Entry]:
    """Node name -> entry."""
    return read(path().read_bytes())
