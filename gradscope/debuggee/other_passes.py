"""Tells the pass that is recorded from others that run the same nodes meanwhile.

The engine numbers its passes (graph tasks) in the order in which they begin, and runs the CPU nodes of a pass on the thread that
called it. So of all passes that are seen on the caller's thread while it is in its call, the call's own is the first one; later
ones were called by hooks inside it. Only where all nodes are on accelerators do they run on the engine's threads alone.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from gradscope.debuggee.capture import Captured
from gradscope.debuggee.engine import graph_task, newest_graph_task
from gradscope.model.places import UNKNOWN

NESTED = "a backward pass inside this one writes its .grad too"
ANOTHER_THREAD = "another thread's backward pass writes its .grad too"


class _Caller:
    """Lives as long as a thread that has made a backward call."""


class _Here(threading.local):
    caller: _Caller | None = None


_here = _Here()
_callers: weakref.WeakSet[_Caller] = weakref.WeakSet()


def note_caller() -> None:
    """This thread is making a backward call of the script's."""
    if _here.caller is None:
        _here.caller = _Caller()
        _callers.add(_here.caller)


def others_call() -> bool:
    """Whether another thread that lives makes backward calls too. Threads that only wait or draw a bar are no company."""
    return any(caller is not _here.caller for caller in _callers)


class PassSorter:
    """Collects what hooks note, of all passes; `sort` gives what belongs to the one that is recorded."""

    def __init__(self, captured: Captured) -> None:
        self.notes: list[str] = []
        self.count = 0
        """entries so far, of all passes"""
        self.ours = -1
        """the engine's number of the recorded pass, once it is known"""
        self._captured = captured
        self._thread = threading.get_ident()
        self._accelerated = any(device.type != "cpu" for _, _, device in captured.kinds)
        self._newest = newest_graph_task() if self._accelerated else -1
        """the last pass that began before ours"""
        self._ran: list[tuple[int, int, Any]] = []
        """(pass, thread, entry of the log); one tuple, as other threads append between any two lines"""
        self._complete: list[tuple[int, int, int]] = []

    def ran(self, entry: Any) -> None:
        self._ran.append((graph_task(), threading.get_ident(), entry))
        self.count += 1

    def complete(self, node: int) -> None:
        self._complete.append((graph_task(), threading.get_ident(), node))

    @property
    def may_be_ours(self) -> bool:
        """Whether this hook runs in the pass that is recorded, or inside it; False on threads that nothing is known of."""
        return threading.get_ident() == self._thread

    def sort(self, log: list[Any], leaf_order: list[int]) -> None:
        """Add what belongs to the recorded pass; note the leaves that others write."""
        events = [*self._ran, *self._complete]
        own = [task for task, thread, _ in events if thread == self._thread]
        if not own and self._accelerated:
            own = [task for task, _, _ in events if task > self._newest]
        ours = self.ours = min(own, default=-1)
        log.extend(entry for task, _, entry in self._ran if task == ours)
        leaf_order.extend(node for task, _, node in self._complete if task == ours)
        leaves = {leaf.node for leaf in self._captured.leaves if leaf.node != UNKNOWN}
        strangers = [(thread, entry[0]) for task, thread, entry in self._ran if task != ours]
        written = strangers + [(thread, node) for task, thread, node in self._complete if task != ours]
        for thread, node in written:
            if node in leaves:
                self._captured.written.setdefault(node, NESTED if thread == self._thread else ANOTHER_THREAD)
        self._tell(strangers)

    def _tell(self, strangers: list[tuple[int, int]]) -> None:
        inside = sum(thread == self._thread for thread, _ in strangers)
        if inside:
            self.notes.append(f"a backward pass inside this one ran {inside} of its nodes: those steps are kept out")
        if inside < len(strangers):
            count = len(strangers) - inside
            self.notes.append(f"another thread's backward pass ran {count} of its nodes meanwhile: those steps are kept out")
