"""What happened in the script so far: the timeline, what was left in the leaves' `.grad`, the last pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.last_pass import LastPass
from gradscope.debuggee.leaf_histories import LeafHistories
from gradscope.debuggee.moments import Moment
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.timeline import CallEvent, Timeline

After = Callable[[BaseException | None], None]


class History:
    """That of one run."""

    def __init__(self, torch: Any, origins: Origins | None) -> None:
        self._origins = origins
        self.timeline = Timeline(torch.autograd._get_sequence_nr)
        self.leaves = LeafHistories(self.timeline)
        self.last_pass = LastPass()

    def begins(self, call: BackwardCall) -> CallEvent:
        """A backward call has come."""
        mark = 0 if self._origins is None else self._origins.boundaries.mark()
        return self.timeline.call_begins(call.number, call.kind, Moment.below(call.script_frame), call.keep_graph, mark)

    def ending(self, event: CallEvent, after: After | None) -> After | None:
        """What to call when the call has run: notes whether it failed, and then does what is to be done."""
        if self._origins is None:
            return after

        def ended(error: BaseException | None) -> None:
            event.failed = error is not None
            if after is not None:
                after(error)

        return ended
