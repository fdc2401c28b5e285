"""Which code is watched line by line: the person's, and the library code in which nodes are made."""

from __future__ import annotations

import inspect
import os
import sys
import weakref
from types import CodeType

from gradscope.debuggee import person_code

_IN_TORCH = ("nn/", "functional.py", "_tensor.py", "utils/checkpoint.py", "distributions/")
_EVERY_CALL = "nn/modules/module.py"

_files: dict[str, bool] = {}
compiled: dict[int, weakref.ref[CodeType]] = {}
"""by id, the code that torch.compile wrote in the place of a person's function: its lines are not those of the person"""


def is_traced(code: CodeType) -> bool:
    """Whether its lines are watched. Of libraries only functions are, not what runs when they are imported."""
    file = code.co_filename
    whose = person_code.kinds().get(file) or person_code.kind(file)
    if whose == person_code.PERSON:
        return not _is_compiled(code)
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return False
    known = _files.get(file)
    if known is None:
        known = _files[file] = _judge(file, whose)
    return known


def is_persons(code: CodeType) -> bool:
    """Whether it is code of the script, not of a library."""
    file = code.co_filename
    return (person_code.kinds().get(file) or person_code.kind(file)) == person_code.PERSON


def _is_compiled(code: CodeType) -> bool:
    if not code.co_name.startswith("torch_dynamo_resume_in") and not any(
        name.startswith("__compiled_fn") for name in code.co_names
    ):
        return False
    number = id(code)
    compiled[number] = weakref.ref(code, lambda _: compiled.pop(number, None))
    return True


def _judge(file: str, whose: int) -> bool:
    if whose == person_code.LIBRARY:
        return not person_code.is_pythons_own(file) and not file.startswith("<")
    if whose != person_code.TORCH:
        return False
    torch_file = getattr(sys.modules.get("torch"), "__file__", None) or ""
    inside = os.path.relpath(file, os.path.dirname(torch_file)).replace(os.sep, "/")
    return inside.startswith(_IN_TORCH) and inside != _EVERY_CALL
