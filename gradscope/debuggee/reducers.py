"""What distributed wrappers do to a backward pass: whose `.grad` they write, and where trying it out beforehand would be wrong.

DistributedDataParallel listens at AccumulateGrad, which an exploring pass does not run: it is exact, on one rank alone too. FSDP
gathers and scatters inside the pass, and every rank must take part.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import torch

AVERAGES = "DistributedDataParallel averages gradients over the ranks"
DELAYS = "with static_graph DistributedDataParallel would reduce gradients in this pass too"
SHARDS = "with FSDP all ranks must run the pass"
SCATTERS = "FSDP scatters the sum of all ranks' gradients instead"
_FSDP = ("torch.distributed.fsdp.", "torch.distributed._composable.")


def wrappers_of(leaves: Iterable[torch.Tensor]) -> dict[int, Any]:
    """The DistributedDataParallel that each of these tensors is a parameter of, by id; those of none left out."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return {}
    kind, wanted = torch.nn.parallel.DistributedDataParallel, set(map(id, leaves))
    wrappers = [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]
    owners = {id(parameter): wrapper for wrapper in wrappers for parameter in wrapper.parameters()}
    return {number: owners[number] for number in wanted & owners.keys()}


def writes(leaf: torch.Tensor, wrappers: dict[int, Any], refusal: str) -> str:
    """Why the leaf's `.grad` will not be what this rank's pass gives; empty where it will."""
    if refusal == SHARDS:
        return SCATTERS
    wrapper = wrappers.get(id(leaf))
    reduces = wrapper is not None and wrapper.require_forward_param_sync  # False when its last forward was under no_sync
    return AVERAGES if reduces else ""


def refusal_of_wrappers(wrappers: dict[int, Any]) -> str:
    """Why a pass for parameters of these wrappers must not be tried out; empty where it may be."""
    return DELAYS if any(wrapper.static_graph for wrapper in wrappers.values()) else ""


def refusal_of_python(function: Any) -> str:
    """Why a pass that runs this hook, or this class of custom Functions, must not be tried out."""
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    return SHARDS if str(getattr(function, "__module__", "")).startswith(_FSDP) else ""
