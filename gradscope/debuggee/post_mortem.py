"""What there is to say of an exception that ends the script, and which of its tensors are still alive."""

from __future__ import annotations

import traceback
from types import FrameType
from typing import TYPE_CHECKING

from gradscope.debuggee import live_roots
from gradscope.debuggee.call_site import call_site
from gradscope.debuggee.error_facts import came_through_backward, error_facts, own_frames
from gradscope.debuggee.live_roots import Scope
from gradscope.findings.finding import Finding
from gradscope.findings.outside import outside
from gradscope.protocol import messages as m

if TYPE_CHECKING:
    from gradscope.debuggee.origins import Origins


class PostMortem:
    """Of one exception. Its traceback holds the frames, and they hold the tensors, until python ends."""

    def __init__(self, error: Exception, origins: Origins | None, calls: int) -> None:
        self.error = error
        self._origins, self._calls = origins, calls
        self._frames = own_frames(error)

    def findings(self) -> list[Finding]:
        """The one that explains it; empty for an exception that has nothing to do with autograd."""
        return outside(error_facts(self.error, self._origins, self._calls))

    @property
    def by_backward(self) -> bool:
        """A backward call raised it."""
        return came_through_backward(self.error)

    @property
    def call(self) -> m.Call:
        """Where it is said to have stopped: the innermost of the person's own lines."""
        if not self._frames:
            return m.Call(0, "none", "", 0, "<module>", "")
        site = call_site(self._frames[0])
        return m.Call(0, "none", site.file, site.line, site.function, site.code)

    @property
    def traceback(self) -> str:
        """As python prints it."""
        return "".join(traceback.format_exception(self.error))

    @property
    def words(self) -> str:
        """`RuntimeError: a leaf Variable …`, as python says it."""
        return "".join(traceback.format_exception_only(type(self.error), self.error)).strip()

    @property
    def frame(self) -> FrameType | None:
        """The innermost of the person's own."""
        return self._frames[0] if self._frames else None

    @property
    def scopes(self) -> list[Scope]:
        """The variables of the person's functions that it came through, innermost first."""
        return [live_roots.scope_of(frame) for frame in self._frames]
