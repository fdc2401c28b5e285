"""Which line wrote last into the memory of a tensor: in-place methods, `x[...] =`, `out=`, also through `.data` and `detach()`.

Kept of each storage are its last few writes, as numbers, and a weak reference by which a tensor of the same storage is known
again. What C++ or NumPy writes past Python's calls of torch is not seen, and by line events (Python 3.12+) none of torch's
in-place functions either: there only the writes that others tell with `note`.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Any

from gradscope.debuggee.storages import address_of, forget_half, version_of
from gradscope.debuggee.torch_functions import function_name
from gradscope.debuggee.watching import PlaceOf, Watcher

_MOST = 4_000
"""storages remembered"""
_MOST_EACH = 8
"""writes remembered of one storage: the last ones"""
_MOST_LISTED = 1_000
"""tensors of one list that is written into as a whole"""
_SAME_MEMORY = frozenset({"requires_grad_", "retain_grad_", "detach_", "rename_", "share_memory_", "pin_memory_"})
"""named as if they wrote"""
_AUGMENTED = ("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul")


@dataclass(frozen=True, slots=True)
class LastWrite:
    """A write into the memory of a tensor."""

    place: int
    """number of the place, for `Places.origin`"""
    function: str
    """`Tensor.relu_`, `Tensor.__setitem__`, `SGD.step`"""
    number: int
    """autograd's number before it: nodes with a smaller one were there already"""
    version: int
    """of the tensor it wrote through, after it; that of `.data` counts for itself. -1 where it keeps none"""
    overlaps: bool = True
    """False where it wrote another part of the storage"""


@dataclass(slots=True)
class _Write:
    place: int
    function: Any
    number: int
    start: int
    end: int
    version: int


