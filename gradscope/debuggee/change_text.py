"""What a person types to change a gradient: `*0.5`, `zeros`, `clip(1)`, `none`, cells, or an expression in `g`, the gradient.

Everything that makes a seed makes a gradient too (see `seeds`). What is made has the gradient's shape, dtype, device and layout,
or there is an error that puts the two side by side.
"""

from __future__ import annotations

import ast
import operator
import re
from types import FrameType
from typing import Any

import torch

from gradscope.debuggee import seeds
from gradscope.debuggee.seeds import Root, SeedError
from gradscope.errors import UsageError

WAYS = (
    "type *0.5, zeros, clip(1) (each element to -1…1), clipnorm(1) (the 2-norm to at most 1), none (undefined), "
    "cells (1,10), or an expression in g, the gradient"
)
_SCALE = re.compile(r"([*/])\s*(?!\*)(.+)")
_CLIP = re.compile(r"(clip|clamp|clipnorm|clip_norm)\s*\((.*)\)")
_NONE = {"none", "None", "undefined"}


class ChangeError(UsageError):
    """What was typed does not change this gradient."""


def scales(text: str) -> bool:
    """Whether it makes something of the gradient that is there, and leaves an undefined one undefined."""
    text = text.strip()
    return bool(_SCALE.fullmatch(text) or _CLIP.fullmatch(text))


def numbered(text: str) -> str:
    """As for seeds: `randn` becomes one of its samples, which is the same whenever it is asked for."""
    return seeds.numbered(text.strip())


def changed(text: str, wanted: Root | None, gradient: torch.Tensor | None, frame: FrameType | None = None) -> torch.Tensor | None:
    """What becomes of a gradient; None for undefined.

    Args:
        text: what was typed.
        wanted: what the gradient must be like; None where torch does not say, then it must be like the one that is there.
        gradient: what is there; None where it is undefined. It is never edited.
        frame: the script's frame, whose names an expression may use; `g` is the gradient whatever the script calls `g`.

    Raises:
        ChangeError: it makes no gradient for this place.
    """
    text = text.strip()
    if not text:
        raise ChangeError("there is no change", "nothing was typed", WAYS)
    if text in _NONE or (gradient is None and scales(text)):
        return None
    if wanted is None:
        if gradient is None or gradient.is_nested:
            raise ChangeError(
                "this gradient cannot be changed", "torch does not say what it looks like", "none makes it undefined"
            )
        wanted = Root.of(gradient, "gradient")
    wanted = Root(wanted.shape, wanted.dtype, wanted.device, wanted.name, typed="change")
    try:
        with torch.no_grad():
            return _like(_made(text, wanted, gradient, frame), wanted, gradient, text)
    except SeedError as error:
        raise ChangeError(error.what, error.why, WAYS if error.hint == seeds.WAYS else error.hint) from None


def _made(text: str, wanted: Root, gradient: torch.Tensor | None, frame: FrameType | None) -> Any:
    names = {} if gradient is None else {"g": gradient.detach().clone()}
    if (clip := _CLIP.fullmatch(text)) is not None:
        limits = seeds.evaluated(f"({clip[2]},)", frame, names) if clip[2].strip() else ()
        return _clipped(names["g"], [*limits], clip[1].replace("_", "") == "clipnorm", text)
    if (scale := _SCALE.fullmatch(text)) is not None:
        factor = seeds.evaluated(scale[2], frame, names)
        how = operator.mul if scale[1] == "*" else operator.truediv
        return seeds.computed(lambda: how(names["g"], factor), text)
    if _speaks_of_gradient(text):
        if gradient is None:
            raise ChangeError(
                f"{text!r} cannot be computed", "no gradient arrives here: g is undefined", "zeros, ones or cells make one"
            )
        return seeds.evaluated(text, frame, names)
    return seeds.parse_seed(text, wanted, gradient, frame)


def _clipped(gradient: torch.Tensor, limits: list[Any], by_norm: bool, text: str) -> torch.Tensor:
    """`clip(c)`: each element to -c…c; `clip(a, b)`: to a…b; `clipnorm(c)`: times c / ‖g‖ where the 2-norm is above c."""
    if len(limits) not in ((1,) if by_norm else (1, 2)):
        raise ChangeError(f"{text!r} has the wrong number of limits", "", "clip(1), clip(-1, 2) or clipnorm(1)")
    if by_norm:
        return seeds.computed(lambda: _to_norm(gradient, limits[0]), text)  # type: ignore[no-any-return]
    return seeds.computed(lambda: gradient.clamp(-limits[0] if len(limits) == 1 else limits[0], limits[-1]), text)  # type: ignore[no-any-return]


def _to_norm(gradient: torch.Tensor, limit: Any) -> torch.Tensor:
    norm = torch.linalg.vector_norm(gradient.coalesce().values() if gradient.is_sparse else gradient)
    return gradient * (limit / norm) if bool(norm > limit) else gradient


def _speaks_of_gradient(text: str) -> bool:
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Name) and node.id == "g" for node in ast.walk(tree))


def _like(made: Any, wanted: Root, gradient: torch.Tensor | None, text: str) -> torch.Tensor:
    """As a tensor that may stand where the gradient stood, with its strides where they are alike."""
    if isinstance(made, torch.Tensor) and tuple(made.shape) == wanted.shape:
        layout = made.layout if gradient is None else gradient.layout
        if made.layout != layout:
            raise ChangeError(f"{text!r} makes a gradient of another kind", f"{made.layout}, and {layout} arrives", WAYS)
        if (made.dtype, made.device) == (wanted.dtype, wanted.device):
            return made.detach().clone()
    result = seeds.fitted(made, wanted, text)
    if gradient is not None and gradient.layout != result.layout:
        raise ChangeError(f"{text!r} makes a gradient of another kind", f"{result.layout}, and {gradient.layout} arrives", WAYS)
    return result
