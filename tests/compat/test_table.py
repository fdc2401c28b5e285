"""The README's table of kinds of autograd is that of the rows."""

from __future__ import annotations

from pathlib import Path

from make_table import END, HEADINGS, START, table
from rows import MODULES

README = Path(__file__).parents[2] / "README.md"


def test_the_table_is_that_of_the_rows() -> None:
    """When it fails: put what `make_table.py` prints between the two comments."""
    between = README.read_text(encoding="utf-8").partition(START)[2].partition(END)[0]
    assert between.strip() == table()


def test_every_module_has_a_heading() -> None:
    assert sorted(HEADINGS) == MODULES
