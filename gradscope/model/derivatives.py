"""Torch's own table of derivatives, as `debuggee/derivative_table.py` writes it and as a snapshot carries it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

FORMAT = 1
"""of the JSON"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What `derivatives.yaml` and `native_functions.yaml` say of one kind of node."""

    forward: str
    """`mm(Tensor self, Tensor mat2) -> Tensor`"""
    inputs: list[tuple[str, str]] = field(default_factory=list)
    """the differentiable arguments and their types, in the order of the node's `next_functions`; a `Tensor[]` takes many slots"""
    returns: list[str] = field(default_factory=list)
    """`result`; `values`, `indices`; `result0`, `result1` where they have no names"""
    differentiable: list[bool] = field(default_factory=list)
    """of each return"""
    saved: list[str] = field(default_factory=list)
    """what the forward keeps: `mat2`, `self_sym_sizes`, `result`"""
    derivatives: list[tuple[list[str], str]] = field(default_factory=list)
    """arguments, and the C++ that gives their gradients"""


def read(text: str | bytes) -> dict[str, Entry]:
    """Node name -> entry.

    Raises:
        ValueError: it is no such table, or one of another format.
    """
    table = json.loads(text)
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise ValueError("no table of derivatives, or one of another gradscope")
    try:
        return {op: _entry(fields) for op, fields in table["nodes"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the table of derivatives is damaged") from error


def _entry(fields: Mapping[str, list[tuple[list[str], str]]]) -> Entry:
    return Entry(
        forward=str(fields["forward"]),
        inputs=[(str(name), str(kind)) for name, kind in fields["inputs"]],
        returns=[str(name) for name in fields["returns"]],
        differentiable=[bool(flag) for flag in fields["differentiable"]],
        saved=[str(name) for name in fields["saved"]],
        derivatives=[([str(name) for name in names], str(text)) for names, text in fields["derivatives"]],
    )
