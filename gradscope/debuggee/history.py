"""What happened in the script so far: the timeline, what was left in the leaves' `.grad`, the last pass."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gradscope.debuggee.backward_call import BackwardCall
from gradscope.debuggee.cut_functions import CASTS
from gradscope.debuggee.given_gradients import Shapes, given, shapes_of
from gradscope.debuggee.last_pass import LastPass
from gradscope.debuggee.leaf_histories import LeafHistories
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.moments import Moment
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.timeline import CallEvent, Timeline

_APART = (*CASTS, "no_create_graph")
"""cuts as often made for other ends than for a loss: numbers to print, gradients to step with"""
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

    def cut_off(self, call: BackwardCall) -> list[Any]:
        """The leaves behind what was cut off since the last call at the same line, each once."""
        event = self.timeline.event(call.number)
        if self._origins is None or event is None:
            return []
        last = self.timeline.before_at_same_line(event)
        cuts = self._origins.boundaries.since(0 if last is None else last.mark)
        leaves = {id(leaf): leaf() for cut in cuts if cut.kind not in _APART for leaf in cut.leaves}
        return [leaf for leaf in leaves.values() if leaf is not None]

    def ending(self, event: CallEvent, call: BackwardCall, after: After | None) -> After | None:
        """What to call when the call has run: notes what came of it, and then does what is to be done."""
        if self._origins is None:
            return after
        made = self._origins.span() if call.create_graph else None  # the nodes of a double backward belong to the call's line
        gave: Callable[[list[Any]], None] | None = None
        shapes: Shapes = ()
        if not call.accumulates and not call.create_graph and self._origins.seeing():
            with suppress(Exception), modes_off():
                gave, shapes = self._origins.boundaries.differentiated(call.roots, call.script_frame), shapes_of(call.inputs)

        def ended(error: BaseException | None) -> None:
            if made is not None:
                made()
            if gave is not None and error is None:
                with suppress(Exception), modes_off():
                    gave(given(shapes))
            event.failed = error is not None
            if after is not None:
                after(error)

        return ended
