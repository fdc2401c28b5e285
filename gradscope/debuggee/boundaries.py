"""Where tensors were cut off from their graph: `detach`, `.data`, under `no_grad`, by a function without a derivative, …

Each place that cuts is kept once (a `_Spot`), with weak references to the leaves behind what it cut off. Of each tensor without
a graph that came of a cut, however many steps later, its storage is kept weakly, with the spots it came through, so that it is
known again, also as what a node saved.

By line events (Python 3.12+) calls are seen before they run, and no results: there only a tensor that shares the storage of what
`detach()` was given is known again, and of `no_grad` nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from types import BuiltinFunctionType, FrameType, FunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any

from gradscope.debuggee.custom_forward import surrounding
from gradscope.debuggee.cut_functions import CASTS, Unmeant, casting, choosing, cutting, draws, empty_handed, flat, of_numbers
from gradscope.debuggee.leaves_behind import Leaves, alive, leaves_behind
from gradscope.debuggee.storages import address_of, forget_half
from gradscope.debuggee.watching import PlaceOf, Watcher

_MOST = 20_000
"""storages remembered"""
_MOST_EACH = 4
"""cuts remembered of one storage: the last ones"""
_MOST_SPOTS = 200
"""remembered of what one tensor came through"""
_MOST_LEAVES = 4_000
"""remembered of one spot"""
_WALKS = 4
"""so often the leaves behind are looked for at a spot, before only at every power of two"""
_LEAF = -1


@dataclass(frozen=True, slots=True)
class Boundary:
    """One cut: no gradient goes from what came of it to what it was made of."""

    kind: str
    """one of those of `model.facts.Cut`"""
    place: int
    """number of the place, for `Places.origin`"""
    source: int
    """sequence number of the node that made what was cut; -1 for a leaf"""
    certain: bool = True
    """False where the tensor's storage was cut at several places, and it is not known which of them the tensor came from; and
    where a tensor was made of plain numbers, which may be those of the last cast"""
    leaves: Leaves = ()
    """weakly, those behind what was cut off; of `of` also those behind later cuts that the tensor came through"""


@dataclass(slots=True, eq=False)
class _Spot:
    kind: str
    place: int
    count: int = 0
    latest: Leaves = ()
    """as they were found last"""
    leaves: Leaves = ()
    """of all cuts since the last mark"""
    order: int = 0
    """of the last cut among all"""
    source: int = _LEAF
    """of the last cut"""


@dataclass(slots=True)
class _Cut:
    spots: tuple[_Spot, ...]
    """that the tensor came through, the first first"""
    source: int
    result: weakref.ref[Any] | None
    leaf: weakref.ref[Any] | None
    certain: bool = True


_CALLABLE = (type, BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType)
"""what may be looked up without asking the person's code for a hash"""


