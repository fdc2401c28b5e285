"""A backward that raises: its row, its page, the header, the seed's page; in a snapshot no key that cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from endings import ended
from graphs import two_outputs_drawing
from views import view_of

from gradscope.model.columns import Change, Failure
from gradscope.model.places import UNKNOWN, CodePlace
from gradscope.model.tape import Tape
from gradscope.session.stepping import Walk
from gradscope.session.view import State, View

SIN, X = 1, 3


def raising(step: int, node: int = SIN, at: int = 2, failure: Failure | None = None, **more: object) -> View:
    """The pictured example, whose Sin raised at step 2."""
    graph, columns = ended(two_outputs_drawing(), at, node)
    graph.columns.backward_code[SIN] = CodePlace("/home/ada/two_outputs.py", 2, "Bad.backward")
    for name, value in more.items():
        setattr(columns, name, value)
    columns.failure = failure or columns.failure
    walk = Walk(graph, Tape(columns, graph))
    walk.to_step(step)
    return view_of(walk, [walk.tape])


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_the_row_says_that_it_raised_and_what_arrived(shown, sight, size) -> None:
    async with shown(raising(2), size) as pilot:
        rows = sight(pilot).pane("tape")
    assert "▶    2 " in rows[4]
    assert "✗" in rows[4]
    assert rows[4].split()[-2:] == ["10.05", "━━━╸"]


async def test_a_pending_one_is_marked_and_shows_no_value(shown, sight) -> None:
    async with shown(raising(1)) as pilot:
        row = sight(pilot).pane("tape")[4]
    assert "✗" in row
    assert row.split()[-1] == "·"


async def test_its_page_has_what_arrived_the_error_and_its_line(shown, sight) -> None:
    async with shown(raising(2)) as pilot:
        page = sight(pilot).pane("node")
    text = "\n".join(page)
    assert next(line for line in page if "arrives" in line).split()[1:4] == ["∂b", "1.0000", "10.0000"]
    assert page[0].startswith("─3 SinBackward0   b = x.sin()   step 2")
    assert "sends    " in text
    assert "nothing" in text
    assert "✗ the pass ends here: ValueError: too big" in text
    assert "raised at two_outputs.py:3" in text
    assert "i: this backward again, under pdb" in text


async def test_what_a_what_if_made_of_it_is_not_told(shown, sight) -> None:
    async with shown(raising(2, changes=[Change(SIN, 0, text="*2")])) as pilot:
        text = "\n".join(sight(pilot).pane("node"))
        row = sight(pilot).pane("tape")[4]
    assert "what its hooks or what-ifs made of this was not" in text
    assert "arrives" not in text
    assert "1 of 1 contribution" in text
    assert "10.05" not in row


async def test_a_leaf_whose_hook_raised_has_no_total(shown, sight) -> None:
    async with shown(raising(4, X, 4)) as pilot:
        text = "\n".join(sight(pilot).pane("node"))
    assert "= so far" in text
    assert "= total" not in text
    assert "✗ the pass ends here: ValueError: too big" in text


async def test_a_snapshot_offers_no_pdb(shown, sight) -> None:
    async with shown(replace(raising(2), state=State.SNAPSHOT)) as pilot:
        text = "\n".join(sight(pilot).pane("node"))
    assert "✗ the pass ends here" in text
    assert "pdb" not in text


@pytest.mark.parametrize(
    ("view", "width", "said"),
    [
        (raising(0), 120, "step 0/2 · no findings · ✗ Sin: ValueError: too big"),
        (raising(0, X, 4), 120, "step 0/4 · no findings · ✗ x: ValueError: too big"),
        (
            raising(0, failure=Failure(UNKNOWN, "ValueError", "too\nbig", "")),
            120,
            "step 0/1 · no findings · ✗ ValueError: too big",
        ),
        (raising(0, failure=Failure(SIN, "ValueError", "big " * 30, "")), 120, "✗ Sin: ValueError: big big big big big big …"),
        (raising(0), 60, "step 0/2 · no findings · the pass failed"),
    ],
)
async def test_the_header_says_what_ended_the_pass(shown, sight, view: View, width: int, said: str) -> None:
    async with shown(view, (width, 24)) as pilot:
        assert sight(pilot).lines[0].endswith(said)


async def test_the_seeds_page_says_where_the_pass_ends(shown, sight) -> None:
    async with shown(raising(0)) as pilot:
        text = " ".join(" ".join(line.strip("─│ ") for line in sight(pilot).pane("node")).split())
    assert "✗ the pass ends at SinBackward0, step 2: ValueError: too big raised at two_outputs.py:3" in text
