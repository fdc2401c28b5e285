"""Whose code a frame runs: the person's own, a library's, torch's or gradscope's."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from types import FrameType

PERSON, LIBRARY, TORCH, OURS = 1, 2, 3, 4

_OUR_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_GENERATED = ("<eval_with_key>", "<frozen ", "<attrs ", "<__array_function__", "<torch", "<dynamo", "<lambdifygenerated")
"""Names of code that a library made up; `<stdin>`, `<string>` and notebook cells are the person's."""

_kinds: dict[str, int] = {}


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib") if key in paths}
    folders.add(os.path.dirname(os.__file__))
    if site.ENABLE_USER_SITE:
        folders.add(site.getusersitepackages())
    return tuple(folder + os.sep for folder in folders)


_LIBRARIES = _library_folders()
_STANDARD = tuple({os.path.dirname(os.__file__) + os.sep, sysconfig.get_paths().get("platstdlib", os.__file__) + os.sep})


def kind(filename: str) -> int:
    """PERSON, LIBRARY, TORCH or OURS for a code object's `co_filename`."""
    known = _kinds.get(filename)
    if known is None:
        known = _kinds[filename] = _judge(filename)
    return known


def is_pythons_own(filename: str) -> bool:
    """Whether a library's file is one of Python's standard library."""
    return filename.startswith("<frozen ") or (filename.startswith(_STANDARD) and "-packages" not in filename)


def kinds() -> dict[str, int]:
    """The answers so far, for the hot path: filename -> kind."""
    return _kinds


def _judge(filename: str) -> int:
    if filename.startswith(_OUR_FOLDER):
        return OURS
    if filename.startswith("<"):
        return LIBRARY if filename.startswith(_GENERATED) else PERSON
    torch = sys.modules.get("torch")
    torch_file = getattr(torch, "__file__", None)
    if torch_file and filename.startswith(os.path.dirname(torch_file) + os.sep):
        return TORCH
    if filename.startswith(_LIBRARIES) or "site-packages" in filename or "dist-packages" in filename:
        return LIBRARY
    return PERSON


def innermost(frame: FrameType | None) -> FrameType | None:
    """The first frame upward that runs the person's code; without one the first of a library; else None."""
    library = None
    while frame is not None:
        whose = kind(frame.f_code.co_filename)
        if whose == PERSON:
            return frame
        if whose == LIBRARY and library is None:
            library = frame
        frame = frame.f_back
    return library


def frames(frame: FrameType | None, most: int = 60) -> list[FrameType]:
    """The frames from this one upward that are neither torch's nor gradscope's, innermost first."""
    found: list[FrameType] = []
    while frame is not None and len(found) < most:
        if kind(frame.f_code.co_filename) <= LIBRARY:
            found.append(frame)
        frame = frame.f_back
    return found
