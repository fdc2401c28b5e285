"""How much memory the gradients of a stop may hold; what is beyond it is let go of, and its summary stays.

Small tensors stay first: there are many of them, and those are the ones a person looks at number by number.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from gradscope.debuggee.parts import PLAIN, parts
from gradscope.debuggee.tape_builder import Held
from gradscope.model.columns import TapeColumns
from gradscope.model.tensors import TensorColumns

_SHARE = 4
"""Unless told otherwise, gradients take one part in so many of the memory that is free."""


class Budget:
    """Bytes of gradients to hold per device.

    Args:
        most: for each device; 0 for a quarter of what is free when the first tensor of the device comes.
    """

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._limits: dict[torch.device, int] = {}

    def limit(self, device: torch.device) -> int:
        if device not in self._limits:
            self._limits[device] = self._most or _free(device) // _SHARE
        return self._limits[device]

    def trim(self, tape: TapeColumns, held: Held, others: Iterable[Held] = ()) -> None:
        """Let go of what does not fit beside what the other passes hold, and mark it in the tape."""
        held.bytes = _size(tape.tensors)
        others = list(others)
        limits = [self.limit(torch.device(device)) for device in tape.tensors.devices]
        if held.bytes + sum(other.bytes for other in others) <= min(limits, default=0):
            return  # the usual case, told without a look at each tensor
        used: dict[torch.device, int] = {}
        seen: set[tuple[torch.device, int]] = set()
        for other in others:
            for tensor in other.present.values():
                _fits(tensor, used, seen, None)
        kept = bytearray(len(held))
        by_size = sorted(held.present.items(), key=lambda item: _bytes(item[1]))
        dropped = []
        for number, tensor in by_size:
            kept[number] = _fits(tensor, used, seen, self.limit(tensor.device))
            if not kept[number]:
                dropped.append(number)
        if dropped:
            held.drop(dropped)
            tape.tensors.held = bytes(kept)
            tape.notes.append(f"{len(dropped)} of {len(kept)} gradients do not fit the budget (--budget): their summaries stay")


def _size(tensors: TensorColumns) -> int:
    """Bytes of all elements, on whatever device."""
    kinds = Counter(zip(memoryview(tensors.shape).cast("i"), memoryview(tensors.dtype).cast("i"), strict=True))
    return sum(
        count * math.prod(tensors.shapes[shape]) * getattr(torch, tensors.dtypes[dtype]).itemsize
        for (shape, dtype), count in kinds.items()
    )


def _fits(tensor: torch.Tensor, used: dict[torch.device, int], seen: set[tuple[torch.device, int]], limit: int | None) -> bool:
    """Count the tensor's memory, once for all its views; False where it is beyond the limit."""
    device = tensor.device
    key = device, _memory(tensor)
    if key in seen:
        return True
    total = used.get(device, 0) + _bytes(tensor)
    if limit is not None and total > limit:
        return False
    seen.add(key)
    used[device] = total
    return True


def _memory(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr() or id(tensor)
    except Exception:  # sparse, nested: no storage of its own
        return id(tensor)


def _bytes(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().nbytes()
    except Exception:
        return sum(part.untyped_storage().nbytes() for part in _parts(tensor))


def _parts(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    try:
        if tensor.layout == torch.sparse_coo:
            return tensor._indices(), tensor._values()
        if type(tensor) not in PLAIN and not tensor.is_nested:
            return parts(tensor)[0]
        return (tensor.values(),)
    except Exception:
        return ()


def _free(device: torch.device) -> int:
    """Bytes that are free on the device."""
    backend: Any = getattr(torch, device.type, None)
    if device.type != "cpu" and hasattr(backend, "mem_get_info"):
        return int(backend.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
