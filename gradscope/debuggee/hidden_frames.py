"""Keep gradscope's frames out of what the script prints: tracebacks, stacks, and the place that a warning names.

The function mode puts one frame of ours between the person's line and torch. `traceback` would list it, and a warning that
torch's C++ raises would name it as its place; both are mended here, so that the output is that of plain python.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from types import CodeType, FrameType, TracebackType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def is_ours(frame: FrameType) -> bool:
    """Whether the frame runs code of the debuggee."""
    return frame.f_code.co_filename.startswith(_HERE)


def strip(error: BaseException) -> None:
    """Take our frames out of an exception's traceback and of those it came from, for those who print it in C."""
    waiting: list[BaseException | None] = [error]
    seen = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = _without_ours(one.__traceback__)
            waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _without_ours(place: TracebackType | None) -> TracebackType | None:
    while place is not None and is_ours(place.tb_frame):
        place = place.tb_next
    first = place
    while place is not None:
        after = place.tb_next
        while after is not None and is_ours(after.tb_frame):
            after = after.tb_next
        if after is not place.tb_next:
            place.tb_next = after
        place = after
    return first


def hide(mode_code: CodeType, mode_globals: dict[str, Any]) -> Callable[[], None]:
    """Hide our frames from `traceback` and from warnings. Returns the way back.

    Args:
        mode_code: the code of the function mode, the caller of which a warning belongs to.
        mode_globals: the globals that code runs with; Python keeps there which warnings it has shown.
    """
    show_frames, show_place = hide_from_tracebacks(), _hide_from_warnings(mode_code, mode_globals)

    def undo() -> None:
        show_frames()
        show_place()

    return undo


def hide_from_tracebacks() -> Callable[[], None]:
    """Hide our frames from `traceback`. Returns the way back."""
    summary: Any = traceback.StackSummary
    name = "_extract_from_extended_frame_gen" if hasattr(summary, "_extract_from_extended_frame_gen") else "extract"
    original = vars(summary)[name]
    walk_stack = traceback.walk_stack

    def extract(cls: Any, /, frame_gen: Iterable[Any], **options: Any) -> Any:
        entries = list(frame_gen)
        others = [entry for entry in entries if not is_ours(entry[0])]
        return original.__func__(cls, iter(others or entries), **options)  # who asks for ours alone gets it

    def walk(f: FrameType | None) -> Any:
        # Without a frame Python counts frames upward from inside `extract`, where there is one more now: say which one.
        return walk_stack(sys._getframe(1) if f is None else f)

    setattr(summary, name, classmethod(extract))
    traceback.walk_stack = walk

    def undo() -> None:
        setattr(summary, name, original)
        traceback.walk_stack = walk_stack

    return undo


def _hide_from_warnings(mode_code: CodeType, mode_globals: dict[str, Any]) -> Callable[[], None]:
    show_door: Any = warnings
    original = show_door._showwarnmsg

    def show(message: Any) -> None:
        if message.filename != mode_code.co_filename:
            original(message)
            return
        mode_globals.pop("__warningregistry__", None)  # whether it was shown before is a matter of the person's line
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not mode_code:
            frame = frame.f_back
        caller = None if frame is None else frame.f_back
        if caller is None:
            original(message)
            return
        warnings.warn_explicit(
            message.message,
            message.category,
            caller.f_code.co_filename,
            caller.f_lineno,
            caller.f_globals.get("__name__"),
            caller.f_globals.setdefault("__warningregistry__", {}),
            source=message.source,
        )

    show_door._showwarnmsg = show
    return lambda: setattr(show_door, "_showwarnmsg", original)
