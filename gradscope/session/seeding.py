"""Seeds: the cells of the grid, the rows of the Jacobian, what a person is told of them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.model.backward_graph import BackwardGraph
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR, Value
from gradscope.session.passes import cells

SPOKEN = 8
"""elements of a seed that a sentence can hold"""

_ONEHOT = re.compile(r"\s*onehot\(\s*(\d+)\s*\)\s*")


@dataclass(frozen=True, slots=True)
class JacobianRow:
    """One row of the Jacobian: a one-hot seed for one root, nothing for the others."""

    texts: list[str]
    index: int
    count: int
    wrapped: bool


def jacobian_row(graph: BackwardGraph, tape: Tape | None, direction: int, root: int = 0) -> JacobianRow:
    """The row after (or before) the one that `tape` is; the first (or last) one when it is none."""
    root = root if tape is None else min(root, len(tape.seeds) - 1)  # a pass that seeds another tensor has one seed
    count = elements(graph, tape, root)
    roots = len(graph.roots) if tape is None else len(tape.seeds)
    if not count:
        return JacobianRow([], 0, 0, wrapped=False)
    shown = row_shown(tape, root)
    index = shown + direction if shown is not None else 0 if direction > 0 else count - 1
    texts = [f"onehot({index % count})" if r == root else "zeros" for r in range(roots)]
    return JacobianRow(texts, index % count, count, wrapped=not 0 <= index < count)


def row_shown(tape: Tape | None, root: int = 0) -> int | None:
    """Which row of the Jacobian a pass is; None when its seed is no one-hot, or another root has one too."""
    if tape is None or root >= len(tape.seeds):
        return None
    others = [cells(tape, place) for place in range(len(tape.seeds)) if place != root]
    if any(values is not None and any(values) for values in others):
        return None
    values = cells(tape, root)
    if values is not None:
        return values.index(1) if sorted(map(abs, values))[-2:] in ([0, 1], [1]) and 1 in values else None
    match = _ONEHOT.fullmatch(tape.seeds[root].expression) if tape.edited else None
    return int(match[1]) if match else None


def row_name(shape: Sequence[int], index: int) -> str:
    """`row [1]`, `row [0,2]`: a row of the Jacobian, by the place in the root of the one element that is seeded."""
    places = []
    for extent in reversed(shape or (1,)):
        index, place = divmod(index, extent)
        places.append(str(place))
    return f"row [{','.join(reversed(places))}]"


def elements(graph: BackwardGraph, tape: Tape | None, root: int) -> int:
    """How many elements a seed has: the root's, or those of the tensor that the pass seeds instead."""
    return math.prod(seeded_shape(graph, tape, root))


def seeded_shape(graph: BackwardGraph, tape: Tape | None, root: int) -> tuple[int, ...]:
    """The shape of a seed: the root's, or that of the tensor that the pass seeds instead."""
    if tape is not None and tape.columns.root != UNKNOWN:
        return tuple(tape.tensors.shape(tape.seeds[root].tensor))
    return tuple(graph.roots[root].shape)


def with_cell(values: Sequence[Value], index: int, text: str) -> str:
    """The seed with one cell typed anew, as a person would type it."""
    return ",".join(text if i == index else _number(value) for i, value in enumerate(values))


def scales(text: str) -> bool:
    """Whether a seed is what another pass had, times something: `*2`, `/2`."""
    return text.lstrip().startswith(("*", "/"))


def spelled_out(tape: Tape, texts: Sequence[str]) -> list[str]:
    """`*2` and `/2`, which scale the seed of `tape`, as expressions of their own where the cells are known."""
    spelled = list(texts)
    for root, text in enumerate(texts):
        values = cells(tape, root) if scales(text) and root < len(tape.seeds) else None
        if values is not None:
            shape = tape.tensors.shape(tape.seeds[root].tensor)
            spelled[root] = f"torch.tensor([{','.join(map(_number, values))}]).reshape({shape}){text.strip()}"
    return spelled


def numbered(tape: Tape, texts: Sequence[str]) -> list[str]:
    """The texts that made a pass, `randn` with the number of the sample that it was, so that they make the same again."""
    return [
        seed.expression if text.strip().startswith("randn") and seed.expression else text
        for text, seed in zip(texts, tape.seeds, strict=False)
    ]


def spoken(tape: Tape) -> str:
    """The seeds of a pass, for a person: `J = onehot(0): 1, 0`, `v of [8,64]`, `1`."""
    return "; ".join(_spoken(tape, place) for place in range(len(tape.seeds)))


def _spoken(tape: Tape, place: int) -> str:
    seed = tape.seeds[place]
    values = cells(tape, place)
    written = ", ".join(map(_number, values)) if values and len(values) <= SPOKEN else ""
    shape = "" if written or seed.tensor == NO_TENSOR else f"of {list(tape.tensors.shape(seed.tensor))}"
    typed = bool(written) and seed.expression.replace(" ", "") in ("", written.replace(" ", ""))
    text = " ".join(part for part in ("" if typed else seed.expression or (shape and "a tensor"), shape) if part)
    text = ": ".join(part for part in (text, written) if part)
    if len(tape.seeds) == 1 or tape.columns.root != UNKNOWN:
        return text
    return f"{tape.graph.roots[seed.root].name} = {text}"


def _number(value: Value) -> str:
    if isinstance(value, complex):
        return str(value).strip("()")
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
