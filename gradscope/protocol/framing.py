"""Length-prefixed frames: four bytes, big-endian, then that many bytes of msgpack."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_HEADER = struct.Struct(">I")

MAXIMUM = 0xFFFF_FFFF


def frame(payload: bytes) -> bytes:
    """Put the length in front.

    Raises:
        ValueError: the payload is longer than four bytes can say.
    """
    if len(payload) > MAXIMUM:
        raise ValueError(f"a message of {len(payload)} bytes is too long: the limit is {MAXIMUM}")
    return _HEADER.pack(len(payload)) + payload


class Unframer:
    """Cuts a byte stream, fed as it comes, back into payloads."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield every payload that is complete now."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._buffer, start)
            end = start + _HEADER.size + length
            if len(self._buffer) < end:
                break
            yield bytes(self._buffer[start + _HEADER.size : end])
            start = end
        del self._buffer[:start]
