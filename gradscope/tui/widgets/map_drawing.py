"""Draws a layout: boxes, and the lines between them, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from textual.content import Content

from gradscope.model.layers import Box, Layers, Wire
from gradscope.tui.colours import MUTED, TEXT
from gradscope.tui.widgets.line import cells

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
_SIGNS = {
    **{UP | DOWN: "│", LEFT | RIGHT: "─", DOWN | RIGHT: "╭", DOWN | LEFT: "╮", UP | RIGHT: "╰", UP | LEFT: "╯"},
    **{UP | DOWN | RIGHT: "├", UP | DOWN | LEFT: "┤", DOWN | LEFT | RIGHT: "┬", UP | LEFT | RIGHT: "┴"},
    UP | DOWN | LEFT | RIGHT: "┼",
}

LIGHT, HEAVY = tuple("┌─┐│└┘┴┬"), tuple("┏━┓┃┗┛┻┳")
"""corners and sides of a box, and where lines enter and leave it"""


@dataclass(frozen=True, slots=True)
class Face:
    """What is written in a box."""

    text: str
    style: str = TEXT
    chosen: bool = False


class Canvas:
    """Signs by row and column, each with a style."""

    def __init__(self, width: int, height: int) -> None:
        self._rows = [[(" ", "")] * width for _ in range(height)]

    def put(self, row: int, column: int, text: str, style: str) -> None:
        """Write signs of one cell each; a wide one takes the blank after it away."""
        for sign in text:
            self._rows[row][column] = (sign, style)
            column += 1
            for _ in range(cells(sign) - 1):
                self._rows[row][column] = ("", style)
                column += 1

    def lines(self) -> list[Content]:
        return [Content.assemble(*_runs(row)).rstrip() for row in self._rows]


def _runs(row: list[tuple[str, str]]) -> list[tuple[str, str]]:
    runs: list[tuple[str, str]] = []
    for sign, style in row:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + sign, style)
        else:
            runs.append((sign, style))
    return runs


def height(layers: Layers, framed: bool) -> int:
    """How many lines a drawing takes."""
    count = 1 + max((box.layer for box in layers.boxes.values()), default=-1)
    return count * (3 if framed else 1) + sum(max(1 - framed, layers.tracks(gap)) for gap in range(count - 1))


def draw(layers: Layers, faces: Mapping[int, Face], framed: bool) -> list[Content]:
    """The drawing's lines.

    Args:
        layers: where everything stands; a box has room for its face, and two cells beside it.
        faces: what stands in the box of each node.
        framed: boxes of three lines with a border; else of one, in brackets.
    """
    canvas = Canvas(layers.width, height(layers, framed))
    tall, top = (3 if framed else 1), 0
    for layer in range(len(layers.passing)):
        for column in layers.passing[layer]:
            for row in range(top, top + tall):
                canvas.put(row, column, "│", MUTED)
        ends = {end for wire in layers.wires[layer - 1] for end in wire.ends} if layer else set()
        sends = {wire.top for wire in layers.wires[layer]} if layer < len(layers.wires) else set()
        for node, box in layers.boxes.items():
            if box.layer == layer:
                (_frame if framed else _bracket)(canvas, top, box, faces[node], ends, sends)
        top += tall
        if layer < len(layers.wires):
            rows = max(1 - framed, layers.tracks(layer))
            _wires(canvas, top, rows, layers.wires[layer])
            top += rows
    return canvas.lines()


def _frame(canvas: Canvas, top: int, box: Box, face: Face, ends: set[int], sends: set[int]) -> None:
    left_top, side, right_top, upright, left_low, right_low, entry, exit_ = HEAVY if face.chosen else LIGHT
    style = face.style if face.chosen else MUTED
    inside = range(box.left + 1, box.left + box.width - 1)
    upper = "".join(entry if column in ends else side for column in inside)
    lower = "".join(exit_ if column in sends and column == box.center else side for column in inside)
    canvas.put(top, box.left, left_top + upper + right_top, style)
    canvas.put(top + 1, box.left, upright, style)
    canvas.put(top + 1, box.left + 1, _centred(face.text, box.width - 2), face.style)
    canvas.put(top + 1, box.left + box.width - 1, upright, style)
    canvas.put(top + 2, box.left, left_low + lower + right_low, style)


def _bracket(canvas: Canvas, top: int, box: Box, face: Face, ends: set[int], sends: set[int]) -> None:
    canvas.put(top, box.left, "[" + _centred(face.text, box.width - 2) + "]", face.style)


def _centred(text: str, width: int) -> str:
    left = (width - cells(text)) // 2
    return " " * left + text + " " * (width - cells(text) - left)


def _wires(canvas: Canvas, top: int, rows: int, wires: list[Wire]) -> None:
    """Where two lines cross, the upright one goes over the level one."""
    level: dict[tuple[int, int], int] = {}
    upright: dict[tuple[int, int], int] = {}
    for wire in wires:
        if wire.straight:
            upright.update(((row, wire.top), UP | DOWN) for row in range(rows))
            continue
        own = {(wire.track, column): LEFT | RIGHT for column in range(wire.low, wire.high + 1)}
        own[wire.track, wire.low] &= ~LEFT
        own[wire.track, wire.high] &= ~RIGHT
        for column, sides, over in (
            (wire.top, UP, range(wire.track)),
            *((e, DOWN, range(wire.track + 1, rows)) for e in wire.ends),
        ):
            own[wire.track, column] = own.get((wire.track, column), 0) | sides
            upright.update(((row, column), UP | DOWN) for row in over)
        level.update(own)
    for (row, column), sides in (level | upright).items():
        canvas.put(top + row, column, _SIGNS[sides], MUTED)
