"""Seeds: what was typed for each pass, the cells of the grid, the rows of the Jacobian, which passes are kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gradscope.model.tape import Tape
from gradscope.model.tensors import Value
from gradscope.protocol.messages import SeedText

KEPT = 8
"""edited passes kept besides pass 1"""

_ONEHOT = re.compile(r"\s*onehot\(\s*(\d+)\s*\)\s*")


@dataclass(frozen=True, slots=True)
class JacobianRow:
    """One row of the Jacobian: a one-hot seed for one root, nothing for the others."""

    seeds: list[SeedText]
    index: int
    count: int
    wrapped: bool


def texts(tape: Tape) -> list[SeedText]:
    """What would make this pass again, one text a root; empty for the script's own seed."""
    if not tape.edited:
        return [SeedText("") for _ in tape.seeds]
    return [SeedText(seed.expression) for seed in tape.seeds]


def row_shown(tape: Tape, root: int = 0) -> int | None:
    """Which row of the Jacobian a pass is; None when its seed is no one-hot that gradscope put there."""
    if not tape.edited or root >= len(tape.seeds):
        return None
    match = _ONEHOT.fullmatch(tape.seeds[root].expression)
    return int(match[1]) if match else None


def jacobian_row(tape: Tape, direction: int, root: int = 0) -> JacobianRow:
    """The row after (or before) the one that `tape` is; the first (or last) one when it is none."""
    count = tape.tensors.numel(tape.seeds[root].tensor)
    shown = row_shown(tape, root)
    start = -1 if direction > 0 else count
    index = (start if shown is None else shown) + direction
    wrapped = not 0 <= index < count
    index %= count
    seeds = [SeedText(f"onehot({index})" if r == root else "zeros") for r in range(len(tape.seeds))]
    return JacobianRow(seeds, index, count, wrapped)


def cells(tape: Tape, root: int = 0) -> tuple[Value, ...] | None:
    """Every element of a root's seed, row-major; None when there are too many to carry."""
    return tape.tensors.values(tape.seeds[root].tensor)


def with_cell(values: Sequence[Value], index: int, text: str) -> SeedText:
    """The seed with one cell typed anew."""
    return SeedText(",".join(text if i == index else _number(value) for i, value in enumerate(values)))


def keep(passes: Sequence[Tape], new: Tape) -> list[Tape]:
    """The passes with the new one at the end; pass 1 is never dropped, of the others the oldest."""
    first, others = list(passes[:1]), [*passes[1:], new]
    if not first:
        return [new]
    return first + others[-KEPT:]


def _number(value: Value) -> str:
    if isinstance(value, complex):
        return str(value).strip("()")
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
