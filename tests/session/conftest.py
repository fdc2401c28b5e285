"""What the tests of the session share."""

from __future__ import annotations

import pytest
from playing import Play


@pytest.fixture
def play() -> Play:
    """A session that stands at the first backward call of the pictured script."""
    play = Play()
    play.stop()
    return play
