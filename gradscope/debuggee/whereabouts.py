"""Where a call of torch's stands: the person's frame above it, the module at work, and which way leads from one to the other."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from gradscope.debuggee import person_code
from gradscope.debuggee.traced_code import compiled

_SEARCHED = 100
"""How many frames above the person's are searched for the module: deep recursion must not make each call slower and slower."""

Whereabouts = tuple[FrameType, Any, Any, FrameType | None]
"""the person's frame (else a library's, else the very frame); the innermost nn.Module called there, or None; what tells the
frames between from others, or None where there are none: nested tuples of numbers, for a key; the outermost frame between"""


def finder(module_type: Any) -> Callable[[FrameType], Whereabouts]:
    """A function that tells the whereabouts of a frame. It is called for each call of torch: no more than one walk upward.

    Args:
        module_type: torch.nn.Module.
    """
    call_impl = module_type._call_impl.__code__
    passed = module_type._wrapped_call_impl.__code__
    kinds, kind = person_code.kinds(), person_code.kind
    person, library = person_code.PERSON, person_code.LIBRARY
    searched = range(_SEARCHED)

    def where(frame: FrameType) -> Whereabouts:
        chosen = module = called = inner = None
        below: Any = None
        chosen_below: Any = None
        at: FrameType | None = frame
        while at is not None:
            code = at.f_code
            if code is passed:  # the frame with the fewest variables to look through
                if module is None:
                    module = at.f_locals["self"]
            elif code is not call_impl:
                whose = kinds.get(code.co_filename) or kind(code.co_filename)
                if whose == person and (not compiled or id(code) not in compiled):
                    chosen, chosen_below, called = at, below, inner
                    break
                if whose == library and chosen is None:
                    chosen, chosen_below, called = at, below, inner
                below = (below, id(code), at.f_lasti)
            inner = at
            at = at.f_back
        if chosen is None:
            chosen = frame
        if module is None:
            at = chosen.f_back
            for _ in searched:
                if at is None:
                    break
                if at.f_code is passed:
                    module = at.f_locals["self"]
                    break
                at = at.f_back
        return chosen, module, chosen_below, called

    return where
