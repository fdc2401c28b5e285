"""Observes one pass of the engine: hooks on nodes that note what was handed over.

The hooks hold integers and this record only (a hook that captures a node or a tensor leaks the graph for ever), swallow their own
exceptions and return None: the pass computes what it computes without them. What they note becomes a tape in `tape_builder`.

Nodes may also run in other passes meanwhile: a hook may call backward() on the same leaves, other threads train the same model.
Where that can be, hooks note the engine's graph task as well, and only what belongs to this pass's own comes into the log.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from gradscope.debuggee import tensor_hooks
from gradscope.debuggee.capture import Captured, CapturedLeaf
from gradscope.debuggee.changes import WhatIfs
from gradscope.debuggee.copies import Copies, unchanged
from gradscope.debuggee.engine import graph_task
from gradscope.debuggee.hook_effects import HookWatch, changed_steps
from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.other_passes import PassSorter
from gradscope.model.columns import TapeColumns
from gradscope.model.facts import Mutated
from gradscope.model.places import UNKNOWN, CodePlace, Origin

if TYPE_CHECKING:
    from gradscope.debuggee.tape_builder import TapeBuilder

Gradients = Sequence[torch.Tensor | None]
Poll = Callable[[int], bool]
"""Called now and then with the number of nodes that have run; True cancels an exploring pass."""

_POLL_MASK = 63


class Cancelled(Exception):
    """The person gave up the exploring pass."""


class Recording:
    """A context round one run of the engine. Afterwards `log` is what happened.

    Args:
        captured: the graph that runs.
        committed: True round the script's own call, where nothing may be cancelled.
        accumulates: AccumulateGrad runs in this pass.
        poll: looks at the socket.
        what_ifs: gradients to change on the way, in an exploring pass.
    """

    def __init__(
        self,
        captured: Captured,
        *,
        committed: bool = False,
        accumulates: bool = False,
        poll: Poll | None = None,
        what_ifs: WhatIfs | None = None,
    ) -> None:
        self.captured = captured
        self.committed = committed
        self.accumulates = accumulates
        self.poll = poll
        self.log: list[tuple[int, Gradients, Gradients]] = []
        """(node, what it sent, what it was handed), in engine order"""
        self.leaf_order: list[int] = []
        """nodes of leaves in the order in which their totals were complete, where a hook tells"""
        self.leaves_tell = committed or accumulates or captured.foreign.touches_gradients
        """a leaf that is complete has an entry in the log"""
        self.unfinished = UNKNOWN
        """the leaf whose gradient was being added when the pass ended"""
        self.missed: list[str] = []
        """what went wrong in the hooks themselves"""
        self.notes: list[str] = []
        """what a person should know of the recording"""
        self.mutated: dict[tuple[int, int], None] = {}
        """(node, input_nr) whose gradient a custom backward wrote into, in engine order"""
        self.seconds = 0.0
        self._sorter = PassSorter(captured) if captured.foreign or threading.active_count() > 1 else None
        """tells passes apart, where there can be others"""
        self._what_ifs = what_ifs
        self._copies = Copies()
        self._watch = HookWatch(captured, self._copies.of, committed=committed, accumulates=accumulates)
        """of what the script's hooks do"""
        self._task: int | None = None
        """the engine's number of the recorded pass, where there can be others"""
        self._key = tensor_hooks.new_key()
        self._tables: list[Any] = []
        """of the nodes that have a hook of ours"""
        self._handles: list[Any] = []
        """of the tensors that have one"""
        self._before: dict[tuple[int, int], Gradients] = {}
        self._adding: set[int] = set()
        """leaves whose gradient AccumulateGrad has been handed and that have hooks after it which have not run yet"""
        self._hooked_after: set[int] = set()
        self._collecting = False
        self._started = 0.0

    def __enter__(self) -> Recording:
        if self._what_ifs is not None:
            self._what_ifs.begin(alone=self._sorter is None)
        self._collecting = gc.isenabled()
        gc.disable()  # collections over many new hooks cost more than the pass
        try:
            self._watch.install()
            with tensor_hooks.registering(self._key):
                self._register()
        except BaseException:
            self._restore()
            raise
        self._started = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.seconds = time.perf_counter() - self._started
        self._restore()
        if self._sorter is not None:
            self._sorter.sort(self.log, self.leaf_order)
            self._task = self._sorter.ours
            self.notes.extend(self._sorter.notes)
            self._sorter = None
        if error is not None and self.log and self.log[-1][0] in self._adding:
            self.unfinished = self.log[-1][0]

    def _restore(self) -> None:
        for table in self._tables:
            tensor_hooks.unregister(table, self._key)
        for handle in self._handles:
            handle.remove()
        self._watch.remove()
        self._tables.clear()
        self._handles.clear()
        self._before.clear()
        if self._collecting:
            gc.enable()

    def _register(self) -> None:
        captured, keep = self.captured, self._tables.append
        guarded = captured.foreign.touches_gradients
        leaves = {leaf.node for leaf in captured.leaves if leaf.kind != "input" and leaf.node != UNKNOWN}
        hook = self._guarded_posthook if guarded else self._posthook()
        arriving, sending = (self._what_ifs.arriving, self._what_ifs.sending) if self._what_ifs is not None else ({}, {})
        for number, node in enumerate(captured.nodes):
            if number in leaves:
                continue
            if number in arriving:
                keep(node.register_prehook(partial(self._changing_prehook, number)))
            elif guarded and number in captured.foreign.why:
                keep(node.register_prehook(partial(self._prehook, number)))
            keep(
                node.register_hook(partial(self._changing_posthook, hook, number) if number in sending else partial(hook, number))
            )
        if self.accumulates:
            self._register_on_nodes(leaves)
        elif guarded or self.committed:
            self._register_on(list(map(captured.leaves.__getitem__, captured.targets())), self._leaf_total)
        else:
            self._register_on(captured.plan.tied, self._leaf_order)

    def _register_on_nodes(self, leaves: set[int]) -> None:
        keep = self._tables.append
        alone = self._sorter is None and not self.captured.foreign.touches_gradients
        for number in leaves:
            node = self.captured.nodes[number]
            hooked = getattr(node.variable, "_post_accumulate_grad_hooks", None)
            keep(node.register_prehook(partial(self._bare_leaf_prehook if alone and not hooked else self._leaf_prehook, number)))
            if hooked:
                self._hooked_after.add(number)
                keep(node.register_hook(partial(self._leaf_posthook, number)))

    def _register_on(self, leaves: Sequence[CapturedLeaf], hook: Callable[[int, torch.Tensor | None], None]) -> None:
        """Hooks on the tensors of leaves.

        Where AccumulateGrad does not run they tell which of several leaves that one node completes the engine takes first. And
        what foreign Python edits in place later shows in the engine's own results, so that totals must be copied when they come.
        """
        for leaf in leaves:
            variable: Any = leaf.variable
            if variable is not None and leaf.kind != "input":
                self._handles.append(variable.register_hook(tensor_hooks.OurHook(hook, leaf.node)))

    # ------------------------------------------------------------ hooks

    def _posthook(self) -> Callable[[int, Gradients, Gradients], None]:
        log, poll = self.log, self.poll
        if self._sorter is not None:
            return self._sorted_posthook
        if poll is None:

            def note(node: int, sent: Gradients, handed: Gradients) -> None:
                log.append((node, sent, handed))

        else:

            def note(node: int, sent: Gradients, handed: Gradients) -> None:
                log.append((node, sent, handed))
                if not len(log) & _POLL_MASK and poll(len(log)):
                    raise Cancelled

        return note

    def _sorted_posthook(self, node: int, sent: Gradients, handed: Gradients) -> None:
        """The same where the node may run in another pass, too."""
        self._note(node, sent, handed)
        self._look()

    def _guarded_posthook(self, node: int, sent: Gradients, handed: Gradients) -> None:
        """The same where foreign Python may edit a gradient after it was handed over: keeps copies."""
        try:
            with modes_off(), torch.no_grad():
                before = self._before.pop((graph_task(), node), None)
                if before is not None and node in self.captured.hooks.backward_code:
                    self._compare(node, before, handed)
                self._note(node, self._copied(sent), self._copied(handed) if before is None else before)
        except Exception as error:
            self._miss(node, error)
        self._look()

    def _compare(self, node: int, before: Gradients, after: Gradients) -> None:
        """What a custom backward was given with what is there when it has run."""
        for input_nr, (one, other) in enumerate(zip(before, after, strict=True)):
            if one is not None and other is not None and not unchanged(one, other):
                self.mutated[node, input_nr] = None

    def _note(self, node: int, sent: Gradients, handed: Gradients) -> None:
        if self._sorter is None:
            self.log.append((node, sent, handed))
        else:
            self._sorter.ran((node, sent, handed))

    def _look(self) -> None:
        """At the socket, now and then. Never raises in another thread's pass."""
        done = len(self.log) if self._sorter is None else self._sorter.count
        if self.poll is None or done & _POLL_MASK or (self._sorter is not None and not self._sorter.may_be_ours):
            return
        if self.poll(done):
            raise Cancelled

    def _prehook(self, node: int, handed: Gradients) -> None:
        try:
            with modes_off(), torch.no_grad():
                self._before[graph_task(), node] = self._copied(handed)
        except Exception as error:
            self._miss(node, error)

    def _changing_prehook(self, node: int, handed: Gradients) -> Gradients | None:
        """Changes what arrives, and keeps copies as the others do."""
        assert self._what_ifs is not None
        changed = self._what_ifs.arrive(node, handed)
        if self.captured.foreign.touches_gradients and node in self.captured.foreign.why:
            self._prehook(node, handed if changed is None else changed)
        return changed

    def _changing_posthook(
        self, note: Callable[[int, Gradients, Gradients], None], node: int, sent: Gradients, handed: Gradients
    ) -> Gradients | None:
        """Changes what goes over some edges."""
        assert self._what_ifs is not None
        changed = self._what_ifs.send(node, sent)
        note(node, sent if changed is None else changed, handed)
        return changed

    def _bare_leaf_prehook(self, node: int, handed: Gradients) -> None:
        """The same where nobody edits gradients."""
        self.log.append((node, (), tuple(handed)))

    def _leaf_prehook(self, node: int, handed: Gradients) -> None:
        try:
            with modes_off(), torch.no_grad():
                guarded = self.captured.foreign.touches_gradients
                self._note(node, (), self._copied(handed) if guarded else tuple(handed))
                if node in self._hooked_after:
                    self._adding.add(node)
        except Exception as error:
            self._miss(node, error)

    def _leaf_posthook(self, node: int, sent: Gradients, handed: Gradients) -> None:
        self._adding.discard(node)

    def _leaf_total(self, node: int, total: torch.Tensor | None) -> None:
        self._leaf_prehook(node, (total,))

    def _leaf_order(self, node: int, total: torch.Tensor | None) -> None:
        if self._sorter is None:
            self.leaf_order.append(node)
        else:
            self._sorter.complete(node)

    def _miss(self, node: int, error: Exception) -> None:
        with suppress(Exception):
            self.missed.append(f"{self.captured.ops[node]} was not recorded: {type(error).__name__}: {error}")

    def _copied(self, gradients: Gradients) -> tuple[torch.Tensor | None, ...]:
        return tuple(None if gradient is None else self._copies.of(gradient) for gradient in gradients)

    def tell_hooks(self, builder: TapeBuilder) -> None:
        """Give `builder`, which has taken in the log, what each hook of the script did in the pass."""
        self.notes.extend(self._watch.missed)
        if self.captured.hooks.listed:
            effects = self._watch.effects(builder, self._task)
            builder.take_effects(effects, changed_steps(effects, self.captured))

    def tell_mutations(self, tape: TapeColumns) -> None:
        """Put down who wrote into what it was given. Other nodes that were given it too got another gradient than was sent."""
        others = tuple(dict.fromkeys(mismatch.node for mismatch in tape.mismatches))
        hooks = self.captured.hooks
        found = [Mutated(node, nr, _origin(hooks.backward_code[node]), others) for node, nr in self.mutated]
        if others:
            edits = [(hooks.listed[hook], slot) for hook, slot in dict.fromkeys(self._watch.edits)]
            found += [Mutated(hook.node, slot, _origin(hook.place), others, hook=True) for hook, slot in edits]
        tape.facts.mutated = found

    def release(self) -> None:
        """Let go of the originals."""
        self._copies.release()


def _origin(place: CodePlace | None) -> Origin | None:
    return None if place is None else Origin(place.file, place.line, place.function)
