"""Puts the parts of the debuggee together."""

from __future__ import annotations

import atexit
import os
import platform
import socket
import threading
from collections.abc import Callable

from gradscope.debuggee import stack_limit, torch_import
from gradscope.debuggee.link import Link
from gradscope.debuggee.serve import Server
from gradscope.protocol.channel import Closed, debuggee_end
from gradscope.protocol.messages import VERSION, Configure, Hello


def start(connection: socket.socket, stack: int) -> None:
    """Greet the session, wait for what it wants, and set everything up for the script that runs next.

    Args:
        connection: our end of the socket.
        stack: the soft stack limit that the script would have without us.
    """
    stack_limit.keep_to_main_thread(stack)
    channel = debuggee_end(connection)
    try:
        channel.send(Hello(VERSION, os.getpid(), platform.python_version()))
        configure = channel.receive()
    except Closed:
        return
    if not isinstance(configure, Configure):
        raise TypeError(f"expected Configure, got {type(configure).__name__}")
    server = Server(Link(channel), configure)
    os.register_at_fork(after_in_child=server.detach)
    torch_import.on_torch(server.torch_imported)
    atexit.register(server.exiting)
    _when_main_has_run(server.main_has_run)


def _when_main_has_run(callback: Callable[[], None]) -> None:
    """Before the script's threads are waited for and its atexit functions run: concurrent.futures uses the same door."""
    register = getattr(threading, "_register_atexit", atexit.register)
    register(callback)
