"""torch.compile may give the memory of what a backward needs to that backward (donated buffers): then it runs once only.

As long as passes may be tried out it is asked to keep that memory. The numbers are the same; where a script wants its buffers
donated, its passes are not tried out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

REUSES = "torch.compile lets this backward reuse the memory of what it needs (donated_buffer), so it can run once only"


def keep() -> Callable[[], None]:
    """Ask for it. The answer puts the script's own setting back."""
    config = _config()
    before = config.donated_buffer
    config.donated_buffer = False

    def restore() -> None:
        config.donated_buffer = before

    return restore


def refusal_of(function: Any) -> str:
    """Why a pass through nodes of this class of Functions must not be tried out; empty where it may be."""
    if function.__name__ != "CompiledFunction" or not function.__module__.startswith("torch._functorch."):
        return ""
    donated = getattr(getattr(function, "metadata", None), "bw_donated_idxs", None) != []  # as torch asks
    return REUSES if donated and _config().donated_buffer else ""


def _config() -> Any:
    import torch._functorch.config  # not there before something asks for it

    return torch._functorch.config
