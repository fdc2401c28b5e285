"""One call by the script of backward() or autograd.grad(), as the choke point sees it."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(slots=True)
class BackwardCall:
    """Lives while the call does. Holds the script's frame, so let go of it with `release`."""

    number: int
    """from 1"""
    roots: tuple[Any, ...]
    """tensors or gradient edges"""
    seeds: tuple[torch.Tensor | None, ...]
    """as torch hands them to its engine: an implicit 1 is a tensor already (unless `refusal` says that torch will not make it)"""
    keep_graph: bool
    create_graph: bool
    inputs: tuple[Any, ...]
    """the tensors that the call differentiates for; empty for all leaves"""
    accumulates: bool
    """True for backward(), False for grad()"""
    frame: FrameType | None = field(repr=False)
    refusal: str = ""
    """torch's own text when it will not take the seeds"""
    thread: str = field(default_factory=lambda: threading.current_thread().name)
    company: list[str] = field(default_factory=list)
    """names of the other threads that were in a backward call of theirs meanwhile, so far"""
    edited: Sequence[torch.Tensor | None] | None = None
    """Set before the call goes on: seeds to use instead of the script's own."""

    @property
    def kind(self) -> str:
        return "backward" if self.accumulates else "grad"

    @property
    def reason(self) -> str:
        """Why one would stop here, as `Stopped.reason` has it."""
        if self.refusal:
            return "seed"
        return "no-graph" if self.rootless is not None else "call"

    @property
    def detail(self) -> str:
        """Torch's own error text where it will refuse the call."""
        if self.refusal:
            return self.refusal
        place = self.rootless
        return "" if place is None else f"element {place} of tensors does not require grad and does not have a grad_fn"

    @property
    def rootless(self) -> int | None:
        """The first root that has no graph."""
        for place, root in enumerate(self.roots):
            if isinstance(root, torch.Tensor) and not root.requires_grad:
                return place
        return None

    @property
    def batched(self) -> bool:
        """The call is vectorised (`is_grads_batched`): every gradient has a hidden dimension."""
        tensors = [seed for seed in self.seeds if isinstance(seed, torch.Tensor)]
        return any(map(torch._C._functorch.is_legacy_batchedtensor, tensors))

    @property
    def given(self) -> tuple[bool, ...]:
        """For each root whether the script gave its seed; False for an implicit 1."""
        argument = self._argument("grad_tensors", "grad_outputs")
        seeds = argument if isinstance(argument, (tuple, list)) else [argument]
        given = [seed is not None for seed in seeds]
        return tuple(given + [False] * (len(self.roots) - len(given)))[: len(self.roots)]

    def _argument(self, *names: str) -> Any:
        """An argument of autograd.backward() or grad(), read from its frame."""
        frame = self.frame
        while frame is not None and frame.f_code.co_filename.startswith(_TORCH):
            if frame.f_code.co_name in ("backward", "grad"):
                for name in names:
                    if name in frame.f_code.co_varnames:
                        return frame.f_locals.get(name)
            frame = frame.f_back
        return None

    @property
    def script_frame(self) -> FrameType | None:
        """The innermost frame that is neither torch's nor gradscope's: where the person wrote the call."""
        frame = self.frame
        while frame is not None and frame.f_code.co_filename.startswith((_TORCH, _HERE)):
            frame = frame.f_back
        return frame if frame is not None else self.frame

    def release(self) -> None:
        """Let go of the frame and the tensors: a call that outlives its run would keep the graph."""
        self.frame = None
        self.roots, self.seeds, self.inputs = (), (), ()
        self.edited = None
