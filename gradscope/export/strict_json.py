"""JSON that any reader takes: no NaN or Infinity, no integer that a double would round, no complex number of Python's.

Non-finite numbers become the strings "nan", "inf" and "-inf", integers beyond 2^53 strings, complex numbers `[re, im]`.
Iterators become arrays that are written item by item, so that a graph of a million nodes never lies in memory as JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator

EXACT = 2**53
"""The largest integer up to which a double, and so JavaScript, knows every integer."""


def plain(value: object) -> object:
    """The value in terms of strict JSON.

    Raises:
        TypeError: JSON has no form for it.
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -EXACT <= value <= EXACT else str(value)
        case float():
            return value if math.isfinite(value) else _word(value)
        case complex():
            return [plain(value.real), plain(value.imag)]
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case _:
            raise TypeError(f"JSON has no form for {type(value).__name__}")


def chunks(value: object) -> Iterator[bytes]:
    """The JSON text of a value in pieces, one item of an iterator on each line."""
    for text in _pieces(value):
        yield text.encode("utf-8", "replace")  # a file name may hold bytes that are no text
    yield b"\n"


def _word(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def _pieces(value: object) -> Iterator[str]:
    if isinstance(value, Iterator):
        yield from _joined("[", (("", item) for item in value), "]")
    elif isinstance(value, dict) and any(isinstance(item, Iterator) for item in value.values()):
        yield from _joined("{", ((f"{_text(key)}: ", item) for key, item in value.items()), "}")
    else:
        yield _text(plain(value))


def _joined(opening: str, items: Iterable[tuple[str, object]], closing: str) -> Iterator[str]:
    yield opening
    before = "\n"
    for label, item in items:
        yield before + label
        yield from _pieces(item)
        before = ",\n"
    yield closing


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
