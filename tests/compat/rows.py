"""All rows of the compatibility table: those of every module `rows_*` here."""

from __future__ import annotations

import importlib
from pathlib import Path

from harness import Row

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("rows_*.py"))


def rows_of(*modules: str) -> list[Row]:
    """The rows of these modules, in order; of all for none."""
    return [row for module in modules or MODULES for row in importlib.import_module(module).rows]
