"""A small graph drawn in layers: where each box stands, and how the lines between two layers run. Columns are terminal cells.

After Sugiyama, Tagawa and Toda (1981): layers by longest path, order within a layer by barycenters, a place of its own in each
layer that a long edge passes. What one node sends to several others is one line that branches. Between two layers a line comes
down, runs along a row of its own (a track) and goes down again at each of its ends; no two lines ever share a stretch, so that a
line can be followed by eye.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

SPACE = 2
"""cells between two boxes"""
SWEEPS = 6
SHIFTS = (0, 1, -1, 2, -2, 3, -3, 4, -4)
"""by how many cells all lower layers are moved where lines would have to share a stretch"""


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node stands."""

    layer: int
    left: int
    width: int

    @property
    def center(self) -> int:
        return self.left + self.width // 2


@dataclass(frozen=True, slots=True)
class Wire:
    """What one node sends, between one layer and the next."""

    source: int
    top: int
    """the column in which it comes down from above"""
    ends: tuple[int, ...]
    """the columns in which it goes on down, ascending"""
    track: int = -1
    """the row that it runs along; -1 where it goes straight down"""

    @property
    def low(self) -> int:
        return min(self.top, self.ends[0])

    @property
    def high(self) -> int:
        return max(self.top, self.ends[-1])

    @property
    def straight(self) -> bool:
        return self.ends == (self.top,)


@dataclass(frozen=True, slots=True)
class Layers:
    """A layout. Every edge goes from a layer to a lower one (of a greater number)."""

    boxes: dict[int, Box]
    wires: list[list[Wire]]
    """by gap: `wires[i]` lie between layer i and layer i + 1"""
    passing: list[list[int]]
    """by layer: the columns in which lines pass between its boxes"""
    width: int

    def tracks(self, gap: int) -> int:
        """How many rows the lines of a gap run along."""
        return 1 + max((wire.track for wire in self.wires[gap]), default=-1)


@dataclass(slots=True)
class _Place:
    """A box, or the place where a long line passes a layer."""

    node: int
    layer: int
    width: int
    passes: bool = False
    above: list[_Place] = field(default_factory=list)
    below: list[_Place] = field(default_factory=list)
    left: int = 0

    @property
    def center(self) -> int:
        return self.left + self.width // 2


def layout(widths: Mapping[int, int], edges: Iterable[tuple[int, int]]) -> Layers | None:
    """Lay out a graph without cycles.

    Args:
        widths: how many cells each node's box takes at least.
        edges: (source, target) pairs; doubles count once.

    Returns:
        None where the lines are too tangled to be told apart.
    """
    rows = _places(widths, sorted(set(edges)))
    _order(rows)
    _spread(rows)
    wires: list[list[Wire]] = []
    for gap in range(len(rows) - 1):
        found = _gap(rows, gap)
        if found is None:
            return None
        wires.append(found)
    least = min((place.left for row in rows for place in row), default=0)
    boxes = {place.node: Box(place.layer, place.left - least, place.width) for row in rows for place in row if not place.passes}
    width = max((place.left - least + place.width for row in rows for place in row), default=0)
    passing = [[place.left - least for place in row if place.passes] for row in rows]
    return Layers(boxes, [[_moved(wire, -least) for wire in gap] for gap in wires], passing, width)


