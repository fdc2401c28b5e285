"""Layouts by property: edges go down, boxes keep apart, every line can be followed to where it goes and nowhere else."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gradscope.model.layers import Layers, layout

Edges = set[tuple[int, int]]


@st.composite
def drawings(draw: st.DrawFn) -> tuple[dict[int, int], Edges]:
    """Up to 14 nodes, each edge from a smaller to a greater number."""
    count = draw(st.integers(1, 14))
    widths = {node: draw(st.integers(3, 12)) for node in range(count)}
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] != pair[1])
    edges = draw(st.sets(pairs, max_size=2 * count)) if count > 1 else set()
    return widths, {(min(pair), max(pair)) for pair in edges}


def followed(layers: Layers) -> Edges:
    """The edges that the lines draw, read as a person reads them: by columns alone."""
    found: Edges = set()
    for source, box in layers.boxes.items():
        columns, layer = {box.center}, box.layer
        while columns and layer < len(layers.wires):
            ends = {end for wire in layers.wires[layer] for end in wire.ends if wire.top in columns and wire.source == source}
            layer += 1
            below = {node: other for node, other in layers.boxes.items() if other.layer == layer}
            hit = {end: node for end in ends for node, other in below.items() if other.left < end < other.left + other.width - 1}
            found |= {(source, node) for node in hit.values()}
            columns = ends - hit.keys()
            assert columns <= set(layers.passing[layer])
    return found


@settings(max_examples=150, deadline=None)
@given(drawings())
def test_every_edge_goes_down_and_can_be_followed(drawing: tuple[dict[int, int], Edges]) -> None:
    widths, edges = drawing
    layers = layout(widths, edges)
    if layers is None:
        return
    assert layers.boxes.keys() == widths.keys()
    assert all(layers.boxes[source].layer < layers.boxes[target].layer for source, target in edges)
    assert followed(layers) == edges


@settings(max_examples=150, deadline=None)
@given(drawings())
def test_nothing_overlaps(drawing: tuple[dict[int, int], Edges]) -> None:
    widths, edges = drawing
    layers = layout(widths, edges)
    if layers is None:
        return
    for layer, passing in enumerate(layers.passing):
        cells = [(box.left, box.left + box.width) for box in layers.boxes.values() if box.layer == layer]
        cells = sorted(cells + [(column, column + 1) for column in passing])
        assert all(right < left for (_, right), (left, _) in pairwise(cells))
        assert not cells or (cells[0][0] >= 0 and cells[-1][1] <= layers.width)
    assert all(box.width >= widths[node] for node, box in layers.boxes.items())


@settings(max_examples=150, deadline=None)
@given(drawings())
def test_no_two_lines_share_a_stretch(drawing: tuple[dict[int, int], Edges]) -> None:
    layers = layout(*drawing)
    for gap in layers.wires if layers is not None else ():
        ends = [end for wire in gap for end in wire.ends]
        assert len(ends) == len(set(ends))
        for one in gap:
            for other in gap:
                if one is other:
                    continue
                if one.track == other.track >= 0:
                    assert one.high < other.low or other.high < one.low
                if one.top in other.ends:
                    assert 0 <= one.track < other.track


def test_a_diamond_with_a_long_edge() -> None:
    layers = layout({0: 5, 1: 5, 2: 5, 3: 5}, [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)])
    assert layers is not None
    assert [layers.boxes[node].layer for node in range(4)] == [0, 1, 1, 2]
    assert layers.boxes[3].width == 7
    assert [len(passing) for passing in layers.passing] == [0, 1, 0]
    assert followed(layers) == {(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)}


def test_a_chain_goes_straight_down() -> None:
    layers = layout({node: 6 for node in range(4)}, [(0, 1), (1, 2), (2, 3)])
    assert layers is not None
    assert layers.width == 6
    assert all(wire.straight for gap in layers.wires for wire in gap)
    assert [layers.tracks(gap) for gap in range(3)] == [0, 0, 0]


def test_two_that_send_to_the_same_two_are_told_apart() -> None:
    layers = layout({0: 7, 1: 7, 2: 7, 3: 7}, [(0, 2), (0, 3), (1, 2), (1, 3)])
    assert layers is not None
    assert layers.tracks(0) == 2
    assert followed(layers) == {(0, 2), (0, 3), (1, 2), (1, 3)}


def test_one_node_and_none() -> None:
    alone = layout({7: 4}, [])
    assert alone is not None
    assert (alone.boxes[7].left, alone.width, alone.wires) == (0, 4, [])
    empty = layout({}, [])
    assert empty is not None
    assert empty.boxes == {}
