"""How numbers look on the screen: rounded for the eye only. `exact` gives all that is known of a value.

Zero is written `0` and only zero is: a small number keeps its exponent, so that nothing that is not zero ever looks like zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradscope.model.tensors import Value

UNKNOWN_NUMBER = "?"

NEARLY_ZERO = "~0"
"""not zero, but so far below the grid's power of ten that no float holds the ratio"""

NORM_WIDTH = 7
"""No norm is longer: `1.9e-02`, `4.196`, `10.05`."""

COLUMN = 7
"""The least width of a value in a row of values: room for a sign, so that columns do not jump."""

DECIMALS = 4
"""of a value in a row of values, where there is room"""

GRID_DECIMALS = 3


def special(value: float) -> str:
    """`nan`, `inf`, `-inf`, `0`, `-0`; empty for every other number."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0" if math.copysign(1, value) > 0 else "-0"
    return ""


def norm(value: float | None) -> str:
    """A norm in at most seven characters: four digits where they fit without an exponent."""
    if value is None:
        return UNKNOWN_NUMBER
    if text := special(value):
        return text
    size = abs(value)
    if 0.1 <= size < 9999.5:
        decimals = 3 if size < 9.9995 else 2 if size < 99.995 else 1 if size < 999.95 else 0
        return f"{value:.{decimals}f}"
    text = f"{value:.1e}"
    return text if len(text) <= NORM_WIDTH else f"{value:.0e}"


def gain(ratio: float) -> str:
    """How much a step changes the norm: `×0.42`, `×0.046`, `×12`."""
    if text := special(ratio):
        return f"×{text}"
    if 1e-3 <= abs(ratio) < 9.95:
        return f"×{ratio:.2g}"
    if 9.95 <= abs(ratio) < 9999.5:
        return f"×{ratio:.0f}"
    return f"×{ratio:.1e}"


def digits(value: float) -> str:
    """A factor: four digits and its sign, none that say nothing: `0.7788`, `-1`, `1.2e-09`."""
    if text := special(value):
        return text
    return f"{value:.4g}" if 1e-3 <= abs(value) < 9999.5 else f"{value:.1e}"


def fixed(value: Value, decimals: int = DECIMALS) -> str:
    """A value in a row of values: four decimals, an exponent only where they would say too little."""
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, complex):
        return _joined(fixed(value.real, decimals), fixed(value.imag, decimals))
    if text := special(value):
        return text
    least = max(0.01, 10.0 ** (1 - decimals))
    return f"{value:.{decimals}f}" if least <= abs(value) < 99999.99995 else f"{value:.{decimals - 1}e}"


def beside(values: Sequence[Value], width: int) -> str:
    """Values one after the other, with as many decimals as fit; empty where even two do not."""
    texts = (" ".join(fixed(value, decimals) for value in values) for decimals in (DECIMALS, 3, 2))
    return next((text for text in texts if len(text) <= width), "")


def short(value: Value) -> str:
    """A value that stands alone, as a person would type it: `1.0`, `10.0`, `0.25`, `1e-05`."""
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, complex):
        return _joined(short(value.real), short(value.imag))
    text = f"{value:.6g}"
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def exact(value: Value) -> str:
    """All digits: reading the text back gives the very value."""
    if isinstance(value, complex):
        return _joined(repr(value.real), repr(value.imag))
    return repr(value)


def _joined(real: str, imaginary: str) -> str:
    return f"{real}{imaginary}j" if imaginary.startswith("-") else f"{real}+{imaginary}j"


def shape(extents: Iterable[int]) -> str:
    """`[8,64,384]`, `[]` for a scalar."""
    return f"[{','.join(str(extent) for extent in extents)}]"


def size(count: int) -> str:
    """Bytes as people say them: `12 B`, `4.0 KiB`, `1.5 GiB`."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    place, value = 0, float(count)
    while place < len(units) - 1 and (value >= 1024 or (place and round(value, 1) >= 1024)):
        place, value = place + 1, value / 1024
    return f"{value:.1f} {units[place]}" if place else f"{count} B"


def row(values: Sequence[Value], widths: Sequence[int] = ()) -> list[str]:
    """The values of a row, right-aligned in columns of these widths (by default at least `COLUMN`)."""
    cells = [fixed(value) for value in values]
    return [cell.rjust(widths[i] if i < len(widths) else COLUMN) for i, cell in enumerate(cells)]


@dataclass(frozen=True, slots=True)
class Grid:
    """Numbers that share one power of ten."""

    exponent: int
    """Each cell is its value divided by 10 to this power; 0 for none."""
    cells: list[str]
    """All of one width."""

    @property
    def width(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    @property
    def factor(self) -> str:
        """`×1e-5`; empty when the numbers are as they are."""
        return f"×1e{self.exponent}" if self.exponent else ""


def grid(values: Sequence[Value], exponent: int | None = None) -> Grid:
    """Write numbers with one exponent for all (the given one, else that of the largest)."""
    if exponent is None:
        exponent = common_exponent(values)
    cells = [scaled(value, exponent) for value in values]
    width = max((len(cell) for cell in cells), default=0)
    return Grid(exponent, [cell.rjust(width) for cell in cells])


def common_exponent(values: Iterable[Value]) -> int:
    """The power of ten that brings the largest finite modulus to one digit; 0 where it is readable as it is."""
    largest = max((size for value in values for size in _sizes(value) if math.isfinite(size)), default=0.0)
    if largest == 0 or 0.1 <= largest < 1000:
        return 0
    return math.floor(math.log10(largest))


def _sizes(value: Value) -> tuple[float, ...]:
    if isinstance(value, bool | int):
        return ()
    return (abs(value.real), abs(value.imag)) if isinstance(value, complex) else (abs(value),)


def scaled(value: Value, exponent: int) -> str:
    """One number of a grid, without the blanks before it."""
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, complex):
        return _joined(scaled(value.real, exponent), scaled(value.imag, exponent))
    if text := special(value):
        return text
    shifted = _shift(value, -exponent)
    if abs(shifted) >= 0.5 * 10.0**-GRID_DECIMALS:
        return f"{shifted:.{GRID_DECIMALS}f}"
    return f"{shifted:.0e}" if shifted else NEARLY_ZERO


def _shift(value: float, exponent: int) -> float:
    """value × 10^exponent without overflow on the way: 10^308 is the largest power a float holds."""
    half = exponent // 2
    return value * 10.0**half * 10.0 ** (exponent - half)
