"""Where gradients were switched off and left off."""

from __future__ import annotations

import sys

import pytest
import torch
from origin_ways import install

from gradscope.debuggee.origins import Origins


@pytest.fixture(autouse=True)
def on_again() -> object:
    yield
    torch.set_grad_enabled(True)


def off(origins: Origins) -> str:
    place = origins.grad_mode.off
    return "" if place is None else origins.places.origin(place).code


def test_switched_off_and_on() -> None:
    origins = install("mode")
    try:
        assert off(origins) == ""
        torch.set_grad_enabled(False)
        assert off(origins) == "torch.set_grad_enabled(False)"
        with torch.no_grad():
            assert off(origins) == "torch.set_grad_enabled(False)"
        with torch.enable_grad():
            assert off(origins) == ""
        assert off(origins) != ""
        torch.set_grad_enabled(True)
        assert off(origins) == ""
        with torch.no_grad():
            assert off(origins) == "with torch.no_grad():"
        assert off(origins) == ""
    finally:
        origins.remove()


def test_by_the_calls_alone() -> None:
    origins = install("lines")
    origins.pause()
    told, frame = origins.grad_mode.called, sys._getframe()
    assert not told(len, None, frame)
    assert not told([], None, frame)
    assert told(torch.set_grad_enabled, False, frame)
    assert off(origins) == ""
    torch.set_grad_enabled(False)
    assert off(origins) == "assert told(torch.set_grad_enabled, False, frame)"
    assert told(torch.set_grad_enabled, True, frame)
    assert off(origins) == ""
    assert told(torch.no_grad, None, frame)
    assert off(origins) == "assert told(torch.no_grad, None, frame)"
    torch.set_grad_enabled(True)
    origins.remove()
