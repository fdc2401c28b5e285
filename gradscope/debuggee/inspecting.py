"""Answers what a person asks about what the nodes keep, while the script stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradscope.debuggee.modes import modes_off
from gradscope.debuggee.names import Names
from gradscope.debuggee.origins import Origins
from gradscope.debuggee.saved_columns import storages_of
from gradscope.debuggee.saved_owners import owners
from gradscope.debuggee.saved_tensors import UNTOLD, Kept, getters_of, read_node, read_saved
from gradscope.debuggee.subject import Subject
from gradscope.debuggee.summaries import summarise
from gradscope.debuggee.tensor_data import values_of
from gradscope.errors import UsageError
from gradscope.model.saved import SavedColumns
from gradscope.protocol import messages as m

Asked = m.ReadSaved | m.Inspect | m.FetchSaved

_LONGEST = 200
"""letters of an attribute's value"""
_PLAIN: tuple[type, ...] = (
    *(bool, int, float, complex, str, bytes, type(None)),
    *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format),
)
_UNSIGNED = 1 << 63
"""torch gives a dimension of -1 as 2**64 - 1"""


def answer(subject: Subject | None, origins: Origins | None, request: Asked) -> m.Report:
    """What the request asks for.

    Raises:
        UsageError: there is no graph yet, no such node, or no such tensor.
    """
    if subject is None:
        raise UsageError("no root has been chosen", "the script has called nothing here", "choose a tensor first")
    match request:
        case m.ReadSaved():
            return m.SavedRead(request.request, saved_of(subject, origins))
        case m.Inspect():
            return _inspected(subject, request)
        case m.FetchSaved():
            kept = _tensor(subject, request.node, request.place)
            shape, values = values_of(kept, request.index)
            return m.TensorSlice(request.request, shape, values)


def saved_of(subject: Subject, origins: Origins | None) -> SavedColumns:
    """What all nodes keep, and who else holds it."""
    ends = [leaf.variable for leaf in subject.captured.leaves]
    names = Names(subject.frame, () if origins is None else origins.modules(), ends)
    return read_saved(subject.captured, owners(subject, names.held()))


@modes_off()
def _inspected(subject: Subject, request: m.Inspect) -> m.Inspected:
    """The tensors, summarised; everything else, written out."""
    node = _node(subject, request.node)
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        rows = _rows(node)
        whole = [(place, kept) for place, (kept, part) in enumerate(rows) if not part]
        here = [(place, kept.tensor) for place, kept in whole if kept.readable and kept.tensor is not None]
        tensors = summarise([tensor.detach() for _, tensor in here])
        notes = [f"{kept.name}: {kept.why}" for _, kept in whole if kept.why]
        if getters_of(type(node)).untold:
            notes.append(UNTOLD)
        return m.Inspected(request.request, request.node, tensors, [place for place, _ in here], _attributes(node), notes)


def _rows(node: Any) -> list[tuple[Kept, str]]:
    """What the node keeps as the columns have it: (tensor, part of it that the row is for)."""
    rows: list[tuple[Kept, str]] = []
    for kept in read_node(node):
        parts = [""] if kept.tensor is None else [part for part, _ in storages_of(kept.tensor)]
        rows.extend((kept, part) for part in parts)
    return rows


def _tensor(subject: Subject, number: int, place: int) -> torch.Tensor:
    rows = _rows(_node(subject, number))
    if not 0 <= place < len(rows):
        raise UsageError("there is no such saved tensor", f"the node keeps {len(rows)}")
    kept, part = rows[place]
    if not kept.readable or kept.tensor is None or part:
        raise UsageError(f"{kept.name} cannot be read", kept.why or "it is a part of another tensor")
    return kept.tensor


def _node(subject: Subject, number: int) -> Any:
    if not 0 <= number < len(subject.captured.nodes):
        raise UsageError("the node is not there any more", "the script has run on since")
    return subject.captured.nodes[number]


# ---------------------------------------------------------------- what is no tensor


def _attributes(node: Any) -> list[tuple[str, str]]:
    """Scalars and sizes by name: `dim`, `self_sizes`; of a custom Function what its forward left on the ctx."""
    getters = getters_of(type(node))
    found = []
    for name in getters.others:
        try:
            found.append((name.replace("_sym_", "_"), _text(getattr(node, f"_saved_{name}"))))
        except Exception as error:
            found.append((name.replace("_sym_", "_"), f"cannot be read: {error}".splitlines()[0][:_LONGEST]))
    if getters.python:
        found += [
            (f"ctx.{name}", _text(value)) for name, value in list(node.__dict__.items()) if not isinstance(value, torch.Tensor)
        ]
        found += [(name, _text(value)) for name, value in _settings(node)]
    return found


def _settings(node: Any) -> list[tuple[str, Any]]:
    reads: list[tuple[str, Callable[[], Any]]] = [
        ("needs_input_grad", lambda: node.needs_input_grad),
        ("materialize_grads", lambda: node.materialize_grads),
    ]
    found = []
    for name, read in reads:
        try:
            found.append((name, read()))
        except Exception:  # other versions of torch
            continue
    return found


def _text(value: Any, depth: int = 2) -> str:
    """As Python writes it. Never runs code of the script: what is no plain value goes by its type."""
    return _written(value, depth)[:_LONGEST]


def _written(value: Any, depth: int) -> str:
    kind = type(value)
    if kind is int and value >= _UNSIGNED:
        return str(value - 2 * _UNSIGNED)
    if kind in (list, tuple, set, frozenset) and depth:
        items = [_written(item, depth - 1) for item in list(value)[:32]]
        open_, close = ("[", "]") if kind is list else ("(", ")") if kind is tuple else ("{", "}")
        dots = ", …" if len(value) > 32 else "," if kind is tuple and len(items) == 1 else ""
        return f"{open_}{', '.join(items)}{dots}{close}"
    if kind is dict and depth:
        pairs = [f"{_written(key, 0)}: {_written(item, depth - 1)}" for key, item in list(value.items())[:32]]
        return f"{{{', '.join(pairs)}{', …' if len(value) > 32 else ''}}}"
    if isinstance(value, torch.Tensor):
        return "a tensor"
    if kind in _PLAIN:
        return repr(value)
    return f"<{kind.__module__}.{kind.__qualname__}>" if kind.__module__ != "builtins" else f"<{kind.__qualname__}>"
