"""Tensors, modules, modes, threads: each row of the table that is about them."""

from __future__ import annotations

import pytest
from harness import Row, check
from rows import rows_of


@pytest.mark.parametrize("row", rows_of("rows_layouts", "rows_modules", "rows_modes"), ids=lambda row: row.name)
def test_row(row: Row) -> None:
    check(row)
