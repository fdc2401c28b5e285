"""Calls, Functions, hooks, views, modules: each row of the table that is about them."""

from __future__ import annotations

import pytest
from harness import Row, check
from rows import rows_of

MODULES = ("rows_calls", "rows_functions")


@pytest.mark.parametrize("row", rows_of(*MODULES), ids=lambda row: row.name)
def test_row(row: Row) -> None:
    check(row)