class Boundaries:
    """Those of one run."""

    def __init__(self, torch: Any, place_of: PlaceOf) -> None:
        """
        Args:
            torch: the module.
            place_of: the number of the place that calls a function in a frame.
        """
        self._torch = torch
        self._place_of = place_of
        self._kinds = cutting(torch)
        self._casting = casting(torch)
        self._calls = {**flat(torch), **self._kinds, **self._casting, float: "float", int: "int"}
        self._empty_handed = empty_handed(torch)
        self._unmeant = Unmeant(torch)
        self._spots: dict[tuple[int, str], _Spot] = {}
        self._cuts: dict[int, tuple[int, list[_Cut]]] = {}
        """by the address of a storage, which stays its own as long as we hold the weak reference: that, and its cuts"""
        self._order = 0
        self._marked = 0
        self._last_cast: _Cut | None = None
        """of a tensor with a graph, or of one that was cut off"""

    # ------------------------------------------------------------ what others ask

    def of(self, tensor: Any) -> Boundary | None:
        """The first cut that this tensor, or the one whose storage it shares, came from; None for one with a graph."""
        with self._torch._C.DisableTorchFunctionSubclass():
            known = None if tensor.grad_fn is not None else self._cuts.get(address_of(tensor) or 0)
        if known is None:
            return None
        cuts = known[1][::-1]
        found = next((cut for cut in cuts if cut.result is not None and cut.result() is tensor), None)
        if found is None and any(cut.leaf is not None and cut.leaf() is tensor for cut in cuts):
            return None  # it was cut from, not off
        one = found or cuts[0]
        certain = one.certain and (found is not None or len({cut.spots[0].place for cut in cuts}) == 1)
        first = one.spots[0]
        return Boundary(first.kind, first.place, one.source, certain, _joined(spot.leaves for spot in one.spots))

    def since(self, mark: int = 0) -> list[Boundary]:
        """The places that cut after `mark` gave this number, each once, in the order of their last cut there; casts too.

        Nested places of one line (a module and those inside it) are told apart, so there may be many of one line.
        """
        spots = sorted((spot for spot in self._spots.values() if spot.order > mark), key=lambda spot: spot.order)
        return [Boundary(spot.kind, spot.place, spot.source, leaves=spot.leaves) for spot in spots]

    def mark(self) -> int:
        """A number for `since`: from now on cuts are those of another stretch."""
        self._marked = self._order
        return self._order

    def casts(self) -> list[Boundary]:
        """Where tensors with a graph became plain numbers, the latest place last; `source` is that of the last time."""
        return [cut for cut in self.since() if cut.kind in CASTS]

    # ------------------------------------------------------------ what those who watch tell

    def watchers(self) -> dict[Any, Watcher]:
        """Whom to tell of which functions, besides of all that make no node."""
        return {**dict.fromkeys(choosing(self._torch), self._chose), **dict.fromkeys(self._casting, self._cast)}

    def look(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, result: Any, frame: FrameType) -> None:
        """A function that made no node has run: note it if it cut something off, or what it was given was cut off."""
        torch = self._torch
        kind = self._kinds.get(function, "")
        if not kind and (type(function) is MethodWrapperType or function in self._empty_handed):
            return
        with torch._C.DisableTorchFunctionSubclass():
            made = list(_tensors(torch, (result,)))
            if kind == "copy" and self._last_cast is not None and of_numbers(args):
                for one in made:
                    self._remember(one, replace(self._last_cast, result=weakref.ref(one), leaf=None, certain=False))
                return
            new_leaf = kind == "copy"  # torch.tensor(x, requires_grad=True)
            results = made if new_leaf or not any(one.requires_grad for one in made) else []  # of broadcast_tensors some may
            if not results or torch._C._current_graph_task_id() != -1:
                return
            given = _tensors(torch, args if not kwargs else (*args, *kwargs.values()))
            sources = [one for one in given if one.requires_grad or self._was_cut(one)]
            results = [one for one in results if all(one is not source for source in sources)]  # torch.as_tensor(x) is x
            if sources and results:
                self._note(kind or self._kind_now(), function, sources, results, frame)
            elif function is torch.Tensor.detach_ and not self._unmeant(frame):
                self._note_results(self._spot("detach", function, frame, ()), (), results)

    def called(self, function: Any, first: Any, frame: FrameType) -> bool:
        """A function is about to be called: note it if it will cut its first argument off. False if it is none that ever does.

        For those who see no results: of these only cuts are found whose result has the storage of what was cut. Of what runs
        under no_grad they see the calls of modules.
        """
        torch = self._torch
        if issubclass(type(function), torch.nn.Module):
            if not torch.is_grad_enabled():
                given = [first, list(islice(function.parameters(), _MOST_LEAVES))]
                self._without_gradients(self._kind_now(), type(function), given, frame)
            return True
        if draws(function):
            self._without_gradients("no_grad", function, list(vars(first).values()), frame)
            return True
        kind = self._calls.get(function) if type(function) in _CALLABLE else None
        if kind is None or (kind in CASTS and not isinstance(first, torch.Tensor)):
            return False
        with torch._C.DisableTorchFunctionSubclass():
            given = list(_tensors(torch, (first,)))
            if kind in CASTS:
                self._cast_at(kind, function, first, frame)
            elif sources := [one for one in given if one.requires_grad or (kind == "detach" and self._was_cut(one))]:
                if kind == "detach":
                    self._note(kind, function, sources, None, frame)
                elif kind == "copy" or torch.is_grad_enabled():
                    self._note(kind, function, sources, [], frame)
        return True

    def _without_gradients(self, kind: str, function: Any, given: list[Any], frame: FrameType) -> None:
        """Something is about to run that gives nothing with a graph, whatever it is given."""
        if self._torch._C._current_graph_task_id() == -1:
            with self._torch._C.DisableTorchFunctionSubclass():
                if sources := [one for one in _tensors(self._torch, given) if one.requires_grad]:
                    self._note(kind, function, sources, [], frame)

    def wrapped(self, data: Any, parameter: Any, frame: FrameType) -> None:
        """A Parameter was made of a tensor."""
        with self._torch._C.DisableTorchFunctionSubclass():
            if not self._unmeant(frame) and (data.requires_grad or self._was_cut(data)):
                self._note("parameter", self._torch.nn.Parameter, [data], [parameter], frame, anyway=True)

    def differentiated(self, roots: Iterable[Any], frame: FrameType | None) -> Callable[[list[Any]], None]:
        """autograd.grad without create_graph was called in this frame: what it gives is cut off from its roots.

        Returns:
            what to tell the gradients to, once it has given them.
        """
        if frame is None or self._unmeant(frame):
            return lambda gradients: None
        with self._torch._C.DisableTorchFunctionSubclass():
            sources = [root for root in roots if isinstance(root, self._torch.Tensor) and root.requires_grad]
            spot = self._spot("no_create_graph", self._torch.autograd.grad, frame, sources) if sources else None
            number = next(map(_number_of, sources), _LEAF)

        def gave(gradients: list[Any]) -> None:
            if spot is not None:
                with self._torch._C.DisableTorchFunctionSubclass():
                    for one in gradients:
                        self._remember(one, _Cut((spot,), number, weakref.ref(one), None))

        return gave

    # ------------------------------------------------------------ noting

    def _kind_now(self) -> str:
        """What cuts where nothing but the call itself can have."""
        torch = self._torch
        if torch.is_grad_enabled():
            return "flat"
        return "inference_mode" if torch.is_inference_mode_enabled() else "no_grad"

    def _note(
        self, kind: str, function: Any, sources: list[Any], results: list[Any] | None, frame: FrameType, anyway: bool = False
    ) -> None:
        """What was computed without a graph, of tensors that have one or were cut off themselves.

        Args:
            kind: of the cut, if it is one.
            function: that cut.
            sources: what it was given.
            results: what it gave; None where that is not known and has the memory of the source.
            frame: that called.
            anyway: it counts as a cut of its own even where its sources were cut off before.
        """
        with_graph = [one for one in sources if one.requires_grad]
        earlier = next((cut for cut in map(self._cut_of, sources) if cut is not None), None)
        spot = None
        if with_graph or anyway:
            around = None if self._torch.is_grad_enabled() else surrounding(self._torch, frame)
            if around is not None:
                if not around.cuts:
                    return
                kind, function, frame = "checkpoint", around.function, around.caller
            elif self._unmeant(frame):
                return
            handed = () if earlier is None else _joined(one.leaves for one in earlier.spots)
            spot = self._spot(kind, function, frame, with_graph, handed if anyway else ())
        self._note_results(spot, with_graph or sources, results, earlier)

    def _spot(self, kind: str, function: Any, frame: FrameType, sources: Iterable[Any], handed: Leaves = ()) -> _Spot:
        """The spot of a cut that has just been, with the leaves behind it."""
        place = self._place_of(frame, function)
        spot = self._spots.get((place, kind))
        if spot is None:
            spot = self._spots[place, kind] = _Spot(kind, place)
        spot.count += 1
        walk = spot.count <= _WALKS or spot.count.bit_count() == 1 or not alive(spot.latest)
        if walk or handed:
            spot.latest = _joined((leaves_behind(sources), handed))
        if spot.order <= self._marked:
            spot.leaves = spot.latest
        elif walk:
            spot.leaves = _joined((spot.leaves, spot.latest))
        self._order += 1
        spot.order = self._order
        spot.source = next(map(_number_of, sources), _LEAF)
        return spot

    def _note_results(
        self, spot: _Spot | None, sources: Iterable[Any], results: list[Any] | None, earlier: _Cut | None = None
    ) -> None:
        """Remember what came of a cut, or of what was cut off `earlier`."""
        spots = () if earlier is None else earlier.spots
        if spot is not None and spot not in spots and len(spots) < _MOST_SPOTS:
            spots = (*spots, spot)
        if not spots:
            return
        first = next(iter(sources), None)
        number = earlier.source if earlier is not None else _LEAF if first is None else _number_of(first)
        certain = earlier is None or earlier.certain
        leaf = weakref.ref(first) if first is not None and first.requires_grad and number == _LEAF else None
        for one in results if results is not None else [first]:
            self._remember(one, _Cut(spots, number, None if results is None else weakref.ref(one), leaf, certain))

    def _remember(self, tensor: Any, cut: _Cut) -> None:
        address = address_of(tensor)
        if address is None:
            return
        known = self._cuts.pop(address, None)
        if known is None:
            known = tensor.untyped_storage()._weak_ref(), []
        self._cuts[address] = known
        known[1].append(cut)
        del known[1][:-_MOST_EACH]
        if len(self._cuts) > _MOST:
            forget_half(self._torch, self._cuts, _MOST)

    def _cast(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, result: Any, frame: FrameType, number: int
    ) -> None:
        with self._torch._C.DisableTorchFunctionSubclass():
            self._cast_at(self._casting[function], function, args[0], frame)

    def _cast_at(self, kind: str, function: Any, tensor: Any, frame: FrameType) -> None:
        if self._unmeant(frame):
            return
        if tensor.requires_grad:
            self._last_cast = _Cut((self._spot(kind, function, frame, [tensor]),), _number_of(tensor), None, None)
        else:
            self._last_cast = self._cut_of(tensor) or self._last_cast

    def _chose(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, result: Any, frame: FrameType, number: int
    ) -> None:
        """`values, places = x.max(0)`: the places are cut off, though a node was made."""
        torch = self._torch
        if not isinstance(result, tuple) or not args or not isinstance(args[0], torch.Tensor):
            return
        with torch._C.DisableTorchFunctionSubclass():
            flat = [one for one in result if not one.requires_grad]
            if args[0].requires_grad and torch.is_grad_enabled() and flat and torch._C._current_graph_task_id() == -1:
                self._note("flat", function, [args[0]], flat, frame)

    def _cut_of(self, tensor: Any) -> _Cut | None:
        """What is known of a tensor without a graph."""
        known = None if tensor.requires_grad else self._cuts.get(address_of(tensor) or 0)
        if known is None:
            return None
        return next((cut for cut in known[1][::-1] if cut.result is not None and cut.result() is tensor), known[1][-1])

    def _was_cut(self, tensor: Any) -> bool:
        return bool(self._cuts) and address_of(tensor) in self._cuts


def _joined(several: Iterable[Leaves]) -> Leaves:
    """All of them, each once; equal weak references are those of one live tensor."""
    found: dict[int, weakref.ref[Any]] = {}
    for leaves in several:
        for leaf in leaves:
            found.setdefault(id(leaf), leaf)
    return tuple(islice(found.values(), _MOST_LEAVES))


def _number_of(tensor: Any) -> int:
    node = tensor.grad_fn
    return _LEAF if node is None else int(node._sequence_nr())


def _tensors(torch: Any, values: Iterable[Any]) -> Iterator[Any]:
    """The tensors among values and two levels into lists and tuples of them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            for item in value:
                if isinstance(item, torch.Tensor):
                    yield item
                elif isinstance(item, list | tuple):
                    yield from (one for one in item if isinstance(one, torch.Tensor))
