"""Seeds that torch refuses: none for a root that is not a scalar, or one that does not look like its root."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gradscope.findings.finding import Finding, Related
from gradscope.model.columns import Root
from gradscope.model.facts import SeedGiven


def refused_seed(roots: Sequence[Root], seeds: Sequence[SeedGiven | None], detail: str, call: Related) -> Iterator[Finding]:
    """What is wrong with the seeds of a call.

    Args:
        roots: those of the call.
        seeds: as the script gives them, None where it gives none; fewer than the roots where it does not say.
        detail: torch's own words, for what is not understood here.
        call: where it was made.
    """
    if "implicitly created only for" in detail:
        root = next((one for one, seed in _pairs(roots, seeds) if seed is None and not _is_real_scalar(one)), None)
        message, hint = (detail, _HINT) if root is None else _none_given(root)
        yield Finding("nonscalar-root", "error", message, hint, file=call.file, line=call.line)
        return
    told = (_unlike(root, seed) for root, seed in _pairs(roots, seeds) if seed is not None and _differs(root, seed))
    message, hint = next(told, (detail, _ALIKE))
    yield Finding("seed-mismatch", "error", message, hint, file=call.file, line=call.line)


_HINT = "reduce it (mean, sum), or give a seed: backward(gradient=...) of the root's shape"
_ALIKE = "a seed has the shape, the dtype and the device of its root"


def _pairs(roots: Sequence[Root], seeds: Sequence[SeedGiven | None]) -> list[tuple[Root, SeedGiven | None]]:
    given = [*seeds, *[None] * len(roots)][: len(roots)]
    return list(zip(roots, given, strict=True))


def _is_real_scalar(root: Root) -> bool:
    return math.prod(root.shape) == 1 and not root.dtype.startswith("complex")


def _none_given(root: Root) -> tuple[str, str]:
    """Message and hint about a root that needs a seed and has none."""
    name, count = root.name, math.prod(root.shape)
    what = f"{name} has {count} elements (shape {root.shape}, {root.dtype})"
    if count == 1:
        message = f"{name} is complex ({root.dtype}), and a call without a seed differentiates one real number"
        return message, f"make a real number of it ({name}.abs(), {name}.real), or give the seed: {name}.backward(gradient=...)"
    message = f"{what}, and a call without a seed differentiates one number: the seed says how much each element counts"
    hint = (
        f"{name}.mean().backward() takes their mean, {name}.sum().backward() their sum, which is the same as "
        f"{name}.backward(torch.ones_like({name})); a one-hot seed (1 at one element, 0 elsewhere) takes that one alone"
    )
    return message, hint


def _differs(root: Root, seed: SeedGiven) -> bool:
    return seed.shape != root.shape or root.dtype.startswith("complex") != seed.dtype.startswith("complex")


def _unlike(root: Root, seed: SeedGiven) -> tuple[str, str]:
    """Message and hint about a seed that does not fit its root."""
    name, given = root.name, seed.expression or "the seed"
    if seed.shape == root.shape:
        message = f"{given} is {seed.dtype}, but its root {name} is {root.dtype}: where one is complex, so must be the other"
        return message, f"{seed.expression or 'seed'}.to({name}.dtype), or torch.ones_like({name})"
    message = f"{given} has shape {seed.shape} ({seed.dtype}), but its root {name} has shape {root.shape} ({root.dtype})"
    ones = f"torch.ones_like({name}) has the right shape"
    if root.shape == () and math.prod(seed.shape) == 1:
        return message, f"{ones}; for a root of shape () no seed is needed, and torch.tensor(1.0) is one, torch.ones(1) is not"
    if math.prod(seed.shape) == math.prod(root.shape):
        return message, f"{ones}, and so has {seed.expression or 'seed'}.reshape({name}.shape)"
    return message, f"{ones}; a seed has one number for each element of its root"
