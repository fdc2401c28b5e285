"""Which forward call made each node of a backward graph: seen in the way that costs least on this Python."""

from __future__ import annotations

from typing import Any

from gradscope.debuggee import optimizers
from gradscope.debuggee.compiled_code import see_compiled
from gradscope.debuggee.hidden_frames import hide, hide_from_tracebacks
from gradscope.debuggee.line_origins import LineOrigins
from gradscope.debuggee.mode_origins import ModeOrigins
from gradscope.debuggee.monitoring import free_tool
from gradscope.debuggee.origin_table import Origins

__all__ = ["Origins", "install", "install_lines", "install_mode"]


def install(torch: Any) -> Origins:
    """Begin to note origins on this thread: by line events on Python 3.12+, unless debuggers have taken all places for them."""
    tool = free_tool()
    return install_mode(torch) if tool is None else install_lines(torch, tool)


def install_mode(torch: Any) -> ModeOrigins:
    """Begin to note origins by a function mode."""
    origins = ModeOrigins(torch)
    mode_function = type(origins.mode).__torch_function__
    origins.undo += [
        hide(mode_function.__code__, mode_function.__globals__),
        see_compiled(origins),
        optimizers.watch(torch),
    ]
    origins.resume()
    return origins


def install_lines(torch: Any, tool: Any) -> LineOrigins:
    """Begin to note origins by line events, which this tool gives."""
    origins = LineOrigins(torch, tool)
    origins.undo += [hide_from_tracebacks(), optimizers.watch(torch)]
    origins.resume()
    return origins
