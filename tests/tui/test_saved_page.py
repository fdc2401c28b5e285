"""The Saved tab as text: what a node keeps, and what keeps the memory of the whole graph."""

from __future__ import annotations

from dataclasses import replace

import graphs
import pytest
from keeping import Kept, inspected, table
from pane_app import view_of

from gradscope.model.saved import EDITED, FREED, PACKED, RECOMPUTED
from gradscope.session.view import State, View
from gradscope.tui import numbers
from gradscope.tui.widgets import keepers, saved_page
from gradscope.tui.widgets.jumps import goal_of
from gradscope.tui.widgets.slice_grid import Slice

MUL, SIN, ADD, X = range(4)
"""nodes of the pictured example; Sin runs second, Mul third"""

KEPT = [Kept(SIN, "self", 0), Kept(MUL, "other", 0), Kept(MUL, "self", 0), Kept(MUL, "mask", 1, (4, 1024))]
STORAGES = [(8, "leaf x"), (16384, "")]


def view(selection: int, **more: object) -> View:
    graph, tape = graphs.two_outputs()
    settings = {"saved": table(KEPT, STORAGES), "stop_number": 1, "stops": 1, **more}
    return view_of(graph, tape, playhead=2, selection=selection, **settings)


def text(shown: View, order: str = keepers.BYTES, parts: dict[int, Slice] | None = None) -> list[str]:
    return [line.plain.rstrip() for line in saved_page.write(shown, 60, parts or {}, order)]


def test_a_node_with_the_values_of_what_it_keeps() -> None:
    looked = inspected(SIN, [((1.0, 2.0), (2,))], [("dim", "1"), ("sizes", "(2, 3)")], ["ctx.big: not a tensor"])
    assert text(view(2, inspected={SIN: looked})) == [
        "held for backward  8 B",
        "  freed with the graph: 0 B",
        "",
        "self  float32 [2]   8 B",
        "  version 0   the memory of leaf x",
        "  kept by Mul too, step 3",
        "  ‖·‖ 2.236  min 1.000  max 2.000  mean 1.500",
        "          0      1",
        "  0   1.000  2.000",
        "",
        "dim    1",
        "sizes  (2, 3)",
        "ctx.big: not a tensor",
    ]


def test_another_node_that_keeps_the_same_is_led_to() -> None:
    lines = saved_page.write(view(2), 60, {}, keepers.BYTES)
    assert [(line.plain, goal_of(line)) for line in lines if goal_of(line) is not None] == [("  kept by Mul too, step 3", MUL)]


def test_a_storage_counts_once_however_often_it_is_kept() -> None:
    lines = text(view(3))
    assert lines[:2] == ["held for backward  16.0 KiB", "  freed with the graph: 16.0 KiB"]
    assert [line for line in lines if line.startswith(("other", "self", "mask"))] == [
        "other  float32 [2]   8 B",
        "self  float32 [2]   8 B",
        "mask  float32 [4,1024]   16.0 KiB",
    ]


def test_a_corner_stands_for_a_big_tensor() -> None:
    looked = inspected(MUL, [((1.0, 2.0), (2,)), ((1.0, 2.0), (2,)), ((1.0,) * 4096, (4, 1024))])
    shown = view(3, inspected={MUL: looked})
    assert [(one.node, one.place, one.shape) for one in saved_page.corners_wanted(shown)] == [(MUL, 2, (4, 1024))]
    part = Slice(((0, 2, 1), (0, 3, 1)), (2, 3), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
    lines = text(shown, parts={2: part})
    assert lines[-5:] == ["  ‖·‖ 64.00  min 1.000  max 1.000  mean 1.000", "  [:, :]", "          0      1      2",
                          "  0   1.000  2.000  3.000", "  1   4.000  5.000  6.000"]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "said"),
    [(FREED, "used it up"), (PACKED, "is not unpacked"), (RECOMPUTED, "checkpoint makes it anew"), (EDITED, "torch will refuse")],
)
def test_why_a_tensor_cannot_be_read(state: int, said: str) -> None:
    kept = table([Kept(SIN, "result", state=state, shape=None if state != EDITED else (2,), versions=(1, 3))])
    lines = text(view(2, saved=kept))
    assert any(said in line for line in lines)
    assert any("version 1 when saved, 3 now" in line for line in lines) == (state == EDITED)


def test_what_is_asked_for_and_what_is_said_meanwhile() -> None:
    fresh = view(2, saved=None)
    assert saved_page.lacks_table(fresh)
    assert text(fresh) == ["asking what the nodes keep…"]
    assert not saved_page.lacks_table(replace(fresh, state=State.RUNNING))
    assert text(replace(fresh, state=State.RUNNING)) == ["nobody asked while the script stood here, and it has run on since"]
    assert text(replace(fresh, state=State.SNAPSHOT)) == ["the snapshot was saved without it"]
    assert saved_page.lacks_node(view(2)) == SIN
    assert saved_page.lacks_node(view(4)) is None  # a leaf
    assert saved_page.lacks_node(view(2, inspected={SIN: inspected(SIN, [])})) is None
    assert saved_page.lacks_node(replace(view(2), stops=2)) is None  # an earlier stop
    assert text(view(2))[-1] == "asking for its values…"
    assert text(replace(view(2), state=State.ENDED))[-1] == "its values were not looked at while it was here"
    assert text(view(1))[0] == "keeps no tensors for backward"


def test_what_keeps_the_memory_of_the_graph() -> None:
    assert text(view(0)) == [
        "held for backward  16.0 KiB in 4 tensors",
        "  freed with the graph: 16.0 KiB",
        "  the rest stays: parameters, inputs, variables",
        "",
        "what keeps my memory   by bytes   Enter: by step",
        "  16.0 KiB  Mul            step 3  :10  +8 B not freed",
        "       0 B  Sin            step 2  :11  +8 B not freed",
    ]
    lines = saved_page.write(view(0), 60, {}, keepers.STEP)
    assert [goal_of(line) for line in lines] == [None, None, None, None, keepers.ORDER, SIN, MUL]
    assert text(view(0), keepers.MODULE)[4:] == [
        "what keeps my memory   by module   Enter: by bytes",
        "  16.0 KiB  all   2 nodes",
    ]


def test_counts_beside_the_tab() -> None:
    assert [saved_page.count(view(row)) for row in range(5)] == [4, 0, 1, 3, 0]
    assert saved_page.count(view(2, saved=None)) is None


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1024**2 - 1, "1.0 MiB"), (3 * 1024**3, "3.0 GiB")],
)
def test_sizes(count: int, said: str) -> None:
    assert numbers.size(count) == said
