"""What the tests of passes share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from gradscope.debuggee import tensor_hooks


@pytest.fixture
def noted() -> Iterator[None]:
    """Hooks are noted as in a script, and a sandbox looks through the test's own objects alone."""
    uninstall = tensor_hooks.install()
    gc.freeze()  # else through all of torch's, again and again
    yield
    gc.unfreeze()
    uninstall()
    tensor_hooks.node_hooks = False