def _places(widths: Mapping[int, int], edges: Sequence[tuple[int, int]]) -> list[list[_Place]]:
    """Boxes by layer, and for each long line a place in every layer that it passes."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(widths)
    graph.add_edges_from(edges)
    rows: list[list[_Place]] = []
    box: dict[int, _Place] = {}
    for layer, nodes in enumerate(nx.topological_generations(graph)):
        room = {node: max(widths[node], 2 * graph.in_degree(node) + 1) for node in nodes}
        box.update((node, _Place(node, layer, room[node])) for node in sorted(nodes))
        rows.append([box[node] for node in sorted(nodes)])
    passing: dict[tuple[int, int], _Place] = {}
    for source, target in edges:
        before = box[source]
        for layer in range(before.layer + 1, box[target].layer):
            if (source, layer) not in passing:
                passing[source, layer] = _Place(source, layer, 1, passes=True)
                rows[layer].append(passing[source, layer])
                _join(before, passing[source, layer])
            before = passing[source, layer]
        _join(before, box[target])
    return rows


def _join(above: _Place, below: _Place) -> None:
    above.below.append(below)
    below.above.append(above)


# ---------------------------------------------------------------- order within layers


def _order(rows: list[list[_Place]]) -> None:
    """Sort each layer by the barycenters of what is above and below it; the order with the fewest crossings is kept."""
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for before, row in pairwise(rows if down else rows[::-1]):
            at = {id(place): number for number, place in enumerate(before)}
            own = {id(place): number for number, place in enumerate(row)}

            def wish(place: _Place, at: dict[int, int] = at, own: dict[int, int] = own, down: bool = down) -> float:
                near = [at[id(other)] for other in (place.above if down else place.below)]
                return sum(near) / len(near) if near else own[id(place)]

            row.sort(key=wish)
        if (count := _crossings(rows)) < fewest:
            best, fewest = [list(row) for row in rows], count
    rows[:] = best


def _crossings(rows: list[list[_Place]]) -> int:
    count = 0
    for above, below in pairwise(rows):
        at = {id(place): number for number, place in enumerate(below)}
        ends = [at[id(target)] for place in above for target in sorted(place.below, key=lambda other: at[id(other)])]
        count += sum(left > right for place, left in enumerate(ends) for right in ends[place + 1 :])
    return count


# ---------------------------------------------------------------- columns


def _spread(rows: list[list[_Place]]) -> None:
    """Move the places under and over their neighbours, as far as the order and the spaces between them allow."""
    for row in rows:
        _settle(row, [0.0] * len(row))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else rows[::-1]:
            _settle(row, [_wish(place, place.above if down else place.below) for place in row])


def _wish(place: _Place, near: Sequence[_Place]) -> float:
    """The left edge that would put a place in the middle of its neighbours."""
    return sum(other.center for other in near) / len(near) - place.width // 2 if near else float(place.left)


def _settle(row: Sequence[_Place], wishes: Sequence[float]) -> None:
    """The left edges nearest to the wishes (least squares) that keep order and spaces: pool adjacent violators."""
    offsets, offset = [], 0
    for place in row:
        offsets.append(offset)
        offset += place.width + SPACE
    pools: list[tuple[float, int]] = []
    """(sum of wishes, how many), each less the offset"""
    for wish, start in zip(wishes, offsets, strict=True):
        pools.append((wish - start, 1))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            (left, many), (right, more) = pools[-2:]
            pools[-2:] = [(left + right, many + more)]
    free = [round(total / many) for total, many in pools for _ in range(many)]
    for place, start, base in zip(row, offsets, free, strict=True):
        place.left = base + start


# ---------------------------------------------------------------- lines


def _gap(rows: list[list[_Place]], gap: int) -> list[Wire] | None:
    """The lines below a layer; all lower layers are moved aside where these could not be told apart."""
    moved = 0
    for shift in SHIFTS:
        for row in rows[gap + 1 :]:
            for place in row:
                place.left += shift - moved
        moved = shift
        tracked = _tracked(_wires(rows[gap], rows[gap + 1]))
        if tracked is not None:
            return tracked
    return None


def _wires(above: Sequence[_Place], below: Sequence[_Place]) -> list[Wire]:
    """Each line enters a box in a column of its own."""
    ends: dict[int, list[int]] = {id(place): [] for place in above}
    for target in below:
        first = target.center - (len(target.above) - 1)
        for number, source in enumerate(sorted(target.above, key=lambda place: place.center)):
            ends[id(source)].append(first + 2 * number)
    return [Wire(place.node, place.center, tuple(sorted(ends[id(place)]))) for place in above if place.below]


def _tracked(wires: list[Wire]) -> list[Wire] | None:
    """Give each line that does not go straight down a track.

    One that comes down where another goes down must have left that column before the other enters it: None where that goes
    round in a circle.
    """
    done: list[Wire] = [wire for wire in wires if wire.straight]
    waiting = sorted((wire for wire in wires if not wire.straight), key=lambda wire: (wire.low, wire.high))
    while waiting:
        free = next((one for one in waiting if not any(other.top in one.ends for other in waiting if other is not one)), None)
        if free is None:
            return None
        waiting.remove(free)
        before = (other.track for other in done if other.top in free.ends)
        track = max(before, default=-1) + 1
        while any(other.track == track and other.low <= free.high and free.low <= other.high for other in done):
            track += 1
        done.append(Wire(free.source, free.top, free.ends, track))
    return done


def _moved(wire: Wire, by: int) -> Wire:
    return Wire(wire.source, wire.top + by, tuple(end + by for end in wire.ends), wire.track)
