"""Seeds as a person types them: cells, words, and expressions in the script's own names.

Every way in gives a tensor of the root's shape, dtype and device, or an error that puts root and seed side by side.
"""

from __future__ import annotations

import ast
import itertools
import json
import operator
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from gradscope.debuggee import frame_locals
from gradscope.debuggee.saved_state import Generators
from gradscope.errors import UsageError

_ONEHOT = re.compile(r"one_?hot\s*\(\s*([-\d\s,]*)\)")
_SCALE = re.compile(r"([*/])\s*(?!\*)(.+)")
_CELL = r"\s*[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)j?\s*"
_CELLS = re.compile(rf"\[?{_CELL}(?:,{_CELL})*,?\s*\]?")
WAYS = "type cells (1,10), ones, zeros, onehot(3), randn, mean, sum, *2, @file, or an expression in the script's names"


class SeedError(UsageError):
    """What was typed makes no seed for this root."""


class Root:
    """What a seed must be like.

    `typed` is what a person is told that they typed: a seed, or a gradient elsewhere in the graph that must be like this one.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, name: str = "root", typed: str = "seed"
    ) -> None:
        self.shape, self.dtype, self.device, self.name, self.typed = shape, dtype, device, name, typed

    @classmethod
    def of(cls, tensor: torch.Tensor, name: str = "root") -> Root:
        return cls(tuple(tensor.shape), tensor.dtype, tensor.device, name)

    @property
    def numel(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def full(self, value: complex | float) -> torch.Tensor:
        return torch.full(self.shape, value, dtype=self.dtype, device=self.device)


def parse_seed(
    text: str, root: Root | torch.Tensor, present: torch.Tensor | None = None, frame: FrameType | None = None
) -> torch.Tensor:
    """The seed that the text means.

    Args:
        text: what was typed.
        root: the root, or what a seed for it must be like.
        present: the seed that stands there now (what `*2` scales); None for ones.
        frame: the script's frame, whose names an expression may use.

    Raises:
        SeedError: it means none.
    """
    wanted = root if isinstance(root, Root) else Root.of(root)
    text = text.strip()
    if not text:
        raise SeedError("there is no seed", "nothing was typed", WAYS)
    with torch.no_grad():
        return _parse(text, wanted, present, frame)


def _parse(text: str, root: Root, present: torch.Tensor | None, frame: FrameType | None) -> torch.Tensor:
    word = _WORDS.get(text.removesuffix("()").strip())
    if word is not None:
        return word(root)
    randn = _RANDN.fullmatch(numbered(text))
    if randn is not None:
        return _randn(int(randn[1]), root)
    onehot = _ONEHOT.fullmatch(text)
    if onehot is not None:
        return _one_hot(onehot[1], root)
    if text.startswith("@"):
        return fitted(_read(text[1:].strip()), root, text)
    if _CELLS.fullmatch(text):
        return _cells(text, root)
    scale = _SCALE.fullmatch(text)
    if scale is not None:
        base = root.full(1) if present is None else present.detach()
        factor = evaluated(scale[2], frame)
        how = operator.mul if scale[1] == "*" else operator.truediv
        return fitted(computed(lambda: how(base, factor), text), root, text)
    return fitted(evaluated(text, frame), root, text)


_RANDN = re.compile(r"randn\s*(?:\(\s*(\d*)\s*\))?")
_samples = itertools.count(1)


def numbered(text: str) -> str:
    """`randn` as the next of its samples, `randn(3)`, which gives the same numbers whenever it is asked for; else the text."""
    found = _RANDN.fullmatch(text.strip())
    return f"randn({next(_samples)})" if found is not None and not found[1] else text


def _randn(sample: int, root: Root) -> torch.Tensor:
    """From a generator of our own: the script's stays where it is."""
    generator = torch.Generator()
    generator.manual_seed(0x6AD + sample)
    made = torch.randn(root.shape, generator=generator, dtype=root.dtype if root.dtype.is_complex else torch.float64)
    return made.to(root.device, root.dtype)


_WORDS: dict[str, Callable[[Root], torch.Tensor]] = {
    "ones": lambda root: root.full(1),
    "zeros": lambda root: root.full(0),
    "sum": lambda root: root.full(1),
    "mean": lambda root: root.full(1 / max(1, root.numel)),
}
"""`sum` and `mean` are the seeds that make J.backward(seed) the same as J.sum().backward() and J.mean().backward()."""


def _one_hot(index: str, root: Root) -> torch.Tensor:
    try:
        place = tuple(int(part) for part in index.split(",") if part.strip())
    except ValueError:
        raise SeedError(
            f"onehot({index}) has no whole number in it", "", "onehot(3), or onehot(1,2) for row 1, column 2"
        ) from None
    seed = root.full(0)
    flat = len(place) == 1 and len(root.shape) != 1
    shape = (root.numel,) if flat else root.shape
    if len(place) != len(shape) or any(not -extent <= at < extent for at, extent in zip(place, shape, strict=True)):
        raise SeedError(
            f"onehot({index}) is outside {root.name}, whose shape is {_shape(root.shape)}",
            "",
            f"give one number below {root.numel}" + (f", or {len(root.shape)} numbers" if len(root.shape) > 1 else ""),
        )
    if flat:
        seed.view(-1)[place[0]] = 1
    else:
        seed[place] = 1
    return seed


