"""What a tensor of a class of its own is made of: plain tensors, and what its class keeps beside them.

Wrappers (`__torch_dispatch__`, distributed and masked tensors) have no numbers themselves; what they wrap need not be what they
mean, so parts serve to tell two tensors alike or not, never to say what is in them. To ask a wrapper of the person's own for
anything else would run the person's code, which may count and print: the record does without.
"""

from __future__ import annotations

from typing import Any

import torch

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Classes whose tensors are all that there is to them."""
TRACED = ("FakeTensor", "FunctionalTensor")
"""Classes of a compiler's traces, which stay alive with what it has compiled."""


class Opaque(TypeError):
    """Nothing can be said of this tensor, as its class keeps to itself what it is made of."""


def parts(tensor: torch.Tensor) -> tuple[list[torch.Tensor], Any]:
    """The tensors that one of another class wraps (or its own elements), and what else makes it what it is.

    Raises:
        Opaque: its class does not tell.
    """
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        names, context = flatten()
        inner = [getattr(tensor, name) for name in names]  # a mesh of devices may be among them
        others = [one for one in inner if not isinstance(one, torch.Tensor)]
        return [one for one in inner if isinstance(one, torch.Tensor)], (context, others)
    if not is_wrapper(tensor):
        return [elements_of(tensor)], None
    inside = vars(tensor)
    tensors = [value for value in inside.values() if isinstance(value, torch.Tensor)]
    if not tensors:
        raise Opaque(f"{type(tensor).__name__} does not tell what it wraps")
    return tensors, {name: value for name, value in inside.items() if isinstance(value, (str, int, float, tuple, torch.dtype))}


def is_foreign(tensor: torch.Tensor) -> bool:
    """Whether every operation on the tensor runs Python that is not torch's."""
    return type(tensor) not in PLAIN and is_foreign_class(type(tensor))


def is_foreign_class(kind: type[torch.Tensor]) -> bool:
    own = getattr(kind, "__torch_dispatch__", torch._C._disabled_torch_dispatch_impl)
    return own is not torch._C._disabled_torch_dispatch_impl and not kind.__module__.startswith("torch.")


def check_own(*tensors: torch.Tensor) -> None:
    """Nothing, where computing with these tensors runs torch's code alone.

    Raises:
        Opaque: it would run the person's.
    """
    for tensor in tensors:
        if is_foreign(tensor):
            raise Opaque(f"{type(tensor).__name__} computes with its own __torch_dispatch__, which is not run for the record")


def detached(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without its graph; of a foreign class the very tensor, as its class would be asked to detach it."""
    return tensor if is_foreign(tensor) else tensor.detach()


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy; of a foreign class the very tensor."""
    return tensor if is_foreign(tensor) else tensor.detach().clone()


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether the tensor has no memory of its own, or another than what its elements are in (a nested one)."""
    if type(tensor).__name__ in TRACED:  # has no numbers; torch warns of whoever asks for its memory
        return True
    try:
        return tensor.is_nested or (tensor.untyped_storage().data_ptr() == 0 and tensor.numel() > 0)
    except Exception:
        return True


def elements_of(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as a plain tensor; the class is not asked."""
    with torch._C.DisableTorchFunctionSubclass(), torch._C._DisableTorchDispatch():
        plain: torch.Tensor = torch.Tensor._make_subclass(torch.Tensor, tensor.detach())
    return plain


def same_context(one: Any, other: Any) -> bool:
    """What two classes keep beside tensors; comparing may run the person's code, which may refuse."""
    try:
        return one is other or bool(one == other)
    except Exception:
        return False
