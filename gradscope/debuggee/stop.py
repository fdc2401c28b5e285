"""The script stands still: a graph, the passes that were run over it, and the answers to what the person asks about them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

import msgspec
import torch

from gradscope.debuggee import checking, inspecting, node_calls, pdb_session
from gradscope.debuggee import subject as subjects
from gradscope.debuggee.budget import Budget
from gradscope.debuggee.call_reports import OneCall
from gradscope.debuggee.changes import WhatIfs
from gradscope.debuggee.explore import Cancelled, GivenSeed, explore
from gradscope.debuggee.link import Link
from gradscope.debuggee.live_roots import Candidate
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.pass_facts import PassFinder, Witnesses
from gradscope.debuggee.seeds import WAYS
from gradscope.debuggee.sources import Sources, source
from gradscope.debuggee.subject import Subject
from gradscope.debuggee.tape_builder import Held
from gradscope.debuggee.tensor_data import bytes_of, values_of
from gradscope.errors import GradscopeError, UsageError
from gradscope.model.columns import Change, TapeColumns
from gradscope.model.tensors import NO_TENSOR, TensorTable
from gradscope.protocol import messages as m

RECORDING = "recording the backward pass"
_HELD_PASSES = 8
"""whose tensors stay at hand: the first one and the latest"""


class Stop:
    """Serves one stop, from its first pass to `Resume`."""

    def __init__(
        self,
        link: Link | OneCall,
        sources: Sources,
        subject: Subject | None,
        origins: Origins | None,
        set_breaks: Callable[[list[str]], None],
        budget: Budget | None = None,
    ) -> None:
        self.link = link
        self._set_breaks = set_breaks
        self._sources = sources
        self._origins = origins
        self.subject = subject
        self.live: Sequence[Candidate] = ()
        """what `PickRoot` chooses from, at a stop without a call"""
        self.frame: FrameType | None = None
        """whose variables its seeds may use"""
        self.tapes: dict[int, TapeColumns] = {}
        self.last_pass = 0
        """number of the last pass over the call's own roots"""
        self._given: dict[int, tuple[tuple[int, int] | None, list[GivenSeed]]] = {}
        """for each pass the inner tensor that it seeded, None for the call's roots, and its seeds"""
        self._changes: dict[int, list[Change]] = {}
        """the what-ifs of the passes that have some"""
        self.quiet = False
        """a pass nobody waits for tells no progress"""
        self.committed = False
        """the script's call has run: nothing can be explored any more"""
        self._held: dict[int, Held] = {}
        self._budget = budget or Budget()
        self._fetched: tuple[tuple[int, int], torch.Tensor] | None = None
        """the last tensor that was got back by running its pass again"""
        self._passes = 0
        self.witnesses = Witnesses()
        self.again = ""
        """how the person gets to where this call can be tried out"""
        self._finder: PassFinder | None = None

    # ------------------------------------------------------------ what is sent without being asked

    def show(self) -> None:
        """Send the graph and the files it speaks of."""
        assert self.subject is not None
        self._sources.send(dict.fromkeys(origin.file for origin in self.subject.columns.origins))
        self.link.send(m.Captured(self.subject.columns))

    def show_saved(self, most: int = sys.maxsize) -> None:
        """Send what the nodes of a graph of at most so many keep, while they still do."""
        assert self.subject is not None
        if len(self.subject.captured) <= most:
            try:
                self.link.send(m.SavedRead(0, inspecting.saved_of(self.subject, self._origins)))
            except Exception as error:
                self.refuse(0, error)

    def first_pass(self) -> TapeColumns:
        """Run the pass of the script's own seeds."""
        assert self.subject is not None
        return self._run(self.subject.seeds, edited=False)

    @property
    def finder(self) -> PassFinder:
        """Finds the facts of this graph's passes."""
        if self._finder is None:
            assert self.subject is not None
            subject = self.subject
            self._finder = PassFinder(subject.captured, lambda: subject, self.witnesses)
        return self._finder

    def look_before(self) -> None:
        """Look at what the script's own call is about to use up."""
        try:
            self.finder.before(freeing=True)
        except Exception as error:
            self.refuse(0, error)

    def find_facts(self, tape: TapeColumns) -> None:
        """Put what else is known of a pass into its record."""
        try:
            self.finder.after(tape)
        except Exception as error:
            tape.notes.append(f"facts of this pass could not be found: {type(error).__name__}: {error}")

    def add(self, tape: TapeColumns, held: Held) -> None:
        """Take in a pass that was recorded elsewhere."""
        self._passes = max(self._passes, tape.number)
        if tape.number in self._held:
            self._held[tape.number].release()
        self._budget.trim(tape, held, [other for number, other in self._held.items() if number != tape.number])
        self.tapes[tape.number], self._held[tape.number] = tape, held

    def held(self, number: int) -> Held:
        return self._held[number]

    def refuse(self, request: int, error: Exception) -> None:
        """Say why something cannot be had. An error that is ours is told as such; the script lives on."""
        self.link.send(_refused(request, error))

    def release(self) -> None:
        """Let go of all tensors and of the graph."""
        for held in self._held.values():
            held.release()
        self._held.clear()
        self.tapes.clear()
        self._fetched = None
        self._given.clear()
        self._changes.clear()
        self.live = ()
        self.frame = None
        self._finder = None
        if self.subject is not None:
            self.subject.release()

    # ------------------------------------------------------------ what is asked

    def serve(self) -> m.Resume:
        """Answer requests until the person lets the script go on, or the session is gone."""
        while (request := self.link.receive()) is not None:
            if isinstance(request, m.Resume):
                return request
            try:
                self._answer(request)
            except Exception as error:
                self.refuse(getattr(request, "request", 0), error)
        return m.Resume(stop_at="never")

    def _answer(self, request: m.Request) -> None:
        match request:
            case m.Explore():
                self._explore(request)
            case m.PickRoot():
                self._pick_root(request)
            case m.Fetch():
                shape, values = values_of(self._tensor(request.tape, request.tensor), request.index)
                self.link.send(m.TensorSlice(request.request, shape, values))
            case m.FetchTensors():
                self.send_tensors(request.request, request.tape, request.tensors)
            case m.ReadSaved() | m.Inspect() | m.FetchSaved():
                self.link.send(inspecting.answer(self.subject, self._origins, request))
            case m.Check():
                self._check(request)
            case m.Debug():
                self._debug(request)
            case m.SetBreaks():
                self._set_breaks(request.breaks)
            case m.ReadSource():
                self.link.send(m.Source(request.file, source(request.file) or ""))

    def _explore(self, request: m.Explore) -> None:
        subject = self._explorable()
        edited = True
        root = None if request.root < 0 else (request.root, request.root_input_nr)
        base, shown = self._given.get(request.base, (None, []))
        if request.same_seeds and request.base in self._given:
            root, seeds, edited = base, shown, self.tapes[request.base].edited
        elif root is None:
            texts = [text.text for text in request.seeds]
            seeds, edited = self._seeds_of_roots(subject, texts, request.base), any(texts)
        else:
            text = request.seeds[0].text if request.seeds else "ones"
            seeds = [subject.seed(text, subject.root_at(*root), shown[0] if base == root else None)]
        tape = self._run(seeds, edited=edited, root=root, changes=request.changes)
        self.link.send(m.Recorded(tape, request=request.request))

    def _check(self, request: m.Check) -> None:
        captured = self._explorable().captured
        numbers = None
        if request.tape in self.tapes and 0 <= request.node < len(captured):
            numbers = node_calls.arrived_tensors(captured, self.tapes[request.tape], request.node)
        arrived = None if numbers is None else [None if number < 0 else self._tensor(request.tape, number) for number in numbers]
        what = f"checking {captured.ops[request.node]}" if 0 <= request.node < len(captured) else "checking"
        result = checking.check(captured, request.node, arrived, lambda done: self.link.give_up(what, done, 0))
        self.link.send(m.Checked(request.request, result))

    def _debug(self, request: m.Debug) -> None:
        captured = self._explorable().captured
        pdb_session.debuggable(captured, request.node)
        gradients = self._arrived(request.tape, request.node)
        error = pdb_session.debug(captured, request.node, gradients, f"pass {request.tape}", self._to_go_on)
        self.link.send(m.Debugged(request.request, request.node, error))

    def _to_go_on(self) -> bool:
        return isinstance(self.link, Link) and self.link.to_go_on()

    def _arrived(self, tape: int, node: int) -> list[torch.Tensor | None]:
        """What arrived at the slots of a node in a pass.

        Raises:
            UsageError: the node did not run in it.
        """
        captured = self._explorable().captured
        numbers = node_calls.arrived_tensors(captured, self.tapes[tape], node) if tape in self.tapes else None
        if numbers is None:
            raise UsageError(f"{captured.ops[node]} did not run in pass {tape}", "no gradient arrived at it")
        return [None if number == NO_TENSOR else self._tensor(tape, number) for number in numbers]

    def _explorable(self) -> Subject:
        if self.subject is None:
            raise UsageError("no root has been chosen", "the script has called nothing here", "choose a tensor first")
        if self.committed:
            raise UsageError(
                "the pass cannot be run again",
                "your script's own call has run and was recorded meanwhile; its graph is gone",
                self.again
                or "that is so with --once, and where no pass could be tried beforehand (reentrant checkpoint, static_graph)",
            )
        return self.subject

    def seeds_of(self, number: int = 0) -> list[GivenSeed]:
        """The seeds that a pass gave the call's roots, of the last such pass for 0; empty when there is none."""
        root, seeds = self._given.get(number or self.last_pass, (None, []))
        return seeds if root is None else []

    def ready(self, number: int) -> int:
        """A pass with the seeds of that one, and no what-ifs, whose tensors are held: itself, or else the same once more."""
        if number in self._held and number not in self._changes:
            return number
        return self._run(self.seeds_of(number), edited=True).number

    def _seeds_of_roots(self, subject: Subject, texts: Sequence[str], base: int = 0) -> list[GivenSeed]:
        found, before = [], self.seeds_of(base)
        for place, own in enumerate(subject.seeds):
            text = texts[place] if place < len(texts) else ""
            shown = before[place] if place < len(before) else own
            if not text and own.tensor is None:
                raise UsageError("this root has no seed", "the script's own cannot be explored", f"type one: {WAYS}")
            found.append(subject.seed(text, subject.root(place), shown) if text else own)
        return found

    def explore_with(self, text: str, number: int = 0) -> m.Report:
        """One more pass, every root seeded with this expression: its record, or why there is none."""
        try:
            subject = self._explorable()
            seeds = self._seeds_of_roots(subject, [text] * len(subject.seeds))
            return m.Recorded(self._run(seeds, edited=True, number=number))
        except Exception as error:
            return msgspec.structs.replace(_refused(0, error), seed=text)

    def _pick_root(self, request: m.PickRoot) -> None:
        if not 0 <= request.tensor < len(self.live):
            raise UsageError("there is no such tensor", f"{len(self.live)} are alive")
        chosen = self.live[request.tensor]
        subject = subjects.of_tensor(chosen.tensor, chosen.shown.name, self.frame, self._origins)
        self.subject, self.tapes, self._held, self._passes, self._given = subject, {}, {}, 0, {}
        self._changes, self._finder = {}, None
        if request.seed.text:
            subject.seeds.append(subject.seed(request.seed.text, subject.root(0), None))
        else:
            subject.seeds.append(GivenSeed(torch.ones_like(chosen.tensor), given=False))
        self.show()
        self.link.send(m.Recorded(self._run(subject.seeds, edited=False), request=request.request))

    def _run(
        self,
        seeds: Sequence[GivenSeed],
        *,
        edited: bool,
        root: tuple[int, int] | None = None,
        number: int = 0,
        changes: Sequence[Change] = (),
    ) -> TapeColumns:
        """One exploring pass; its number is the next one unless given."""
        tape, held = self._explored(seeds, number or self._passes + 1, edited, root, changes)
        self.find_facts(tape)
        self._given[tape.number] = root, list(seeds)
        if tape.changes:
            self._changes[tape.number] = tape.changes
        if root is None:
            self.last_pass = tape.number
        self.add(tape, held)
        for old in sorted(self._held)[1 : 1 - _HELD_PASSES]:
            self._held.pop(old).release()
        return tape

    def _explored(
        self,
        seeds: Sequence[GivenSeed],
        number: int,
        edited: bool,
        root: tuple[int, int] | None,
        changes: Sequence[Change],
    ) -> tuple[TapeColumns, Held]:
        subject = self._explorable()
        total = len(subject.captured)
        return explore(
            subject.captured,
            seeds,
            number=number,
            edited=edited,
            root=root,
            poll=None if self.quiet else lambda done: self.link.give_up(RECORDING, done, total),
            accumulates=subject.accumulates,
            create_graph=subject.create_graph,
            what_ifs=WhatIfs(subject.captured, changes, subject.frame) if changes else None,
        )

    def _tensor(self, tape: int, tensor: int) -> torch.Tensor:
        with suppress(KeyError):
            return self._held[tape].tensor(tensor)
        if self._fetched is None or self._fetched[0] != (tape, tensor):
            self._fetched = None  # room for the next one
            self._fetched = (tape, tensor), self._again(tape, [tensor]).tensor(tensor)
        return self._fetched[1]

    def _again(self, number: int, tensors: Sequence[int]) -> Held:
        """The tensors of a pass that has been let go of, by running it once more."""
        first = self.tapes.get(number)
        if first is None or number not in self._given or not set(tensors).issubset(range(len(first.tensors.held))):
            raise UsageError("this gradient is not held", f"it belongs to pass {number}", "a greater --budget holds more")
        if self.committed:
            raise UsageError(
                "this gradient is not held any more",
                "it did not fit the budget, and your script's own call has run",
                "a greater --budget holds more",
            )
        root, seeds = self._given[number]
        tape, held = self._explored(seeds, number, first.edited, root, self._changes.get(number, []))
        before, now = TensorTable(first.tensors), TensorTable(tape.tensors)
        same = (tape.step_node, tape.contribution_tensor) == (first.step_node, first.contribution_tensor)
        if not same or any(repr(before.summary(tensor)) != repr(now.summary(tensor)) for tensor in tensors):
            raise UsageError(
                "this pass is not repeatable",
                "the gradient did not fit the budget, and the same pass, run again, made other numbers",
                "a greater --budget holds more; hooks and custom Functions must not depend on what changes",
            )
        return held

    def send_tensors(self, request: int, tape: int, numbers: Sequence[int]) -> None:
        """Send whole tensors, and then which of them are not there."""
        held = self._held.get(tape)
        present = {} if held is None else held.present
        there = range(0 if tape not in self.tapes else len(self.tapes[tape].tensors.held))
        gone = [number for number in numbers if number not in present and number in there]
        if gone and not self.committed:
            with suppress(GradscopeError, RuntimeError):
                again = self._again(tape, gone)
                present.update((number, again.tensor(number)) for number in gone)
        missing = []
        for number in numbers:
            try:
                self.link.send(m.TensorBytes(tape, number, *bytes_of(present[number])))
            except (KeyError, GradscopeError, RuntimeError):
                missing.append(number)
        self.link.send(m.TensorsDone(request, missing))


def _refused(request: int, error: Exception) -> m.Refused:
    if isinstance(error, GradscopeError):
        return m.Refused(request, error.what, error.why, error.hint)
    if isinstance(error, Cancelled):
        return m.Refused(request, "the pass was given up", "you cancelled it")
    if isinstance(error, torch.OutOfMemoryError):
        return m.Refused(request, "out of memory", str(error), "a smaller --budget holds fewer gradients")
    why = f"{type(error).__name__}: {error}"
    return m.Refused(request, "gradscope could not do this", why, "this is a fault of gradscope's")
