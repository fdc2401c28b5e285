"""What every test of the screen needs: the same terminal everywhere, and an app over a hand-made view or a snapshot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from textual.message import Message
from textual.pilot import Pilot

from gradscope.session.session import Session
from gradscope.session.view import View
from gradscope.tui.app import GradscopeApp

Opened = AbstractAsyncContextManager[Pilot[int]]


@pytest.fixture(autouse=True)
def same_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours, signs and no blinking, whatever the machine that runs the tests has set."""
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_FILTERS", "EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("gradscope.tui.app.wants_ascii", lambda: False)
    monkeypatch.setattr("textual.widgets._input.Input.cursor_blink", False)


class Sight:
    """Reads what an app shows."""

    def __init__(self, app: GradscopeApp) -> None:
        self._app = app

    @property
    def lines(self) -> list[str]:
        """The screen's text, line by line, without blanks at the right."""
        strips = self._app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def pane(self, name: str) -> list[str]:
        """The lines of one pane, its rule first."""
        region = self._app.query_one(f"#{name}").region
        return [line[region.x : region.right].rstrip() for line in self.lines[region.y : region.bottom]]


@pytest.fixture
def sight() -> Callable[[Pilot[int]], Sight]:
    """`sight(pilot).lines`: what the screen shows now."""
    return lambda pilot: Sight(pilot.app)  # type: ignore[arg-type]


@pytest.fixture
def shown() -> Callable[..., Opened]:
    """`async with shown(view, size=(120, 36)) as pilot`: the whole app over a hand-made view; `told` collects messages."""

    @asynccontextmanager
    async def open_app(
        view: View, size: tuple[int, int] = (120, 36), ascii_only: bool = False, told: list[Message] | None = None
    ) -> AsyncIterator[Pilot[int]]:
        app = GradscopeApp(ascii_only=ascii_only)
        async with app.run_test(size=size, message_hook=told.append if told is not None else None) as pilot:
            app.show(view)
            await pilot.pause()
            yield pilot

    return open_app


@pytest.fixture
def walked() -> Callable[..., Opened]:
    """`async with walked(session) as pilot`: the app over a session that keys act on."""

    @asynccontextmanager
    async def open_app(
        session: Session, size: tuple[int, int] = (120, 36), told: list[Message] | None = None
    ) -> AsyncIterator[Pilot[int]]:
        app = GradscopeApp(session=session)
        async with app.run_test(size=size, message_hook=told.append if told is not None else None) as pilot:
            await pilot.pause()
            yield pilot

    return open_app
