"""Which passes are kept, and which of them already has the seeds that are asked for."""

from __future__ import annotations

import ast
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gradscope.model.columns import Change
from gradscope.model.places import UNKNOWN
from gradscope.model.tape import Tape
from gradscope.model.tensors import NO_TENSOR, Value

KEPT = 8
"""edited passes kept besides pass 1"""

_ONEHOT = re.compile(r"one_?hot\(\s*(\d+)\s*\)")
_SCALED = re.compile(r"([*/])\s*([-+\d.eE]+)")
_NUMBERED = re.compile(r"randn\(\d+\)")
_RANDOM = re.compile(
    r"rand|normal|uniform|bernoulli|multinomial|poisson|exponential|cauchy|geometric|shuffle|sample|choice|dropout"
)
_CHANGING = re.compile(r"_$|^(pop|read|next|send|get_nowait)")
_PACKED = {"float64": "<d", "float32": "<f", "float16": "<e"}

_HARMLESS = {"abs", "float", "int", "len", "list", "max", "min", "range", "sum", "tuple"}
"""functions that give the same each time; what a function of the script does is not known"""


def keep(passes: Sequence[Tape], new: Tape) -> list[Tape]:
    """The passes with the new one at the end; pass 1 is never dropped, of the others the oldest."""
    if not passes:
        return [new]
    return [passes[0], *[*passes[1:], new][-KEPT:]]


def with_seeds(
    passes: Sequence[Tape],
    texts: Sequence[str],
    root: tuple[int, int],
    shown: Tape,
    typed: Mapping[int, Sequence[str]],
    changes: Sequence[Change] = (),
) -> Tape | None:
    """The pass that has these seeds and what-ifs; None where none has, or where they might come out otherwise this time.

    Args:
        passes: those that are kept.
        texts: as typed, one a root, empty for the script's own.
        root: the node and slot seeded instead of the call's roots, else UNKNOWN.
        shown: the pass whose seeds `*2` scales.
        typed: number of a pass -> the texts that made it.
        changes: the what-ifs.
    """
    for tape in passes:
        if not same_changes(tape.columns.changes, changes):
            continue
        at = tape.columns.root, tape.columns.root_input_nr
        if at != root and not at[0] == root[0] == UNKNOWN:
            continue
        own = None if passes[0].edited else passes[0]
        made_of = [*typed.get(tape.number, ()), *[""] * len(tape.seeds)]
        wanted = [*texts, *[""] * len(tape.seeds)]
        if tape.failure is None and all(
            _same(wanted[place], made_of[place], tape, place, shown, own) for place in range(len(tape.seeds))
        ):
            return tape
    return None


def same_changes(some: Sequence[Change], others: Sequence[Change]) -> bool:
    """Whether two passes have the same what-ifs, in the same order."""
    return asked_for(some) == asked_for(others)


def asked_for(changes: Sequence[Change]) -> list[Change]:
    """What-ifs as a pass is asked for: what would have been is not known yet."""
    return [replace(change, before=UNKNOWN) for change in changes]


def _same(text: str, made_of: str, tape: Tape, place: int, shown: Tape, own: Tape | None) -> bool:
    """Whether a text means the seed that a pass has for one root."""
    if not text:
        if tape is own or not made_of:
            return True
        wanted: Sequence[Value] | None = None if own is None else cells(own, place)
    else:
        wanted = meant(text.strip(), tape, place, shown)
    there = cells(tape, place)
    pack = _packer(tape.tensors.dtype(tape.seeds[place].tensor)) if there is not None else None
    if wanted is None or there is None or pack is None:
        return bool(text) and text == made_of and repeatable(text)
    return len(wanted) == len(there) and [*map(pack, wanted)] == [*map(pack, there)]


def meant(text: str, tape: Tape, place: int, shown: Tape) -> Sequence[Value] | None:
    """The cells that a text gives for a root like that of `tape`; None where only the script can tell."""
    tensor = tape.seeds[place].tensor
    if tensor == NO_TENSOR:
        return None
    count = tape.tensors.numel(tensor)
    words = {"ones": 1.0, "zeros": 0.0, "sum": 1.0, "mean": 1 / max(1, count)}
    word = text.removesuffix("()").strip()
    if word in words:
        return [words[word]] * count
    if (onehot := _ONEHOT.fullmatch(text)) and int(onehot[1]) < count:
        return [float(cell == int(onehot[1])) for cell in range(count)]
    if (scaled := _SCALED.fullmatch(text)) and place < len(shown.seeds):
        before, factor = cells(shown, place), _floats(scaled[2])
        if before is None or factor is None or (scaled[1] == "/" and not factor[0]):
            return None
        return [value * factor[0] if scaled[1] == "*" else value / factor[0] for value in before]
    numbers = _floats(text)
    if numbers is not None and len(numbers) == 1:
        return numbers * count
    return numbers if numbers is not None and len(numbers) == count else None


def cells(tape: Tape, root: int = 0) -> tuple[Value, ...] | None:
    """Every element of a root's seed, row-major; None when there are too many to carry, or none."""
    tensor = tape.seeds[root].tensor
    return None if tensor == NO_TENSOR else tape.tensors.values(tensor)


def repeatable(text: str) -> bool:
    """Whether an expression gives the same each time while the script stands still."""
    if _NUMBERED.fullmatch(text.strip()):
        return True
    if _RANDOM.search(text) or text.lstrip().startswith(("@", "*", "/")):
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return False
    return all(_harmless(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _harmless(function: ast.expr) -> bool:
    """Methods change nothing unless their names say so."""
    if isinstance(function, ast.Attribute):
        return _CHANGING.search(function.attr) is None
    return isinstance(function, ast.Name) and function.id in _HARMLESS


def _floats(text: str) -> list[float] | None:
    try:
        return [float(part) for part in text.strip("[] ").rstrip(",").split(",")]
    except ValueError:
        return None


def _packer(dtype: str) -> Callable[[Value], bytes] | None:
    """Bits of a number once it has this dtype; None for dtypes whose rounding is not at hand."""
    form = _PACKED.get(dtype)
    if form is None:
        return None

    def pack(value: Value) -> bytes:
        try:
            return struct.pack(form, value)
        except (OverflowError, struct.error):
            return repr(value).encode()

    return pack