class Writes:
    """Those of one run."""

    def __init__(self, torch: Any, place_of: PlaceOf) -> None:
        self._torch = torch
        self._place_of = place_of
        self._number: Callable[[], int] = torch.autograd._get_sequence_nr
        self._known: dict[int, tuple[int, deque[_Write]]] = {}
        """by the address of a storage, which stays its own as long as we hold the weak reference: that, and its writes"""

    def to(self, tensor: Any, since: int, anywhere: bool = False) -> LastWrite | None:
        """The last write that a node has not seen.

        Args:
            tensor: what the node saved.
            since: the node's sequence number.
            anywhere: other parts of the storage count too, as they do for torch's check of versions.
        """
        with self._torch._C.DisableTorchFunctionSubclass():
            known = self._known.get(address_of(tensor) or 0)
            if known is None:
                return None
            start, end = _range(tensor)
        for one in reversed(known[1]):
            if one.number <= since:
                return None
            overlaps = one.start < end and start < one.end
            if overlaps or anywhere:
                return LastWrite(one.place, self._name(one.function), one.number, one.version, overlaps)
        return None

    def since(self, number: int) -> set[int]:
        """The addresses of the storages that were written into after the node of this number was made."""
        return {address for address, (_, writes) in self._known.items() if writes[-1].number > number}

    def note(self, tensor: Any, place: int, function: Any, number: int = -1) -> None:
        """Something was written.

        Args:
            tensor: what was written into.
            place: number of the place.
            function: torch's, or what to call it: `SGD.step`.
            number: autograd's number before; without one, that of now.
        """
        with self._torch._C.DisableTorchFunctionSubclass():
            self._note(tensor, place, function, self._number() if number < 0 else number)

    def watchers(self) -> dict[Any, Watcher]:
        """Whom to tell of which functions."""
        found: dict[Any, Watcher] = dict.fromkeys(_writing(self._torch), self._wrote)
        found[self._torch.Tensor.__setitem__] = self._put
        found[self._torch.Tensor.data.__set__] = self._wrote
        for function, position in _may_write(self._torch):
            found[function] = self._perhaps(position)
        return found

    def gave_out(self, function: Any, out: Any, frame: FrameType, number: int) -> None:
        """A function has run that was given an `out=`."""
        with self._torch._C.DisableTorchFunctionSubclass():
            place = self._place_of(frame, function)
            for one in out if isinstance(out, list | tuple) else (out,):
                self._note(one, place, function, number)

    def _wrote(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, result: Any, frame: FrameType, number: int
    ) -> None:
        into = args[0] if args else next(iter(kwargs.values()), None) if kwargs else None
        with self._torch._C.DisableTorchFunctionSubclass():
            place = self._place_of(frame, function)
            for one in islice(into, _MOST_LISTED) if isinstance(into, list | tuple) else (into,):
                self._note(one, place, function, number)

    def _put(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, result: Any, frame: FrameType, number: int
    ) -> None:
        """`x[1:3] = …`: what was written is a part, where the index says which."""
        torch = self._torch
        into, index = args[0], args[1]
        with torch._C.DisableTorchFunctionSubclass():
            if _is_plain(index):
                try:
                    with torch._C._AutoDispatchBelowAutograd():
                        part = into[index]
                except Exception:
                    part = into
                start, end = _range(part)
            else:
                start, end = _range(into)
            self._note(into, self._place_of(frame, function), function, number, start, end)

    def _perhaps(self, position: int) -> Watcher:
        """For functions that write where `inplace` is true."""

        def watcher(
            function: Any,
            args: tuple[Any, ...],
            kwargs: Mapping[str, Any] | None,
            result: Any,
            frame: FrameType,
            number: int,
        ) -> None:
            if (args[position] if len(args) > position else (kwargs or {}).get("inplace")) is True:
                self._wrote(function, args, kwargs, result, frame, number)

        return watcher

    def _note(self, tensor: Any, place: int, function: Any, number: int, start: int = 0, end: int = 0) -> None:
        if not isinstance(tensor, self._torch.Tensor):
            return
        address = address_of(tensor)
        if address is None:
            return
        known = self._known.pop(address, None)
        if known is None:
            known = tensor.untyped_storage()._weak_ref(), deque(maxlen=_MOST_EACH)
        self._known[address] = known
        if not end:
            start, end = _range(tensor)
        known[1].append(_Write(place, function, number, start, end, version_of(tensor)))
        if len(self._known) > _MOST:
            forget_half(self._torch, self._known, _MOST)

    def _name(self, function: Any) -> str:
        return function if isinstance(function, str) else function_name(self._torch, function)


def _writing(torch: Any) -> list[Any]:
    """Every function of torch's that writes into its first argument, as a function mode is given it."""
    found = []
    for home in (torch.Tensor, torch, torch.nn.functional, torch._C._nn, torch._C._special):
        for name in dir(home):
            if name.endswith("_") and not name.endswith("__") and name not in _SAME_MEMORY:
                function = getattr(home, name, None)
                if callable(function) and not isinstance(function, type):
                    found.append(function)
    return found + [getattr(torch.Tensor, f"__i{name}__", None) for name in _AUGMENTED if hasattr(torch.Tensor, f"__i{name}__")]


def _may_write(torch: Any) -> list[tuple[Any, int]]:
    """The functions with an argument `inplace`, and its position."""
    found = []
    for name, function in vars(torch.nn.functional).items():
        if inspect.isfunction(function) and not name.startswith("__"):
            code = function.__code__
            names = code.co_varnames[: code.co_argcount]
            if "inplace" in names:
                found.append((function, names.index("inplace")))
    return found


def _is_plain(index: Any) -> bool:
    """Whether an index makes a view, and asks no code of the person's for it."""
    parts = index if type(index) is tuple else (index,)
    return all(type(part) in (int, slice, type(None), type(...)) for part in parts)


def _range(tensor: Any) -> tuple[int, int]:
    """From which address to which its elements lie."""
    try:
        start, size = int(tensor.data_ptr()), int(tensor.element_size())
        count = int(tensor.numel())
        if not tensor.is_contiguous() and count:
            count = 1 + sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
        return start, start + count * size
    except Exception:
        return 0, 0