def _cells(text: str, root: Root) -> torch.Tensor:
    parts = [part.strip() for part in text.strip("[] ").split(",")]
    numbers = [_number(part) for part in parts if part]
    if any(isinstance(number, complex) for number in numbers) and not root.dtype.is_complex:
        raise _misfit(
            root, (len(numbers),), torch.complex64, torch.device("cpu"), f"a real {_owner(root)} takes a real {root.typed}"
        )
    if len(numbers) == 1:
        return root.full(numbers[0])
    if len(numbers) != root.numel:
        raise _misfit(root, (len(numbers),), root.dtype, root.device, f"{len(numbers)} cells for {root.numel} elements")
    wide = torch.complex128 if root.dtype.is_complex else torch.float64
    return torch.tensor(numbers, dtype=wide).to(root.device, root.dtype).reshape(root.shape)


def _number(text: str) -> float | complex:
    text = text.replace("_", "")
    return complex(text) if text.endswith("j") else float(text)


def evaluated(text: str, frame: FrameType | None, more: Mapping[str, Any] | None = None) -> Any:
    """What the expression gives in the script's frame; the RNG stays where it is.

    Args:
        text: what was typed.
        frame: the script's frame.
        more: names that go before those of the script.

    Raises:
        SeedError: it is no expression, or computing it raised.
    """
    try:
        code = compile(ast.parse(text, "<seed>", "eval"), "<seed>", "eval")
    except SyntaxError as error:
        raise SeedError(f"{text!r} is no expression", str(error.msg), WAYS) from None
    return computed(lambda: eval(code, _namespace(frame) | dict(more or {})), text)


def _namespace(frame: FrameType | None) -> dict[str, Any]:
    names: dict[str, Any] = {"torch": torch, "nan": float("nan"), "inf": float("inf")}
    names |= {"exit": sys.exit, "quit": sys.exit}  # those of the interpreter close the script's stdin
    if frame is not None:
        names.update(frame.f_globals)
        names.update(frame_locals.variables(frame))
    return names


def computed(compute: Callable[[], Any], text: str) -> Any:
    """What a piece of an expression gives.

    Raises:
        SeedError: it raised.
    """
    with _random_undisturbed():
        try:
            return compute()
        except KeyboardInterrupt:
            raise  # the person gives up waiting for it
        except BaseException as error:  # exit() too: it must not end the script
            why = ": ".join(part for part in (type(error).__name__, str(error)) if part)
            raise SeedError(f"{text!r} cannot be computed", why, WAYS) from None


@contextmanager
def _random_undisturbed() -> Iterator[None]:
    generators = Generators(python=True)
    try:
        yield
    finally:
        generators.restore()


def _read(path: str) -> Any:
    """A seed from a file: torch.save (tensors only), .npy, or .json."""
    path = os.path.expanduser(path.strip("\"'"))
    try:
        if path.endswith(".json"):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        if path.endswith(".npy"):
            import numpy

            return torch.from_numpy(numpy.load(path, allow_pickle=False))
        return torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        raise SeedError(
            f"cannot read a seed from {path}", f"{type(error).__name__}: {error}", "torch.save a tensor, or use .npy or .json"
        ) from None


def fitted(value: Any, root: Root, text: str) -> torch.Tensor:
    """The value as a seed: numbers fill the root, other shapes must match, real dtypes are converted.

    Raises:
        SeedError: it cannot be one.
    """
    try:
        seed = value.detach() if isinstance(value, torch.Tensor) else torch.as_tensor(value, dtype=_wide(value, root))
    except Exception as error:
        raise SeedError(f"{text!r} gives {type(value).__name__}, not numbers", f"{type(error).__name__}: {error}", WAYS) from None
    shape = tuple(seed.shape)
    if seed.is_meta and root.device.type != "meta":
        raise _misfit(root, shape, seed.dtype, seed.device, "a tensor on meta has no numbers")
    if seed.layout != torch.strided:
        seed = seed.to_dense()
    if seed.dtype.is_complex and not root.dtype.is_complex:
        raise _misfit(root, shape, seed.dtype, seed.device, f"a real {_owner(root)} takes a real {root.typed}")
    if seed.numel() == 1 and shape != root.shape:
        seed = seed.reshape(()).expand(root.shape)
    elif shape != root.shape:
        raise _misfit(root, shape, seed.dtype, seed.device, "the shapes differ")
    return seed.to(root.device, root.dtype).clone(memory_format=torch.contiguous_format)


def _wide(value: Any, root: Root) -> torch.dtype | None:
    """Python numbers keep their precision until they are cast to the root's dtype."""
    if type(value).__module__ == "numpy":
        return None
    return torch.complex128 if root.dtype.is_complex else torch.float64


def _misfit(root: Root, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, why: str) -> SeedError:
    return SeedError(side_by_side(root, shape, dtype, device), why, _remedy(root, shape))


def side_by_side(root: Root, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> str:
    """Root and seed, one under the other."""
    rows = [
        (root.name, _shape(root.shape), _dtype(root.dtype), str(root.device)),
        (root.typed, _shape(shape), _dtype(dtype), str(device)),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return f"the {root.typed} does not fit\n  " + "\n  ".join(lines)


def _owner(root: Root) -> str:
    return "root" if root.typed == "seed" else "tensor"


def _remedy(root: Root, shape: tuple[int, ...]) -> str:
    count = 1
    for extent in shape:
        count *= extent
    if count == root.numel and root.numel > 1:
        return f"the number of elements is right: reshape it to {_shape(root.shape)}"
    if not root.shape:
        return f"{root.name} is a scalar: give one number"
    return f"give {root.numel} cells, one number for all of them, or ones, mean, onehot(0)"


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) if shape else "scalar"


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def seeds_of(
    texts: Mapping[int, str], roots: list[Root], present: list[torch.Tensor | None], frame: FrameType | None
) -> list[torch.Tensor | None]:
    """The present seeds with those replaced whose text is not empty."""
    return [
        parse_seed(texts[number], root, seed, frame) if texts.get(number, "").strip() else seed
        for number, (root, seed) in enumerate(zip(roots, present, strict=True))
    ]
