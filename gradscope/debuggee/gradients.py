"""What is in the `.grad` of parameters, and whose parameters they are."""

from __future__ import annotations

from typing import Any

import torch

from gradscope.debuggee.optimizers import parameters


def held_by(owner: Any) -> set[int]:
    """The ids of the tensors that an optimizer steps, or that a module and those below it hold."""
    if isinstance(owner, torch.nn.Module):
        return set(map(id, torch.nn.Module.parameters(owner)))
    return {id(tensor) for _, _, tensor in parameters(owner)} if owner is not None else set()


def is_empty(gradient: Any) -> bool:
    """Nothing is there, or zeros alone."""
    if gradient is None:
        return True
    try:
        with torch.no_grad():
            values = gradient.coalesce().values() if gradient.is_sparse else gradient
            return not bool(values.any())
    except Exception:  # a layout without that
        return False
