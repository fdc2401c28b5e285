"""Which part of a tensor is on the screen: an index typed like `0,3,:,4:8`, of which at most two dimensions are ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

Index = tuple[tuple[int, int, int], ...]
"""(start, stop, step) for each dimension, as `FetchWanted` has it"""

Part = int | range

Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class Selection:
    """A number or a range for each dimension; the last two ranges are the rows and columns of a grid."""

    shape: tuple[int, ...]
    parts: tuple[Part, ...]

    @classmethod
    def whole(cls, shape: Sequence[int]) -> Selection:
        """The first matrix of a tensor."""
        return cls(tuple(shape), tuple(range(extent) for extent in shape)).flat()

    def flat(self) -> Selection:
        """At most two ranges: those before them stand at their first place."""
        ranges = self.ranges
        parts = list(self.parts)
        for dimension in ranges[:-2]:
            part = parts[dimension]
            if isinstance(part, range) and len(part):
                parts[dimension] = part[0]
        return Selection(self.shape, tuple(parts))

    @property
    def ranges(self) -> list[int]:
        """The dimensions that are ranges."""
        return [dimension for dimension, part in enumerate(self.parts) if isinstance(part, range)]

    @property
    def is_empty(self) -> bool:
        return any(isinstance(part, range) and not part for part in self.parts)

    def count(self, which: int) -> int:
        """How many places the last (-1) or the last but one (-2) range has; 1 where there is none."""
        ranges = self.ranges
        if len(ranges) < -which:
            return 1
        part = self.parts[ranges[which]]
        return len(part) if isinstance(part, range) else 1

    def place(self, row: int, column: int) -> tuple[int, ...]:
        """The index of one element of the grid."""
        place = []
        at = dict(self._by_range(row, column))
        for dimension, part in enumerate(self.parts):
            place.append(part[at[dimension]] if isinstance(part, range) else part)
        return tuple(place)

    def piece(self, rows: range, columns: range) -> Index:
        """The index of a rectangle of the grid (both with step 1)."""
        wanted = dict(self._by_range(rows, columns))
        index = []
        for dimension, part in enumerate(self.parts):
            if isinstance(part, range):
                cut = part[wanted[dimension].start : wanted[dimension].stop]
                index.append((cut.start, cut.stop, cut.step))
            else:
                index.append((part, part + 1, 1))
        return tuple(index)

    def _by_range(self, row: Place, column: Place) -> Iterator[tuple[int, Place]]:
        """What is for the rows and what for the columns, by dimension."""
        ranges = self.ranges[-2:]
        return zip(ranges, (row, column)[2 - len(ranges) :], strict=True)

    def moved(self, steps: int) -> Selection:
        """The next (1) or previous (-1) matrix: the numbers before the grid counted up, last first, round the end."""
        parts = list(self.parts)
        for dimension in reversed([d for d, part in enumerate(parts) if isinstance(part, int)]):
            part, extent = parts[dimension], self.shape[dimension]
            if not isinstance(part, int):
                continue
            carry, parts[dimension] = divmod(part + steps, extent)
            if not carry:
                break
            steps = carry
        return Selection(self.shape, tuple(parts))

    def onto(self, place: Sequence[int]) -> Selection:
        """This grid moved so that it has an element, as wide as it can be."""
        parts: list[Part] = []
        for dimension, part in enumerate(self.parts):
            inside = isinstance(part, range) and place[dimension] in part
            parts.append(part if inside else range(self.shape[dimension]) if isinstance(part, range) else place[dimension])
        return Selection(self.shape, tuple(parts))

    def position(self, place: Sequence[int]) -> tuple[int, int]:
        """Row and column of an element that the grid has."""
        found = []
        for dimension in self.ranges[-2:]:
            part = self.parts[dimension]
            found.append(part.index(place[dimension]) if isinstance(part, range) else 0)
        return (0, 0) if not found else (0, found[0]) if len(found) == 1 else (found[0], found[1])

    def __str__(self) -> str:
        """`0, 3, :, 4:8`."""
        texts = []
        for part, extent in zip(self.parts, self.shape, strict=True):
            if isinstance(part, int):
                texts.append(str(part))
            else:
                start = str(part.start) if part.start else ""
                stop = str(part.stop) if part.stop < extent else ""
                texts.append(f"{start}:{stop}" + (f":{part.step}" if part.step != 1 else ""))
        return ", ".join(texts)


def parse(text: str, shape: Sequence[int]) -> Selection:
    """Read what a person typed; dimensions that are not mentioned are whole, as in Python.

    Raises:
        ValueError: with a sentence for the person.
    """
    parts = [part.strip() for part in text.strip().removeprefix("[").removesuffix("]").split(",")]
    parts = [] if parts == [""] else parts
    if parts.count("...") > 1:
        raise ValueError("only one ... is possible")
    named = [part for part in parts if part != "..."]
    if len(named) > len(shape):
        raise ValueError(f"{len(named)} indices, but the tensor has {len(shape)} dimensions")
    fill = [":"] * (len(shape) - len(named))
    at = parts.index("...") if "..." in parts else len(parts)
    full = [*parts[:at], *fill, *parts[at + 1 :]]
    chosen = [_part(part, dimension, extent) for dimension, (part, extent) in enumerate(zip(full, shape, strict=True))]
    return Selection(tuple(shape), tuple(chosen)).flat()


def _part(text: str, dimension: int, extent: int) -> Part:
    pieces = text.split(":")
    try:
        numbers = [int(piece) if piece.strip() else None for piece in pieces]
    except ValueError:
        raise ValueError(f"{text!r} is no index: type a number, : or a range as 4:8") from None
    if len(numbers) == 1:
        number = numbers[0]
        if number is None:
            raise ValueError("an index is missing between two commas")
        if not -extent <= number < extent:
            raise ValueError(f"dimension {dimension} has {extent} places: {number} is outside")
        return number % extent
    if len(numbers) > 3:
        raise ValueError(f"{text!r} is no range: at most start:stop:step")
    if len(numbers) == 3 and numbers[2] is not None and numbers[2] <= 0:
        raise ValueError("the step of a range must be 1 or more")
    return range(extent)[slice(*numbers)]


def chunks(shape: Sequence[int], most: int) -> Iterator[Index]:
    """Indices that go through a tensor in row-major order, each with at most `most` elements (where one element fits)."""
    whole = tuple((0, extent, 1) for extent in shape)
    size, dimension = 1, len(shape)
    while dimension and size * shape[dimension - 1] <= most:
        dimension -= 1
        size *= shape[dimension]
    if not dimension:
        yield whole
        return
    block = max(1, most // max(size, 1))
    yield from _blocks(shape, dimension - 1, block, whole)


def _blocks(shape: Sequence[int], split: int, block: int, whole: Index) -> Iterator[Index]:
    lead = [0] * split
    while True:
        fixed = tuple((place, place + 1, 1) for place in lead)
        for start in range(0, shape[split], block):
            yield (*fixed, (start, min(start + block, shape[split]), 1), *whole[split + 1 :])
        for dimension in reversed(range(split)):
            lead[dimension] += 1
            if lead[dimension] < shape[dimension]:
                break
            lead[dimension] = 0
        else:
            return
