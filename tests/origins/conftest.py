"""What the tests of origins share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from origin_ways import WAYS, install

from gradscope.debuggee.mode_origins import ModeOrigins
from gradscope.debuggee.origins import Origins


@pytest.fixture(params=WAYS)
def origins(request: pytest.FixtureRequest) -> Iterator[Origins]:
    """Noted in each way in turn."""
    table = install(request.param)
    yield table
    table.remove()


@pytest.fixture
def by_mode() -> Iterator[ModeOrigins]:
    """Noted by the function mode."""
    table = install("mode")
    assert isinstance(table, ModeOrigins)
    yield table
    table.remove()
