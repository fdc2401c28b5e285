"""A gradient slot around the playhead: a tied weight has thousands of contributions, a screen shows a few."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from gradscope.model import playhead
from gradscope.model.tape import Contribution, Tape

DONE_SHOWN, PENDING_SHOWN = 5, 3


@dataclass(frozen=True, slots=True)
class Near:
    """The last contributions that came and the next to come; counts of all."""

    node: int
    input_nr: int
    done: int
    total: int
    last: tuple[Contribution, ...]
    """the newest of those that came, in delivery order"""
    coming: tuple[Contribution, ...]
    """the next ones; the screen must not show their values"""
    so_far: int
    """tensor number of the sum by now, or NO_TENSOR"""
    complete: bool

    @property
    def earlier(self) -> int:
        """How many came before `last`."""
        return self.done - len(self.last)

    @property
    def later(self) -> int:
        """How many come after `coming`."""
        return self.total - self.done - len(self.coming)


def near(tape: Tape, step: int, node: int, input_nr: int) -> Near:
    """What there is to show of a slot after `step`."""
    graph, indices = tape.graph, tape.indices_to(node, input_nr)
    done = bisect_right(indices, step, key=tape.contribution_step.__getitem__)
    complete = done == len(indices)
    if complete and tape.failure is not None:
        # a pass that an exception ended did not deliver everything
        complete = tape.step_of(node) <= tape.ran and all(
            tape.finished(graph.source[edge]) for edge in graph.in_edges(node) if graph.input_nr[edge] == input_nr
        )
    return Near(
        node=node,
        input_nr=input_nr,
        done=done,
        total=len(indices),
        last=tuple(tape.contribution(index) for index in indices[max(0, done - DONE_SHOWN) : done]),
        coming=tuple(tape.contribution(index) for index in indices[done : done + PENDING_SHOWN]),
        so_far=playhead.sum_so_far(tape, step, node, input_nr),
        complete=complete,
    )
