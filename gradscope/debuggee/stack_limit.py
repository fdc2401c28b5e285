"""The script's process has a stack of 1 GiB; its threads and the processes it starts get what they would have without us."""

from __future__ import annotations

import _posixsubprocess
import ctypes
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

_UNLIMITED_THREAD = 8 << 20
_ATTRIBUTES_SIZE = 128
"""bytes of a pthread_attr_t, at least"""

_STARTS_A_PROCESS = ((os, ("execv", "execve", "posix_spawn", "posix_spawnp", "system")), (_posixsubprocess, ("fork_exec",)))


def keep_to_main_thread(soft: int) -> None:
    """Hide the raised limit from everything but the main thread.

    Args:
        soft: the soft limit that the shell had set.
    """
    if resource.getrlimit(resource.RLIMIT_STACK)[0] == soft:
        return
    _set_thread_default(_UNLIMITED_THREAD if soft == resource.RLIM_INFINITY else soft)
    for module, names in _STARTS_A_PROCESS:
        for name in names:
            if hasattr(module, name):
                setattr(module, name, _with_limit(soft, getattr(module, name)))
    if "subprocess" in sys.modules:  # it has copied the name
        vars(sys.modules["subprocess"])["_fork_exec"] = _posixsubprocess.fork_exec
    os.register_at_fork(after_in_child=lambda: _set_limit(soft))


def _set_limit(soft: int) -> int:
    """Set the soft limit; the one that was."""
    before, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    return before


def _with_limit(soft: int, start: Callable[..., Any]) -> Callable[..., Any]:
    """`start` under the limit `soft`, which what it starts inherits."""

    def start_with_limit(*arguments: Any, **options: Any) -> Any:
        before = _set_limit(soft)
        try:
            return start(*arguments, **options)
        finally:
            _set_limit(before)

    start_with_limit.__name__ = start_with_limit.__qualname__ = start.__name__
    start_with_limit.__doc__ = start.__doc__
    return start_with_limit


def _set_thread_default(size: int) -> None:
    """New threads would each reserve the whole gigabyte: glibc takes the limit of the process for their default."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "pthread_setattr_default_np"):
        return
    attributes = ctypes.create_string_buffer(_ATTRIBUTES_SIZE)
    if (
        libc.pthread_getattr_default_np(attributes) == 0
        and libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size)) == 0
    ):
        libc.pthread_setattr_default_np(attributes)
    libc.pthread_attr_destroy(attributes)
