"""Where tensors were cut off from their graph: `detach`, `.data`, under `no_grad`, or turned into plain numbers.

What is kept of each is its kind, its place and the number of the node that was cut off: no tensor, and of a storage no more than
a weak reference, by which a tensor of the same storage is known again (also as what a node saved).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import BuiltinFunctionType, FrameType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

_MOST = 20_000
"""storages remembered"""
_MOST_EACH = 4
"""cuts remembered of one storage: the last ones"""
_LEAF = -1


@dataclass(frozen=True, slots=True)
class Boundary:
    """One cut: no gradient goes from what came of it to what it was made of."""

    kind: str
    """`detach`, `data`, `no_grad`, `inference_mode`, `copy` (torch.tensor of a tensor); of casts `item`, `tolist`, `numpy`,
    `float`, `int`"""
    place: int
    """number of the place, for `Places.origin`"""
    source: int
    """sequence number of the node that made what was cut; -1 for a leaf"""
    certain: bool = True
    """False where the tensor's storage was cut at several places, and it is not known which of them the tensor came from"""


@dataclass(slots=True)
class _Cut:
    kind: str
    place: int
    source: int
    result: weakref.ref[Any] | None
    leaf: weakref.ref[Any] | None


def boundary_functions(torch: Any) -> dict[Any, str]:
    """The functions that cut, as a function mode is given them, with what to call each."""
    tensor = torch.Tensor
    return {
        tensor.detach: "detach",
        tensor.detach_: "detach",
        torch.detach: "detach",
        torch.detach_: "detach",
        tensor.data.__get__: "data",
        torch.tensor: "copy",
        tensor.item: "item",
        tensor.tolist: "tolist",
        tensor.numpy: "numpy",
        tensor.__array__: "numpy",
        tensor.__float__: "float",
        tensor.__int__: "int",
    }


_CALLABLE = (type, BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType)
"""what may be looked up without asking the person's code for a hash"""
_CASTS = ("item", "tolist", "numpy", "float", "int")


class Boundaries:
    """Those of one run."""

    def __init__(self, torch: Any, place_of: Callable[[FrameType, Any], int]) -> None:
        """
        Args:
            torch: the module.
            place_of: the number of the place that calls a function in a frame.
        """
        self._torch = torch
        self._place_of = place_of
        self._kinds = boundary_functions(torch)
        self._calls = {**self._kinds, float: "float", int: "int"}
        self._cuts: dict[int, tuple[int, list[_Cut]]] = {}
        """by the address of a storage, which stays its own as long as we hold the weak reference: that, and its cuts"""
        self._casts: dict[tuple[int, str], int] = {}

    def of(self, tensor: Any) -> Boundary | None:
        """The cut that this tensor, or the one whose storage it shares, came from; None for one with a graph."""
        with self._torch._C.DisableTorchFunctionSubclass():
            known = None if tensor.grad_fn is not None else self._cuts.get(_address(tensor) or 0)
        if known is None:
            return None
        cuts = known[1][::-1]
        found = next((cut for cut in cuts if cut.result is not None and cut.result() is tensor), None)
        if found is None and any(cut.leaf is not None and cut.leaf() is tensor for cut in cuts):
            return None  # it was cut from, not off
        one = found or cuts[0]
        certain = found is not None or len({cut.place for cut in cuts}) == 1
        return Boundary(one.kind, one.place, one.source, certain)

    def casts(self) -> list[Boundary]:
        """Where tensors with a graph became plain numbers, the latest place last; `source` is that of the last time."""
        return [Boundary(kind, place, source) for (place, kind), source in self._casts.items()]

    def look(self, function: Any, args: tuple[Any, ...], result: Any, frame: FrameType) -> None:
        """A function that made no node has run: note it if it cut something off."""
        torch = self._torch
        kind = self._kinds.get(function)
        with torch._C.DisableTorchFunctionSubclass():
            if kind is None:
                if torch._C._current_graph_task_id() == -1:
                    kind = "inference_mode" if torch.is_inference_mode_enabled() else "no_grad"
                    self._note_results(kind, function, args, result, frame)
                return
            tensor = args[0] if args and isinstance(args[0], torch.Tensor) else None
            if tensor is None or not (tensor.requires_grad or (kind not in _CASTS and self._was_cut(tensor))):
                return
            if kind in _CASTS:
                self._note_cast(kind, function, tensor, frame)
            else:
                self._note(kind, function, tensor, result, frame)

    def called(self, function: Any, first: Any, frame: FrameType) -> bool:
        """A function is about to be called: note it if it will cut its first argument off. False if it is none that ever does.

        For those who see no results: of these only cuts are found whose result has the storage of what was cut.
        """
        kind = self._calls.get(function) if type(function) in _CALLABLE else None
        if kind is None or not isinstance(first, self._torch.Tensor):
            return False
        with self._torch._C.DisableTorchFunctionSubclass():
            if first.requires_grad and kind in _CASTS:
                self._note_cast(kind, function, first, frame)
            elif kind == "detach" and (first.requires_grad or self._was_cut(first)):
                self._note(kind, function, first, None, frame)
        return True

    def _note_cast(self, kind: str, function: Any, tensor: Any, frame: FrameType) -> None:
        key = self._place_of(frame, function), kind
        self._casts.pop(key, None)
        self._casts[key] = _number_of(tensor)

    def _note_results(self, kind: str, function: Any, args: tuple[Any, ...], result: Any, frame: FrameType) -> None:
        """What is computed without a graph, of tensors that have one or were cut off themselves."""
        results = [one for one in _tensors(self._torch, (result,)) if not one.requires_grad]
        if not results:
            return
        source = next((one for one in _tensors(self._torch, args) if one.requires_grad or self._was_cut(one)), None)
        if source is not None:
            for one in results:
                self._note(kind, function, source, one, frame)

    def _note(self, kind: str, function: Any, source: Any, result: Any, frame: FrameType) -> None:
        shares = source if result is None else result
        address = _address(shares)
        if address is None:
            return
        known = self._cuts.pop(address, None)
        if known is None:
            known = shares.untyped_storage()._weak_ref(), []
        self._cuts[address] = known
        number = _number_of(source)
        leaf = weakref.ref(source) if source.requires_grad and number == _LEAF else None
        known[1].append(
            _Cut(kind, self._place_of(frame, function), number, None if result is None else weakref.ref(result), leaf)
        )
        del known[1][:-_MOST_EACH]
        if len(self._cuts) > _MOST:
            self._forget_half()

    def _was_cut(self, tensor: Any) -> bool:
        return bool(self._cuts) and _address(tensor) in self._cuts

    def _forget_half(self) -> None:
        """Those of dead storages first, then the oldest."""
        storage = self._torch.UntypedStorage
        dead = [address for address, (weak, _) in self._cuts.items() if storage._expired(weak)]
        rest = max(0, len(self._cuts) - len(dead) - _MOST // 2)
        gone = set(dead)
        for address in [*dead, *islice((one for one in self._cuts if one not in gone), rest)]:
            storage._free_weak_ref(self._cuts.pop(address)[0])


def _address(tensor: Any) -> int | None:
    try:
        return int(tensor.untyped_storage()._cdata)
    except Exception:  # sparse, or a subclass without one
        return None


def _number_of(tensor: Any) -> int:
    node = tensor.grad_fn
    return _LEAF if node is None else int(node._sequence_nr())


def _tensors(torch: Any, values: Iterable[Any]) -> Iterator[Any]:
    """The tensors among values and one level into lists and tuples of them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, torch.Tensor))
