"""Stops where the script has called nothing: at a line, its end, an error. The person picks a root among what is alive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING

import torch

from gradscope.debuggee import live_roots
from gradscope.debuggee.live_roots import Candidate, Scope
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.post_mortem import PostMortem
from gradscope.debuggee.stop import Stop
from gradscope.findings.missing import KIND as MISSING
from gradscope.protocol import messages as m

if TYPE_CHECKING:
    from gradscope.debuggee.serve import Server


class BareStops:
    """Makes them. `new` opens a stop without a subject; `at_work` stands round all work of ours on a thread of the script."""

    def __init__(
        self,
        server: Server,
        origins: Origins | None,
        new: Callable[[], Stop],
        at_work: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._server, self._origins = server, origins
        self._new, self._at_work = new, at_work

    def offer(self, stop: Stop, scopes: Sequence[Scope]) -> None:
        """Send the tensors that could be differentiated."""
        stop.live = self._alive(scopes)
        self._tell(stop)

    def at(
        self,
        call: m.Call,
        reason: str,
        detail: str,
        scopes: Sequence[Scope],
        frame: FrameType | None,
        traceback: str = "",
    ) -> None:
        """Stand still until the person resumes."""
        link = self._server.link
        with self._server.turn, self._at_work():
            stop = self._new()
            stop.frame = frame
            stop.live = self._alive(scopes)
            link.send(m.Stopped(call, reason, detail or ("" if stop.live else nothing_alive(reason)), traceback=traceback))
            self._server.sources.send([call.file])
            self._tell(stop)
            try:
                self._server.resume(stop.serve())
            finally:
                link.send(m.Resumed())
                stop.release()

    def after_error(self, error: Exception, told: bool, stops: bool) -> None:
        """The script ends with an exception: say what explains it, and stop if that is wanted.

        A call that was told of says by itself what is wrong in its pass, but not what it asks for in vain.
        """
        with self._server.turn, self._at_work():
            failure = PostMortem(error, self._origins, self._server.calls)
            told = told and failure.by_backward
            found = [one for one in failure.findings() if not told or one.kind == MISSING]
            if found:
                self._server.link.send(m.Diagnosed(found))
            if stops and not told and (found or self._alive(failure.scopes)):
                self.at(failure.call, "error", failure.words, failure.scopes, failure.frame, failure.traceback)

    def _alive(self, scopes: Sequence[Scope]) -> Sequence[Candidate]:
        """The tensors that could be differentiated."""
        return live_roots.find(torch, scopes, (lambda number: None) if self._origins is None else self._origins.lookup)

    def _tell(self, stop: Stop) -> None:
        self._server.link.send(m.LiveTensors([candidate.shown for candidate in stop.live]))


def nothing_alive(reason: str) -> str:
    """What to do where no tensor has a graph; at a line the person has asked for one already."""
    if reason == "line":
        return "no tensor with a graph is alive at this line: r runs on; --stop-at can name a later line"
    return "no tensor with a graph is alive here; --stop-at FILE:LINE stops at a line where one is"
