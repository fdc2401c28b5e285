"""The safetensors file form, written piece by piece: a header in JSON, then the bytes of the tensors.

safetensors' own `serialize` wants all tensors in memory twice, and another kind of argument in each of its versions.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping

from safetensors import SafetensorError, deserialize

from gradscope.model.report import TensorData

_ALIGNMENT = 8


def chunks(tensors: Mapping[str, TensorData], metadata: Mapping[str, str]) -> Iterator[bytes]:
    """The file in pieces: first the header, then one piece a tensor."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": (start, end)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    yield struct.pack("<Q", len(text)) + text
    for tensor in tensors.values():
        yield tensor.data


def read(data: bytes) -> dict[str, TensorData]:
    """The tensors of a file.

    Raises:
        ValueError: it is no safetensors file.
    """
    try:
        entries = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    return {name: TensorData(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"])) for name, entry in entries}
