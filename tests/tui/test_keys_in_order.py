"""Keys that come in one go: what opens a line takes the rest, whatever the machine is busy with."""

from __future__ import annotations

import pytest
from reports import two_outputs_report
from textual import events
from textual.app import App
from textual.keys import _character_to_key
from textual.widgets import Input
from views import two_outputs_view

from gradscope.session.session import Session
from gradscope.tui import keys_in_order
from gradscope.tui.messages import SeedTyped
from gradscope.tui.screens.help import HelpScreen
from gradscope.tui.widgets.value_grid import ValueGrid


def burst(app: App[int], text: str) -> None:
    """All the keys before any of them is answered; a newline is Enter, an escape character Esc."""
    for character in text:
        named = {"\n": "enter", "\x1b": "escape"}.get(character)
        app.post_message(events.Key(named or _character_to_key(character), None if named else character))


@pytest.fixture
def session() -> Session:
    return Session.from_snapshot(two_outputs_report((1.0, 10.0), (1.0, 1.0)))


async def settle(pilot) -> None:
    """Until every key has been taken."""
    await pilot.pause()
    while pilot.app._typed or not pilot.app._taking.done():
        await pilot.pause()
    await pilot.pause()


async def test_a_seed(shown) -> None:
    told: list[object] = []
    async with shown(two_outputs_view(), told=told) as pilot:
        burst(pilot.app, "s1,1\n")
        await settle(pilot)
        assert {tuple(message.seeds) for message in told if isinstance(message, SeedTyped)} == {("1,1",)}


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_seed_stays_in_the_line_until_enter(shown, size) -> None:
    async with shown(two_outputs_view(), size) as pilot:
        burst(pilot.app, "sonehot(1)")
        await settle(pilot)
        assert pilot.app.query_one(Input).value == "onehot(1)"


async def test_a_step_and_what_comes_behind_it(walked, session) -> None:
    async with walked(session) as pilot:
        burst(pilot.app, "#3\nN")
        await settle(pilot)
        assert session.view().playhead == 2


async def test_a_search(walked, session) -> None:
    async with walked(session) as pilot:
        burst(pilot.app, "/mul\n")
        await settle(pilot)
        assert (session.view().search, session.view().selection, session.view().playhead) == ("mul", 3, 0)


async def test_an_index_of_the_values(walked, session) -> None:
    async with walked(session) as pilot:
        burst(pilot.app, "nv1:2\n")
        await settle(pilot)
        assert str(pilot.app.screen.query_one(ValueGrid).selection) == "1:"


async def test_a_condition(walked, session) -> None:
    async with walked(session) as pilot:
        burst(pilot.app, "Bop:Sin\n\x1bn")
        await settle(pilot)
        assert session.view().breaks == ("op:Sin",)
        assert (session.view().playhead, len(pilot.app.screen_stack)) == (1, 1)


async def test_the_palette(walked, session) -> None:
    async with walked(session) as pilot:
        burst(pilot.app, ":all keys")
        await settle(pilot)
        assert pilot.app.screen.query_one(Input).value == "all keys"


async def test_a_pane_and_its_keys(walked, session) -> None:
    async with walked(session) as pilot:
        burst(pilot.app, "cg5j")
        await settle(pilot)
        assert session.view().selection == 0


async def test_behind_a_screen_that_closes(walked, session) -> None:
    async with walked(session) as pilot:
        burst(pilot.app, "?jjqn")
        await settle(pilot)
        assert not isinstance(pilot.app.screen, HelpScreen)
        assert session.view().playhead == 1


async def test_a_key_does_not_wait_for_a_widget_that_is_gone(walked, session, monkeypatch) -> None:
    monkeypatch.setattr(keys_in_order, "PATIENCE", 30.0)
    async with walked(session) as pilot:
        burst(pilot.app, "?qBn\x1bE\x1bn")
        await settle(pilot)
        assert session.view().playhead == 1
