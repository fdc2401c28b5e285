"""Notes about the storages of tensors, which hold none of them alive.

A storage is known by its address, which stays its own as long as we hold a weak reference to it.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

Known = dict[int, tuple[int, Any]]
"""address -> the weak reference, as torch gives it, and what is noted"""


def address_of(tensor: Any) -> int | None:
    """That of its storage; None for one without: sparse, or of a class that has none."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except Exception:
        return None


def version_of(tensor: Any) -> int:
    """`_version`; -1 where torch counts none (inference tensors)."""
    try:
        return int(tensor._version)
    except Exception:
        return -1


def has_values(tensor: Any) -> bool:
    """Whether a strided tensor's elements can be read: FSDP frees the memory of parameters and leaves the tensors."""
    if tensor.device.type == "meta":
        return False
    if not tensor.numel():
        return True
    last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return bool(tensor.untyped_storage().nbytes() >= (last + 1) * tensor.element_size())


def forget_half(torch: Any, known: Known, most: int) -> None:
    """Leave at most half of `most` notes: those of dead storages go first, then the oldest."""
    storage = torch.UntypedStorage
    dead = [address for address, (weak, _) in known.items() if storage._expired(weak)]
    gone = set(dead)
    rest = max(0, len(known) - len(dead) - most // 2)
    for address in [*dead, *islice((one for one in list(known) if one not in gone), rest)]:
        storage._free_weak_ref(known.pop(address)[0])
